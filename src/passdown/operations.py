"""The table of operations: everything that a workspace offers, declared once.

An operation is a plain function whose first parameter is the `Context` of the open workspace, or a
reader of its store. A row gives it a name and says how it is reached. `Workspace`, the async API,
the remote client, the HTTP routes and the command line are derived from the rows and the functions'
signatures. Rows hold strings, so reading the table imports nothing.

Conventions, so that few rows need a function of their own:

- `GROUP.NAME` is the method NAME of the group GROUP: `knowledge.add` is `ws.knowledge.add`.
- `{name}` in a route is an argument; a part in brackets is left out when its argument is None.
- Other arguments go into the query of a GET and into the JSON body of anything else, values as
  `core.codec` encodes them. None that isn't the default is null there, and empty in a query.
- `key` is sent as Idempotency-Key, `expect_version` as If-Match; a function or a progress callback
  is never sent. With `**fields`, the body may hold any further field.
- Lists come as `{"items": [...]}`, texts as `{"text": ...}`, other plain values as
  `{"value": ...}`; None is 404. What is written to `target` is the body of the response.
- A warning that a result has no place for comes in the header Passdown-Warning, URL-encoded.
- Two operations may share a route if their results are the same JSON: the first one answers.
"""

from __future__ import annotations

from functools import update_wrapper
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from passdown.core.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

C = TypeVar("C", bound=type)


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
        on_reader: The function's first parameter is a reader of the store.
        has_own_limits: The function checks how large its numbers are, with its other problems.
        has_handler: A function of `passdown.web.routes` answers instead of the conventions.
        has_client: A function of `passdown.remote` calls instead of the conventions.
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
    on_reader: bool = False
    has_own_limits: bool = False
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

    def own(self, module: str) -> Any:
        """The function of a module that stands in for the conventions."""
        return load(f"{module}:{self.name.replace('.', '_')}")


_REPEATABLE = ("decisions.store", "knowledge.relate", "relay.send_express")
"""Writes that are the same when they are repeated."""


WARNING_HEADER = "passdown-warning"


def load(reference: str) -> Any:
    """The object that `MODULE:NAME` names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


COMMON_ARGUMENTS = {
    "task": "The task.",
    "agent": "The agent.",
    "key": "Idempotency key: a retry with the same key gives the same receipt.",
    "expect_version": "Fail unless the task is at this version.",
    "reason": "Why.",
    "gate": "The address of the gate, such as T-1#k1.",
    "budget": "The most tokens that it may take; by default as in the settings.",
    "counter": "How tokens are counted: a name, or a function from text to a number.",
    "tags": "Labels that the brief looks for besides those of the task.",
    "record": "Whether the delivery is recorded.",
    "progress": "Called with how many are done, and of how many.",
}
"""What parameters of these names mean, unless the function's docstring says otherwise."""


