"""The table of operations: everything that a workspace offers, declared once.

An operation is a plain function whose first parameter is the `Context` of the open workspace. A row
gives it a name and says how it is reached. `Workspace`, the async API, the remote client, the HTTP
routes and the command line are derived from the rows and the functions' signatures. Rows hold
strings, so reading the table imports nothing.

Conventions, so that few rows need a function of their own:

- `GROUP.NAME` is the method NAME of the group GROUP: `knowledge.add` is `ws.knowledge.add`.
- `{name}` in a route is an argument; a part in brackets is left out when its argument is None.
- Other arguments go into the query of a GET and into the JSON body of anything else, values as
  `core.codec` encodes them. None that isn't the default is null there, and empty in a query.
- `key` is sent as Idempotency-Key, `expect_version` as If-Match; a function or a progress callback
  is never sent. With `**fields`, the body may hold any further field.
- Lists come as `{"items": [...]}`, texts as `{"text": ...}`, other plain values as
  `{"value": ...}`; None is 404. What is written to `target` is the body of the response.
- Two operations may share a route if their results are the same JSON: the first one answers.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from passdown.core.values import NamedTuple


class Operation(NamedTuple):
    """One row.

    Attributes:
        name: The method, or `GROUP.METHOD`.
        function: `MODULE:FUNCTION`.
        http: `METHOD /path`; empty for what a server doesn't offer.
        right: What a token has to allow: read, write, approve or admin.
        cli: The verb, or empty.
        author: The parameter that names the writer, or `PARAMETER.FIELD`; over HTTP it is the
            token's name. One that only reads may name anybody, unless it may be left out.
        paged: The parameter that a page's cursor goes into.
        is_heavy: Reads much of the store; few run at once, and clients wait longer.
        takes_files: The client sends hashes of the files that the arguments name.
        takes_profile: The client may send its own profile of the agent that takes over.
        media: What is answered instead of JSON; of several, the argument `format` names one.
        status: The HTTP status of success.
        on_workspace: The function's first parameter is the workspace, here or behind a server;
            without a route it is made of other operations.
        has_handler: A function of `passdown.web.handlers` answers instead of the conventions.
        has_client: A function of `passdown.remote.methods` calls instead of the conventions.
        instead: For what a server doesn't offer: what that is, and what to do instead.
    """

    name: str
    function: str
    http: str = ""
    status: int = 200
    right: str = "read"
    cli: str = ""
    is_heavy: bool = False
    author: str = ""
    paged: str = ""
    takes_files: bool = False
    takes_profile: bool = False
    media: tuple[tuple[str, str], ...] = ()
    on_workspace: bool = False
    has_handler: bool = False
    has_client: bool = False
    instead: tuple[str, str] = ("", "")

    @property
    def group(self) -> str:
        """The group of the operation; empty for a method of the workspace itself."""
        return self.name.rpartition(".")[0]

    @property
    def method(self) -> str:
        """The name of the operation within its group."""
        return self.name.rpartition(".")[2]

    @property
    def repeats(self) -> bool:
        """Whether a request may be sent again without a key: then nothing is written twice."""
        return self.right in ("read", "admin") or self.name in _REPEATABLE

    @property
    def handler(self) -> str:
        """Where the function is that answers instead of the conventions; or empty."""
        own = self.name.replace(".", "_")
        return f"passdown.web.handlers:{own}" if self.has_handler else ""

    @property
    def client(self) -> str:
        """Where the function is that calls a server instead of the conventions; or empty."""
        own = self.name.replace(".", "_")
        return f"passdown.remote.methods:{own}" if self.has_client else ""


_REPEATABLE = ("decisions.store", "knowledge.relate", "relay.send_express")
"""Writes that are the same when they are repeated."""


def load(reference: str) -> Any:
    """The object that `MODULE:NAME` names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


_ENTRIES = "passdown.workspace.entries:"
_GRAPH = "passdown.knowledge.graph:"
_HANDOFF = "passdown.workspace.handoff:"
_MAINTENANCE = "passdown.workspace.maintenance:"
_PROMPTS = "passdown.workspace.prompts:"
_QUERIES = "passdown.workspace.queries:"
_RULES = "passdown.workspace.rules:"
_SEARCH = "passdown.workspace.search:"
_STATES = "passdown.workspace.states:"
_SWITCHES = "passdown.workspace.switches:"
_TASKS = "passdown.workspace.task_context:"
_RELAY = "passdown.relay.operations:"

