"""Every verb of the command line: its group, its module, and one line on what it does."""

from __future__ import annotations

from passdown.model.values import NamedTuple


class Verb(NamedTuple):
    """One verb."""

    name: str
    group: str
    line: str


_START, _HOSTS, _WRITE, _RUN, _TELL, _READ, _GATES, _SAFE, _SERVE, _TOOLS = (
    "Start",
    "Serve coding agents",
    "Record",
    "Run agents",
    "Tell the next agent",
    "Read",
    "Gates",
    "Safety",
    "Serve over HTTP",
    "Tools",
)

VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("init", _START, "make a workspace; set coding agents up, and undo it"),
        Verb("demo", _START, "watch four agents build a small thing, offline"),
        Verb("mcp", _HOSTS, "serve agents over MCP, on standard input and output"),
        Verb("hook", _HOSTS, "answer a coding agent's host at one of its events"),
        Verb("plugin", _HOSTS, "write a plugin for Claude Code or Codex, with a skill"),
        Verb("task", _WRITE, "make, list, show and change tasks"),
        Verb("handoff", _WRITE, "hand a task on, from a file or from flags"),
        Verb("draft", _WRITE, "what was seen of the work on a task, to be completed"),
        Verb("ingest", _WRITE, "record the handoffs that stand in task files"),
        Verb("migrate", _WRITE, "turn freeform notes into handoffs"),
        Verb("decide", _WRITE, "record one decision and why"),
        Verb("note", _WRITE, "record a pattern or a gotcha"),
        Verb("warn", _WRITE, "record a warning that stays with a task"),
        Verb("knowledge", _WRITE, "write nodes and edges down, pack and exchange them"),
        Verb("mark", _WRITE, "resolve, answer, close or retract an item"),
        Verb("run", _RUN, "run a relay of agents on a task, and watch it"),
        Verb("runs", _RUN, "what runs there are; answer one, stop one"),
        Verb("worker", _RUN, "take turns of runs, and express items"),
        Verb("express", _RUN, "small work that overtakes: send, list, show"),
        Verb("agents", _RUN, "where each agent stands, and on which task"),
        Verb("brief", _TELL, "what an agent needs to know of a task, within a budget"),
        Verb("switch", _TELL, "the whole context of an agent that takes over"),
        Verb("artifact", _TELL, "save, list and check what agents leave behind"),
        Verb("context", _TELL, "what the past has for a task"),
        Verb("rules", _TELL, "rules by layer: list, show, and put them into a prompt"),
        Verb("why", _TELL, "whether an agent was told an item, and why not"),
        Verb("measure", _TELL, "how contexts grow from switch to switch"),
        Verb("state", _READ, "a task's whole state, now or at a version"),
        Verb("summary", _READ, "a task in a few lines, or whether one still holds"),
        Verb("log", _READ, "records, newest first"),
        Verb("show", _READ, "one item and the record it came from"),
        Verb("diff", _READ, "what differs between two versions of a task"),
        Verb("history", _READ, "every entry that a task has had for a path"),
        Verb("recall", _READ, "find what was recorded, by words and by meaning"),
        Verb("graph", _READ, "the knowledge graph: parts, paths, tags, pictures"),
        Verb("journal", _READ, "places, blockers and gotchas, of a task or of all"),
        Verb("inbox", _READ, "the handoffs that wait for an agent"),
        Verb("gate", _GATES, "list, approve, reject and record gates"),
        Verb("verify", _SAFE, "check that the store says what was written"),
        Verb("heads", _SAFE, "export the heads, to be kept elsewhere for verify"),
        Verb("backup", _SAFE, "copy the store while others write, verified"),
        Verb("copy", _SAFE, "copy one store into another, verified"),
        Verb("export", _SAFE, "write a bundle of one task or of everything"),
        Verb("import", _SAFE, "take in ADRs, beads, MCP memory, notes or a bundle"),
        Verb("audit", _SAFE, "what is remembered twice, out of date or untold"),
        Verb("embed", _SAFE, "make the vectors that search by meaning needs"),
        Verb("reindex", _SAFE, "make every derived row again from the records"),
        Verb("doctor", _SAFE, "facts and findings about this workspace"),
        Verb("serve", _SERVE, "the HTTP API, its events and MCP, behind tokens"),
        Verb("token", _SERVE, "make, list and revoke tokens for a server"),
        Verb("schema", _TOOLS, "the JSON Schema of a handoff, a task or a state"),
        Verb("template", _TOOLS, "an empty task file with a handoff section"),
        Verb("completion", _TOOLS, "a completion script for your shell"),
    )
}


MODULES = {
    verb: module
    for module, verbs in (
        ("passdown.surfaces.cli.starting", "init"),
        ("passdown.surfaces.cli.demo", "demo"),
        ("passdown.surfaces.cli.serving_mcp", "mcp"),
        ("passdown.surfaces.cli.hooking", "hook"),
        ("passdown.surfaces.cli.plugging", "plugin"),
        ("passdown.surfaces.cli.tasks", "task"),
        ("passdown.surfaces.cli.handing", "handoff"),
        ("passdown.surfaces.cli.drafts", "draft"),
        ("passdown.surfaces.cli.ingesting", "ingest"),
        ("passdown.surfaces.cli.migrating", "migrate"),
        ("passdown.surfaces.cli.noting", "decide note warn mark"),
        ("passdown.surfaces.cli.knowing", "knowledge"),
        ("passdown.surfaces.cli.relaying", "run"),
        ("passdown.surfaces.cli.runs", "runs"),
        ("passdown.surfaces.cli.working", "worker"),
        ("passdown.surfaces.cli.expressing", "express"),
        ("passdown.surfaces.cli.agents", "agents"),
        ("passdown.surfaces.cli.briefing", "brief why"),
        ("passdown.surfaces.cli.switching", "switch artifact"),
        ("passdown.surfaces.cli.gathering", "context"),
        ("passdown.surfaces.cli.ruling", "rules"),
        ("passdown.surfaces.cli.measuring", "measure"),
        ("passdown.surfaces.cli.reading", "state summary inbox"),
        ("passdown.surfaces.cli.history", "log show diff history"),
        ("passdown.surfaces.cli.recalling", "recall embed"),
        ("passdown.surfaces.cli.graphing", "graph"),
        ("passdown.surfaces.cli.journalling", "journal audit"),
        ("passdown.surfaces.cli.gates", "gate"),
        ("passdown.surfaces.cli.safety", "verify heads backup reindex doctor"),
        ("passdown.surfaces.cli.copying", "copy"),
        ("passdown.surfaces.cli.bundles", "export import"),
        ("passdown.surfaces.cli.serving", "serve"),
        ("passdown.surfaces.cli.tokens", "token"),
        ("passdown.surfaces.cli.schemas", "schema template"),
        ("passdown.surfaces.cli.completion", "completion"),
    )
    for verb in verbs.split()
}
"""The module of each verb, imported only when the verb is used."""


def overview() -> str:
    """All verbs by group, for `passdown` alone and `passdown help`."""
    lines = ["usage: passdown VERB [...]", "", "Hand work from one agent to the next.", ""]
    group = ""
    for verb in VERBS.values():
        if verb.group != group:
            lines += ["", verb.group] if group else [verb.group]
            group = verb.group
        lines.append(f"  {verb.name:<10} {verb.line}")
    return "\n".join(
        [
            *lines,
            "",
            "passdown help VERB (or passdown VERB --help) shows options and examples.",
            "--store URL or PASSDOWN_STORE names a store; default: the nearest .passdown/ folder.",
            "Exit codes: 0 done, 1 refused or found wanting, 2 misuse.",
        ]
    )