def argument_texts(function: Any) -> dict[str, str]:
    """What each parameter means: by the section `Args:` of the docstring, else as it is common."""
    section = (function.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    name = ""
    indent = len(section) - len(section.lstrip())
    for line in section.splitlines():
        given, mark, text = line.strip().lstrip("*").partition(": ")
        if mark and given.isidentifier() and len(line) - len(line.lstrip()) == indent:
            name, found[given] = given, text
        elif name:
            found[name] += f" {line.strip()}"
    code = function.__code__  # `inspect` would cost every command some milliseconds
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    common = {name: COMMON_ARGUMENTS.get(name, "") for name in named}
    texts = common | {name: text.strip() for name, text in found.items()}
    return {name: text for name, text in texts.items() if text}


_INSTEAD = {
    **dict.fromkeys(
        ("rules.inject", "rules.report"),
        (
            "rules",
            "They are files of a project: open its folder, for which passdown.open('.') is enough.",
        ),
    ),
    "files.state_file": (
        "its state files",
        "files.state_document (passdown state) gives what one holds.",
    ),
    "imports.run": (
        "imports from other tools",
        "Import it where the store is, or into a workspace here whose bundle you import.",
    ),
    "imports.migrate": (
        "the migration of notes",
        "Migrate it where the store is, or in a workspace here whose bundle you import.",
    ),
    "relay.replay": (
        "replays",
        "Agents run where the store is: take the leg again there; relay.replays shows the result.",
    ),
    "embeddings.use": (
        "a program's own embedder",
        "Set it where the server is; embeddings.update() computes there.",
    ),
}
_MEDIA = {
    "knowledge.render": (
        ("json", "application/json"),
        ("dot", "text/vnd.graphviz"),
        ("mermaid", "text/plain"),
        # A picture may hold words of anybody: as plain text no browser takes it for a page.
        ("svg", "text/plain"),
    ),
    "maintenance.backup": (("", "application/vnd.sqlite3"),),
    "maintenance.export": (("", "application/zip"),),
}

_TABLE = """\
create_task | entries | POST /api/tasks | task new | write by=agent 201
update_task | entries | PATCH /api/tasks/{task} | task set | write by=agent
task | queries | GET /api/tasks/{task} | task show | reader
tasks | queries | GET /api/tasks | task list | paged=after
hand_off | handoff | POST /api/handoffs | handoff | write by=from_agent 201 files
check_handoff | handoff | POST /api/handoffs/check |  | by=from_agent files
prepare_handoff | handoff |  |  | write workspace
receive_handoff | task_context | POST /api/handoffs/receive |  | reader
decide | entries | POST /api/decisions | decide | write by=agent 201 files
note | entries | POST /api/notes | note | write by=agent 201 files
warn | entries | POST /api/warnings | warn | write by=agent 201
set_status | entries | POST /api/items/{item}/marks | mark | write by=agent 201
gates | queries | GET /api/gates | gate list | reader
record_gate | entries | POST /api/gates | gate record | write by=agent 201
approve | entries | POST /api/gates/{gate}/approve | gate approve | approve by=by 201
reject | entries | POST /api/gates/{gate}/reject | gate reject | approve by=by 201
state | task_context | GET /api/tasks/{task}/state |  | reader
log | history.state | GET /api[/tasks/{task}]/log | log | paged=before reader
changes | history.state | GET /api/changes |  | reader
show | history.state | GET /api/items/{item} | show | reader
diff | history.state | GET /api/tasks/{task}/diff | diff | reader
inbox | queries | GET /api/inbox | inbox | by=agent reader
artifacts | queries | GET /api/tasks/{task}/artifacts |  | client
brief | briefs | GET /api/tasks/{task}/brief | brief | by=agent
switch | switches | POST /api/tasks/{task}/switch | switch | profile client
recall | search | POST /api/recall | recall | by=told_to limits
verify | maintenance:verify_workspace | POST /api/verify | verify | heavy
context.check_preconditions | relay.checks |  | check | write workspace
context.deliveries | history.deliveries | GET /api[/tasks/{task}]/deliveries |  |
    paged=before reader
context.why | history.deliveries | GET /api/items/{item}/why | why | by=agent reader
context.prompt | switches | POST /api/tasks/{task}/prompt |  | profile client
context.summary | queries | GET /api/tasks/{task}/summary | summary
context.check | briefs:check_text | POST /api/tasks/{task}/check
context.left_out | briefs | GET /api/tasks/{task}/left-out |  | by=agent
context.injection | task_context | GET /api/tasks/{task}/injection |  | reader
context.computed | task_context:computed_context | GET /api/tasks/{task}/computed |  | reader
context.compact | task_context:compact_context | GET /api/tasks/{task}/compact
context.next_steps | task_context | GET /api/tasks/{task}/next-steps |  | reader
context.handoff_context | entries | GET /api/tasks/{task}/context |  | reader
context.subagent_prompt | switches |  |  | workspace
context.save_switch | switches | POST /api/tasks/{task}/switch-artifacts |  |
    write by=from_agent 201
context.saved_switches | switches | GET /api/switch-artifacts |  | reader
context.compaction | rules | GET /api/compaction
context.profile | switches | GET /api/profiles/{agent} |  | client
context.executor | switches | GET /api/executors/{kind}
context.agents | switches | GET /api/profiles |  | client
rules.inject | rules:inject_rules |  | rules inject
rules.report | rules:rule_report |  | rules list
decisions.store | entries:store_decision | POST /api/stored-decisions |  |
    write by=decision.agent 201 files
decisions.get | entries:get_decision | GET /api/stored-decisions |  | reader
decisions.address | entries:decision_address | GET /api/stored-decisions/address |  | reader
files.load | task_context | GET /api/tasks/{task}/state |  | reader
files.state_document | history.state:state | GET /api/tasks/{task}/state | state | reader
files.state_file | queries
files.history | history.state:path_history | GET /api/tasks/{task}/paths | history | reader
files.inline_plan | history.state | GET /api/tasks/{task}/inline |  | reader
files.checkout | maintenance |  |  | workspace
knowledge.add | knowledge.graph:add_knowledge | POST /api/knowledge | knowledge add |
    write by=agent 201
knowledge.relate | entries | POST /api/relations |  | write by=agent
knowledge.written | knowledge.sync:written_since | GET /api/knowledge |  | heavy
knowledge.graph | knowledge.graph | GET /api/graph | graph | heavy
knowledge.render | knowledge.graph:render_graph | GET /api/graph.{format} |  | heavy
knowledge.edges | knowledge.graph | GET /api/graph/edges |  | heavy
knowledge.neighbours | knowledge.graph | GET /api/graph/neighbours |  | heavy handler
knowledge.tagged | knowledge.graph | GET /api/graph/tagged
knowledge.tasks_about | knowledge.graph | GET /api/graph/about
knowledge.pack | knowledge.packs | GET /api/tasks/{task}/pack | knowledge pack | heavy
knowledge.sync | knowledge.sync:sync_knowledge |  | knowledge sync | client
knowledge.journal | knowledge.journal | GET /api/journal | journal | heavy
knowledge.audit | knowledge.audit | GET /api/audit | audit | heavy
imports.run | imports.importer:import_from |  | import
imports.migrate | imports.note_migration |  | migrate
embeddings.update | search:embed_all | POST /api/embedding | embed | admin heavy
embeddings.use | search:use_embedder
embeddings.status | search:embedding_status | GET /api/embedding
maintenance.heads | maintenance | GET /api/heads | heads export | heavy
maintenance.backup | maintenance | GET /api/backup | backup | admin heavy client
maintenance.export | maintenance | GET /api/bundle | export | heavy client
maintenance.import_bundle | maintenance | POST /api/bundle |  | admin by=agent heavy handler client
maintenance.reindex | maintenance | POST /api/reindex | reindex | admin heavy
maintenance.recover | maintenance | POST /api/recover | recover | admin by=by
maintenance.attention | attention | GET /api/attention |  | heavy workspace
maintenance.doctor | maintenance | GET /api/doctor | doctor | admin heavy
relay.runs | relay.operations:list_runs | GET /api/runs |  | heavy workspace
relay.run | relay.operations:get_run | GET /api/runs/{run} |  | workspace
relay.resume | relay.operations:resume_run | POST /api/runs/{run}/resume |  |
    approve by=by workspace
relay.answer | relay.operations:answer_run | POST /api/runs/{run}/answer |  |
    approve by=by workspace
relay.stop | relay.operations:stop_run | POST /api/runs/{run}/stop |  | approve by=by workspace
relay.replay | relay.replays:replay_leg |  |  | write by=by workspace
relay.replays | relay.replays:list_replays | GET /api/runs/{run}/replays |  | heavy workspace
relay.ask | relay.operations:ask_agent | POST /api/runs/{run}/ask |  | write by=by heavy workspace
relay.workers | relay.operations:list_workers | GET /api/workers |  | workspace
relay.agents | relay.operations:agent_statuses | GET /api/agents |  | workspace
relay.conversations | relay.operations | GET /api/tasks/{task}/conversations/{agent} |  | workspace
relay.express_items | relay.operations:list_express | GET /api/express |  | heavy workspace
relay.express_item | relay.operations:get_express | GET /api/express/{item} |  | workspace
relay.send_express | relay.operations | POST /api/express |  | write by=item.by 201 workspace
"""
"""Name, module of the workspace or below `passdown` (with the function's name, if that isn't the
operation's), route, command; then the right (read, if none is named), the author after `by=`, the
status of success (200) and the last words of the flags of `Operation`.
"""

_FLAGS = {
    name.rpartition("_")[2]: name for name, of in Operation._field_defaults.items() if of is False
}


def _operation(line: str) -> Operation:
    """The operation of a line of the table."""
    name, where, http, cli, words = (*map(str.strip, line.split("|")), "", "", "")[:5]
    module, _, function = where.partition(":")
    package = "passdown" if "." in module else "passdown.workspace"
    function = f"{package}.{module}:{function or name.rpartition('.')[2]}"
    more: dict[str, Any] = {"media": _MEDIA.get(name, ()), "instead": _INSTEAD.get(name, ("", ""))}
    for word in words.split():
        key, _, value = word.partition("=")
        if value:
            more["author" if key == "by" else key] = value
        elif word in _FLAGS:
            more[_FLAGS[word]] = True
        else:
            more |= {"status": int(word)} if word.isdigit() else {"right": word}
    return Operation(name, function, http, cli=cli, **more)


OPERATIONS = tuple(map(_operation, _TABLE.replace("\n  ", " ").splitlines()))

OPERATION = {operation.name: operation for operation in OPERATIONS}
"""The rows by name."""


class Group:
    """A named group of a workspace's operations, such as `ws.knowledge`."""

    def __init__(self, workspace: Any) -> None:
        self._workspace = workspace

    def _call(
        self, operation: Operation, function: Callable[..., Any], *args: Any, **given: Any
    ) -> Any:
        return self._workspace._call(operation, function, *args, **given)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._workspace!r}>"