_PROJECT_RULES = (
    "rules",
    "They are files of a project: open its folder, for which passdown.open('.') is enough.",
)


_GRAPH_MEDIA = (
    ("json", "application/json"),
    ("dot", "text/vnd.graphviz"),
    ("mermaid", "text/plain"),
    # A picture may hold words of anybody: as plain text no browser takes it for a page.
    ("svg", "text/plain"),
)


def _writing(name: str, function: str, http: str, **rest: Any) -> Operation:
    """A row that records something, in the name of `agent` unless it says otherwise."""
    given: dict[str, Any] = {"right": "write", "author": "agent", "status": 201, **rest}
    return Operation(name, function, http, **given)


def _relay(name: str, function: str, http: str, **rest: Any) -> Operation:
    """A row of a relay; its verbs of the command line print more than an operation gives."""
    return Operation(name, _RELAY + function, http, on_workspace=True, **rest)


OPERATIONS: tuple[Operation, ...] = (
    _writing("create_task", _ENTRIES + "create_task", "POST /api/tasks", cli="task new"),
    _writing(
        "update_task",
        _ENTRIES + "update_task",
        "PATCH /api/tasks/{task}",
        cli="task set",
        status=200,
    ),
    Operation("task", _QUERIES + "task", "GET /api/tasks/{task}", cli="task show"),
    Operation("tasks", _QUERIES + "tasks", "GET /api/tasks", cli="task list", paged="after"),
    _writing(
        "hand_off",
        _HANDOFF + "hand_off",
        "POST /api/handoffs",
        cli="handoff",
        author="from_agent",
        takes_files=True,
    ),
    Operation(
        "check_handoff",
        _HANDOFF + "check_handoff",
        "POST /api/handoffs/check",
        author="from_agent",
        takes_files=True,
    ),
    Operation("prepare_handoff", _HANDOFF + "prepare_handoff", right="write", on_workspace=True),
    Operation("receive_handoff", _STATES + "receive_handoff", "POST /api/handoffs/receive"),
    _writing("decide", _ENTRIES + "decide", "POST /api/decisions", cli="decide", takes_files=True),
    _writing("note", _ENTRIES + "note", "POST /api/notes", cli="note", takes_files=True),
    _writing("warn", _ENTRIES + "warn", "POST /api/warnings", cli="warn"),
    _writing("set_status", _ENTRIES + "set_status", "POST /api/items/{item}/marks", cli="mark"),
    Operation("gates", _QUERIES + "gates", "GET /api/gates", cli="gate list"),
    _writing("record_gate", _ENTRIES + "record_gate", "POST /api/gates", cli="gate record"),
    _writing(
        "approve",
        _ENTRIES + "approve",
        "POST /api/gates/{gate}/approve",
        cli="gate approve",
        right="approve",
        author="by",
    ),
    _writing(
        "reject",
        _ENTRIES + "reject",
        "POST /api/gates/{gate}/reject",
        cli="gate reject",
        right="approve",
        author="by",
    ),
    Operation("state", _STATES + "state", "GET /api/tasks/{task}/state"),
    Operation("log", _QUERIES + "log", "GET /api[/tasks/{task}]/log", cli="log", paged="before"),
    Operation("changes", _QUERIES + "changes", "GET /api/changes"),
    Operation("show", _QUERIES + "show", "GET /api/items/{item}", cli="show"),
    Operation("diff", _QUERIES + "diff", "GET /api/tasks/{task}/diff", cli="diff"),
    Operation("inbox", _QUERIES + "inbox", "GET /api/inbox", cli="inbox", author="agent"),
    Operation(
        "artifacts", _QUERIES + "artifacts", "GET /api/tasks/{task}/artifacts", has_client=True
    ),
    Operation(
        "brief",
        "passdown.workspace.briefs:brief",
        "GET /api/tasks/{task}/brief",
        cli="brief",
        author="agent",
    ),
    Operation(
        "switch",
        _SWITCHES + "switch",
        "POST /api/tasks/{task}/switch",
        cli="switch",
        takes_profile=True,
        has_client=True,
    ),
    Operation("recall", _SEARCH + "recall", "POST /api/recall", cli="recall", author="told_to"),
    Operation(
        "verify", _MAINTENANCE + "verify_workspace", "POST /api/verify", cli="verify", is_heavy=True
    ),
    Operation(
        "context.deliveries",
        _QUERIES + "deliveries",
        "GET /api[/tasks/{task}]/deliveries",
        paged="before",
    ),
    Operation(
        "context.why", _QUERIES + "why", "GET /api/items/{item}/why", cli="why", author="agent"
    ),
    Operation(
        "context.prompt",
        _PROMPTS + "prompt",
        "POST /api/tasks/{task}/prompt",
        takes_profile=True,
        has_client=True,
    ),
    Operation(
        "context.summary", _QUERIES + "summary", "GET /api/tasks/{task}/summary", cli="summary"
    ),
    Operation(
        "context.check", "passdown.workspace.briefs:check_text", "POST /api/tasks/{task}/check"
    ),
    Operation(
        "context.left_out",
        "passdown.workspace.briefs:left_out",
        "GET /api/tasks/{task}/left-out",
        author="agent",
    ),
    Operation("context.injection", _TASKS + "injection", "GET /api/tasks/{task}/injection"),
    Operation("context.computed", _TASKS + "computed_context", "GET /api/tasks/{task}/computed"),
    Operation("context.compact", _TASKS + "compact_context", "GET /api/tasks/{task}/compact"),
    Operation("context.next_steps", _TASKS + "next_steps", "GET /api/tasks/{task}/next-steps"),
    Operation(
        "context.handoff_context", _ENTRIES + "handoff_context", "GET /api/tasks/{task}/context"
    ),
    Operation("context.subagent_prompt", _PROMPTS + "subagent_prompt", on_workspace=True),
    _writing(
        "context.save_switch",
        _SWITCHES + "save_switch",
        "POST /api/tasks/{task}/switch-artifacts",
        author="from_agent",
    ),
    Operation("context.saved_switches", _PROMPTS + "saved_switches", "GET /api/switch-artifacts"),
    Operation("context.compaction", _RULES + "compaction", "GET /api/compaction"),
    Operation(
        "context.profile", _PROMPTS + "profile", "GET /api/profiles/{agent}", has_client=True
    ),
    Operation("context.executor", _PROMPTS + "executor", "GET /api/executors/{kind}"),
    Operation("context.agents", _PROMPTS + "agents", "GET /api/profiles", has_client=True),
    Operation(
        "rules.inject", _RULES + "inject_rules", "", cli="rules inject", instead=_PROJECT_RULES
    ),
    Operation("rules.report", _RULES + "rule_report", "", cli="rules list", instead=_PROJECT_RULES),
    _writing(
        "decisions.store",
        _ENTRIES + "store_decision",
        "POST /api/stored-decisions",
        author="decision.agent",
        takes_files=True,
    ),
    Operation("decisions.get", _ENTRIES + "get_decision", "GET /api/stored-decisions"),
    Operation(
        "decisions.address", _ENTRIES + "decision_address", "GET /api/stored-decisions/address"
    ),
    Operation("files.load", _STATES + "load", "GET /api/tasks/{task}/state"),
    Operation(
        "files.state_document",
        _QUERIES + "state_document",
        "GET /api/tasks/{task}/state",
        cli="state",
    ),
    Operation(
        "files.state_file",
        _QUERIES + "state_file",
        "",
        instead=("its state files", "files.state_document (passdown state) gives what one holds."),
    ),
    Operation(
        "files.history", _QUERIES + "path_history", "GET /api/tasks/{task}/paths", cli="history"
    ),
    Operation("files.inline_plan", _QUERIES + "inline_plan", "GET /api/tasks/{task}/inline"),
    Operation("files.checkout", _MAINTENANCE + "checkout", on_workspace=True),
    _writing("knowledge.add", _GRAPH + "add_knowledge", "POST /api/knowledge", cli="knowledge add"),
    _writing("knowledge.relate", _ENTRIES + "relate", "POST /api/relations", status=200),
    Operation(
        "knowledge.written",
        "passdown.knowledge.sync:written_since",
        "GET /api/knowledge",
        is_heavy=True,
    ),
    Operation("knowledge.graph", _GRAPH + "graph", "GET /api/graph", cli="graph", is_heavy=True),
    Operation(
        "knowledge.render",
        _GRAPH + "render_graph",
        "GET /api/graph.{format}",
        is_heavy=True,
        media=_GRAPH_MEDIA,
    ),
    Operation("knowledge.edges", _GRAPH + "edges", "GET /api/graph/edges", is_heavy=True),
    Operation(
        "knowledge.neighbours",
        _GRAPH + "neighbours",
        "GET /api/graph/neighbours",
        is_heavy=True,
        has_handler=True,
    ),
    Operation("knowledge.tagged", _GRAPH + "tagged", "GET /api/graph/tagged"),
    Operation("knowledge.tasks_about", _GRAPH + "tasks_about", "GET /api/graph/about"),
    Operation(
        "knowledge.pack",
        "passdown.knowledge.packs:pack",
        "GET /api/tasks/{task}/pack",
        cli="knowledge pack",
        is_heavy=True,
    ),
    Operation(
        "knowledge.sync",
        "passdown.knowledge.sync:sync_knowledge",
        cli="knowledge sync",
        has_client=True,
    ),
    Operation(
        "knowledge.journal",
        "passdown.knowledge.journal:journal",
        "GET /api/journal",
        cli="journal",
        is_heavy=True,
    ),
    Operation(
        "knowledge.audit",
        "passdown.knowledge.audit:audit",
        "GET /api/audit",
        cli="audit",
        is_heavy=True,
    ),
    Operation(
        "imports.run",
        "passdown.imports.importer:import_from",
        "",
        cli="import",
        instead=(
            "imports from other tools",
            "Import it where the store is, or into a workspace here whose bundle you import.",
        ),
    ),
    Operation(
        "imports.migrate",
        "passdown.imports.note_migration:migrate",
        "",
        cli="migrate",
        instead=(
            "the migration of notes",
            "Migrate it where the store is, or in a workspace here whose bundle you import.",
        ),
    ),
    Operation(
        "embeddings.update",
        _SEARCH + "embed_all",
        "POST /api/embedding",
        cli="embed",
        right="admin",
        is_heavy=True,
    ),
    Operation(
        "embeddings.use",
        _SEARCH + "use_embedder",
        "",
        instead=(
            "a program's own embedder",
            "Set it where the server is; embeddings.update() computes there.",
        ),
    ),
    Operation("embeddings.status", _SEARCH + "embedding_status", "GET /api/embedding"),
    Operation(
        "maintenance.heads",
        _MAINTENANCE + "heads",
        "GET /api/heads",
        cli="heads export",
        is_heavy=True,
    ),
    Operation(
        "maintenance.backup",
        _MAINTENANCE + "backup",
        "GET /api/backup",
        cli="backup",
        right="admin",
        is_heavy=True,
        media=(("", "application/vnd.sqlite3"),),
        has_client=True,
    ),
    Operation(
        "maintenance.export",
        _MAINTENANCE + "export",
        "GET /api/bundle",
        cli="export",
        is_heavy=True,
        media=(("", "application/zip"),),
        has_client=True,
    ),
    Operation(
        "maintenance.import_bundle",
        _MAINTENANCE + "import_bundle",
        "POST /api/bundle",
        right="admin",
        author="agent",
        is_heavy=True,
        has_handler=True,
        has_client=True,
    ),
    Operation(
        "maintenance.reindex",
        _MAINTENANCE + "reindex",
        "POST /api/reindex",
        cli="reindex",
        right="admin",
        is_heavy=True,
    ),
    _writing(
        "maintenance.recover",
        _MAINTENANCE + "recover",
        "POST /api/recover",
        cli="recover",
        right="admin",
        author="by",
        status=200,
    ),
    Operation(
        "maintenance.doctor",
        _MAINTENANCE + "doctor",
        "GET /api/doctor",
        cli="doctor",
        right="admin",
        is_heavy=True,
    ),
    _relay("relay.runs", "list_runs", "GET /api/runs", is_heavy=True),
    _relay("relay.run", "get_run", "GET /api/runs/{run}"),
    _relay(
        "relay.answer", "answer_run", "POST /api/runs/{run}/answer", right="approve", author="by"
    ),
    _relay("relay.stop", "stop_run", "POST /api/runs/{run}/stop", right="approve", author="by"),
    _relay(
        "relay.ask",
        "ask_agent",
        "POST /api/runs/{run}/ask",
        right="write",
        author="by",
        is_heavy=True,
    ),
    _relay("relay.agents", "agent_statuses", "GET /api/agents"),
    _relay("relay.conversations", "conversations", "GET /api/tasks/{task}/conversations/{agent}"),
    _relay("relay.express_items", "list_express", "GET /api/express", is_heavy=True),
    _relay("relay.express_item", "get_express", "GET /api/express/{item}"),
    _relay(
        "relay.send_express",
        "send_express",
        "POST /api/express",
        right="write",
        author="item.by",
        status=201,
    ),
)

OPERATION = {operation.name: operation for operation in OPERATIONS}
"""The rows by name."""
