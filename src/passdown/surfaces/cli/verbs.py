"""Every verb of the command line: its group, its module, and one line on what it does."""

from __future__ import annotations

from passdown.model.values import NamedTuple


class Verb(NamedTuple):
    """One verb: `module` is imported only when the verb is used."""

    name: str
    group: str
    module: str
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
        Verb("init", _START, "starting", "make a workspace; set coding agents up, and undo it"),
        Verb("demo", _START, "demo", "watch four agents build a small thing, offline"),
        Verb("mcp", _HOSTS, "serving_mcp", "serve agents over MCP, on standard input and output"),
        Verb("hook", _HOSTS, "hooking", "answer a coding agent's host at one of its events"),
        Verb("plugin", _HOSTS, "plugging", "write a plugin for Claude Code or Codex, with a skill"),
        Verb("task", _WRITE, "tasks", "make, list, show and change tasks"),
        Verb("handoff", _WRITE, "handing", "hand a task on, from a file or from flags"),
        Verb("draft", _WRITE, "drafts", "what was seen of the work on a task, to be completed"),
        Verb("ingest", _WRITE, "ingesting", "record the handoffs that stand in task files"),
        Verb("migrate", _WRITE, "migrating", "turn freeform notes into handoffs"),
        Verb("decide", _WRITE, "noting", "record one decision and why"),
        Verb("note", _WRITE, "noting", "record a pattern or a gotcha"),
        Verb("warn", _WRITE, "noting", "record a warning that stays with a task"),
        Verb("knowledge", _WRITE, "knowing", "write nodes and edges down, pack and exchange them"),
        Verb("mark", _WRITE, "noting", "resolve, answer, close or retract an item"),
        Verb("run", _RUN, "relaying", "run a relay of agents on a task, and watch it"),
        Verb("runs", _RUN, "runs", "what runs there are; answer one, stop one"),
        Verb("worker", _RUN, "working", "take turns of runs, and express items"),
        Verb("express", _RUN, "expressing", "small work that overtakes: send, list, show"),
        Verb("agents", _RUN, "agents", "where each agent stands, and on which task"),
        Verb("brief", _TELL, "briefing", "what an agent needs to know of a task, within a budget"),
        Verb("switch", _TELL, "switching", "the whole context of an agent that takes over"),
        Verb("artifact", _TELL, "switching", "save, list and check what agents leave behind"),
        Verb("context", _TELL, "gathering", "what the past has for a task"),
        Verb("rules", _TELL, "ruling", "rules by layer: list, show, and put them into a prompt"),
        Verb("why", _TELL, "briefing", "whether an agent was told an item, and why not"),
        Verb("measure", _TELL, "measuring", "how contexts grow from switch to switch"),
        Verb("state", _READ, "reading", "a task's whole state, now or at a version"),
        Verb("summary", _READ, "reading", "a task in a few lines, or whether one still holds"),
        Verb("log", _READ, "history", "records, newest first"),
        Verb("show", _READ, "history", "one item and the record it came from"),
        Verb("diff", _READ, "history", "what differs between two versions of a task"),
        Verb("history", _READ, "history", "every entry that a task has had for a path"),
        Verb("recall", _READ, "recalling", "find what was recorded, by words and by meaning"),
        Verb("graph", _READ, "graphing", "the knowledge graph: parts, paths, tags, pictures"),
        Verb("journal", _READ, "journalling", "places, blockers and gotchas, of a task or of all"),
        Verb("inbox", _READ, "reading", "the handoffs that wait for an agent"),
        Verb("gate", _GATES, "gates", "list, approve, reject and record gates"),
        Verb("verify", _SAFE, "safety", "check that the store says what was written"),
        Verb("heads", _SAFE, "safety", "export the heads, to be kept elsewhere for verify"),
        Verb("backup", _SAFE, "safety", "copy the store while others write, verified"),
        Verb("copy", _SAFE, "copying", "copy one store into another, verified"),
        Verb("export", _SAFE, "bundles", "write a bundle of one task or of everything"),
        Verb("import", _SAFE, "bundles", "take in ADRs, beads, MCP memory, notes or a bundle"),
        Verb("audit", _SAFE, "journalling", "what is remembered twice, out of date or untold"),
        Verb("embed", _SAFE, "recalling", "make the vectors that search by meaning needs"),
        Verb("reindex", _SAFE, "safety", "make every derived row again from the records"),
        Verb("doctor", _SAFE, "safety", "facts and findings about this workspace"),
        Verb("serve", _SERVE, "serving", "the HTTP API, its events and MCP, behind tokens"),
        Verb("token", _SERVE, "tokens", "make, list and revoke tokens for a server"),
        Verb("schema", _TOOLS, "schemas", "the JSON Schema of a handoff, a task or a state"),
        Verb("template", _TOOLS, "schemas", "an empty task file with a handoff section"),
        Verb("completion", _TOOLS, "completion", "a completion script for your shell"),
    )
}


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