class _Method:
    """A method that is made when it is first used, since that imports the operation's module."""

    def __init__(self, operation: Operation, make: Callable[..., Any]) -> None:
        self._operation = operation
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        function = load(self._operation.function)
        made: Any = update_wrapper(self._make(self._operation, function), function)
        # The docstring with all parameters: those that mean the same everywhere too.
        lines = [f"        {name}: {text}\n" for name, text in argument_texts(function).items()]
        head = (function.__doc__ or "").partition("Args:\n")[0].rstrip()
        made.__doc__ = f"{head}\n\n    Args:\n{''.join(lines)}    " if lines else head
        made.__name__, made.__qualname__ = self._name, f"{self._owner.__name__}.{self._name}"
        first, *_ = function.__code__.co_varnames
        made.__annotations__ = {k: v for k, v in function.__annotations__.items() if k != first}
        setattr(self._owner, self._name, made)
        return made.__get__(instance, owner)


class _GroupOf:
    """The attribute of a workspace that gives one of its groups."""

    def __init__(self, group: type) -> None:
        self._group = group

    def __get__(self, instance: object, owner: type) -> Any:
        return self._group if instance is None else self._group(instance)


def _call_method(operation: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, /, *args: Any, **given: Any) -> Any:
        return self._call(operation, function, *args, **given)

    return method


def with_operations(
    cls: C, make: Callable[[Operation, Callable[..., Any]], Any] = _call_method, prefix: str = ""
) -> C:
    """A class with a method for each operation, and its groups; as a decorator or called.

    The class has `_call(operation, function, *args, **given)`; `make` gives the function that
    becomes a method, and calls it.
    """
    bodies: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        method = _Method(operation, make)
        if operation.group:
            bodies.setdefault(operation.group, {})[operation.method] = method
        else:
            setattr(cls, operation.method, method)
            method.__set_name__(cls, operation.method)
    for name, body in bodies.items():
        title = f"{prefix}{name.capitalize()}Group"
        group = type(title, (Group,), {"__module__": cls.__module__, **body})
        setattr(cls, name, _GroupOf(group))
    return cls
