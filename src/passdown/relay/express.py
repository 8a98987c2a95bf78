"""Express items: runs of one leg that jump the queue and need no model.

An item is a run of a built-in relay in a lane of its own: it is recorded, queued, listed, stopped
and resumed like any other run. A WAITING agent is leased for it and makes the change as one commit.
After its attempts the item becomes a task. Every step can be repeated: whatever kills the process,
carrying the item out again gives one commit.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import nullcontext, suppress
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core import graph
from passdown.core.arguments import priority_problem
from passdown.core.kinds import EXPRESS_STREAM, RUN_STREAM, stream_of
from passdown.core.names import id_problems, normal_path
from passdown.core.record import canonical_bytes, digest_bytes
from passdown.core.redaction import redact_value
from passdown.core.schema import (
    AGENT,
    TASK_ID,
    TIME,
    Choice,
    List,
    Map,
    Optional,
    Text,
    check,
    declare,
    fields_of,
    shape,
)
from passdown.core.text import child_path, storable_values, text_problems, visible
from passdown.core.times import parse_time, stamp
from passdown.errors import (
    Conflict,
    GitError,
    InvalidInput,
    KeyReused,
    LaneFull,
    NotFound,
    PassdownError,
    Problem,
    StoreBusy,
)
from passdown.knowledge.graph import written_graph
from passdown.knowledge.graph_files import read_graph, write_graph
from passdown.knowledge.sync import update_graph
from passdown.relay import git
from passdown.relay.agents import RunAgents
from passdown.relay.engine import worker_name
from passdown.relay.run import AGAIN, ERROR, LEG, RUNNING, LegRun, Run, relay_of
from passdown.relay.runs import EXPRESS, EXPRESS_RUN, Runs, next_commands
from passdown.workspace.context import context_of
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.core.record import Record
    from passdown.core.types import JsonObject
    from passdown.relay.run import Relay
    from passdown.workspace import Workspace

    OpenPullRequest = Callable[[str, git.PullRequestSpec], git.PullRequest]

MAX_EXPRESS_ID = 80
MAX_REASON = 4_000
MAX_CONTENT_BYTES = 1_048_576
"""The most text in one item; its record keeps all of it."""
DEFAULT_FILE = "knowledge.dot"
DEFAULT_AGENT = "coder"
BRANCH = "passdown/express-"
KNOWLEDGE_ACTIONS = ("append", "replace")
FILE_ACTIONS = ("write", "append", "delete")
MAX_FILES = 50
MAX_ENTRIES = 1_000

# A revision is given to git as one word; this keeps options, ranges and searches out of it.
_BASE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}", re.ASCII)
_REFUSED = "the express item is refused; nothing was changed"


def _express_id_problems(given: object, where: str) -> list[Problem]:
    problems = id_problems(given, where)
    if problems or not isinstance(given, str):
        return problems
    if len(given) > MAX_EXPRESS_ID:
        return [Problem(where, "too_long", f"{len(given)} characters", f"at most {MAX_EXPRESS_ID}")]
    if ".." in given or given.endswith((".", ".lock")):
        expected = "no two dots in a row, and no dot or .lock at the end"
        return [Problem(where, "invalid_id", f"{given!r} can't be part of a branch name", expected)]
    return []


def _base_problems(given: object, where: str) -> list[Problem]:
    if isinstance(given, str) and _BASE.fullmatch(given) and ".." not in given:
        return []
    return [Problem(where, "invalid_base", repr(given)[:80], "a branch, a tag or a commit")]


def _content_problems(given: object, where: str) -> list[Problem]:
    found = text_problems(given, where, required=False, max_length=MAX_CONTENT_BYTES)
    # A file may hold any number of combining marks: it isn't shown to agents.
    return [problem for problem in found if problem.code != "too_many_marks"]


def _knowledge_file_problems(path: object, where: str) -> list[Problem]:
    """`.passdown/knowledge.dot` (or `.json`) is allowed, and the extension gives the format."""
    if isinstance(path, str) and normal_path(path) in git.KNOWLEDGE_FILES:
        return []
    problems = git.file_problems(path, where)
    if not problems and isinstance(path, str) and not path.endswith(git.KNOWLEDGE_ENDINGS):
        expected = f"a name that ends in {' or '.join(git.KNOWLEDGE_ENDINGS)}"
        message = f"{path[-80:]!r} isn't a knowledge file"
        problems = [Problem(where, "invalid_path", message, expected)]
    return problems


def _size_problems(data: bytes, where: str) -> list[Problem]:
    if len(data) <= MAX_CONTENT_BYTES:
        return []
    expected = f"at most {MAX_CONTENT_BYTES:,} bytes in all; create a task for more"
    return [Problem(where, "too_large", f"{len(data):,} bytes", expected)]


_REASON, _CONTENT = Text(partial(text_problems, max_length=MAX_REASON)), Text(_content_problems)
_FILE = Text(git.file_problems, normal_path)


@shape
class ExpressFields:
    """The fields of every item. The first of `agents` that is WAITING carries it out."""

    by: str = declare(AGENT)
    reason: str = declare(_REASON)
    id: str = declare(Text(_express_id_problems), default="")
    task: str = declare(TASK_ID, default="")
    base: str = declare(Text(_base_problems), default="")
    created: str = declare(TIME, default="")
    agents: tuple[str, ...] = declare(List(AGENT, most=MAX_FILES, takes_one=True), default=())


@shape
class KnowledgeUpdate(ExpressFields):
    """Nodes and edges (entries with a source) for a knowledge file."""

    entries: tuple[Any, ...] = declare(List(Map(), least=1, most=MAX_ENTRIES))
    action: str = declare(Choice(*KNOWLEDGE_ACTIONS))
    file_path: str = declare(Text(_knowledge_file_problems, normal_path), default="")


@shape
class HotFix(ExpressFields):
    """Files with their new texts, or a patch."""

    files: Mapping[str, str] | None = declare(
        Optional(Map(_CONTENT, key=_FILE, least=1, most=MAX_FILES)), default=None
    )
    patch: str | None = declare(Optional(_CONTENT), default=None)
    message: str = declare(_REASON, default="")


@shape
class FileTask(ExpressFields):
    """One file to write, append to or delete."""

    path: str = declare(_FILE)
    action: str = declare(Choice(*FILE_ACTIONS), default=FILE_ACTIONS[0])
    content: str | None = declare(Optional(_CONTENT), default=None)
    message: str = declare(_REASON, default="")


class ExpressChange(NamedTuple):
    """One change of an item: `write`, `append`, `delete`, `patch` (without a path; the text is the
    patch), or of knowledge `learn` and `learn_only`.
    """

    action: str
    path: str = ""
    text: str = ""
    nodes: tuple[graph.Node, ...] = ()
    edges: tuple[graph.Edge, ...] = ()


class ExpressItem(NamedTuple):
    """A checked express item: make it with `express_item`.

    `content` holds the fields of its kind as plain JSON; `base` is the branch or commit that it
    changes, `created` a time in its stored form. The first of `agents` that is WAITING carries it
    out.
    """

    id: str
    kind: str
    by: str
    reason: str
    content: Mapping[str, Any]
    task: str = ""
    base: str = "HEAD"
    created: str = ""
    agents: tuple[str, ...] = (DEFAULT_AGENT,)

    @property
    def branch(self) -> str:
        """The branch that its commit is on."""
        return BRANCH + self.id

    @property
    def title(self) -> str:
        """Its message in one line, or else its reason."""
        lines = str(self.content.get("message") or self.reason).strip().splitlines()
        return f"{' '.join(lines[0].split())[:72].rstrip()}"

    def changes(self) -> tuple[ExpressChange, ...]:
        """The changes that it stands for, in order."""
        return KINDS[self.kind].changes(dict(self.content))

    def digest(self) -> str:
        """A digest of everything but its id, time and agents."""
        said = [self.kind, self.by, self.reason, self.task, self.base, dict(self.content)]
        return digest_bytes(canonical_bytes(said)).removeprefix("sha256:")

    def to_dict(self) -> JsonObject:
        """The item as a plain JSON object, which `express_item` reads back."""
        return {**self._asdict(), "content": dict(self.content), "agents": list(self.agents)}


class ExpressKind(NamedTuple):
    """A kind of item: its declared fields, the changes that its content stands for, and what is
    checked beyond the single fields; that gives the content as it is recorded.
    """

    shape: type[ExpressFields]
    changes: Callable[[JsonObject], tuple[ExpressChange, ...]]
    content: Callable[[JsonObject, list[Problem]], JsonObject] = lambda content, _: content


def express_item(given: object, *, now: str) -> ExpressItem:
    """Check plain data and make an item of it; `now` is its time unless it has one.

    Fields of the kind are next to the common ones, or under `content` or `payload`; the kind is
    given as `kind` or `type`, `hot_fix` or `HOT_FIX`. Without an id it gets one derived from its
    content, so the same again is the same item. Raises InvalidInput with every problem.
    """
    if isinstance(given, ExpressItem):
        given = given.to_dict()
    if not isinstance(given, dict):
        problem = Problem("", "wrong_type", f"{type(given).__name__} given", "an object")
        raise InvalidInput(_REFUSED, [problem])
    fields = _flattened(cast("JsonObject", given))
    said = fields.pop("kind", None)
    name = said.lower().replace("-", "_") if isinstance(said, str) else ""
    kind = KINDS.get(name)
    read, checks = check(kind.shape if kind else ExpressFields, fields)
    problems = list(checks.errors)
    common = fields_of(ExpressFields)
    content: JsonObject = {}
    if kind is None:
        problems.append(_not_a_kind(said))
    else:
        known = fields_of(kind.shape)
        content = {
            field: read[field]
            for field in known
            if field not in common and (read[field], fields.get(field)) != (None, None)
        }
        unknown = [field for field in fields if field not in known]
        problems += [_unknown(field, fields[field], known) for field in unknown]
        content = kind.content(content, problems)
    problems += _secret_problems(fields)
    if problems:
        raise InvalidInput(_REFUSED, problems, next_step="Fix these and send it again.")
    head = {"task": read["task"], "base": read["base"] or "HEAD", "created": read["created"] or now}
    agents = tuple(dict.fromkeys(read["agents"])) or (DEFAULT_AGENT,)
    item = ExpressItem(read["id"], name, read["by"], read["reason"], content, **head, agents=agents)
    return item if item.id else item._replace(id=f"x{item.digest()[:16]}")


def _flattened(given: JsonObject) -> JsonObject:
    """All fields side by side."""
    given = dict(given)
    if "kind" not in given and "type" in given:
        given["kind"] = given.pop("type")
    for name in ("content", "payload"):
        if isinstance(given.get(name), dict):
            given = {**given.pop(name), **given}
    return given


def _not_a_kind(given: object) -> Problem:
    expected = f"one of {', '.join(KINDS)}"
    if given is None:
        return Problem("kind", "required", "is missing", expected)
    close = get_close_matches(str(given).lower(), KINDS, 1)
    fix = f"did you mean {close[0]}?" if close else ""
    return Problem("kind", "invalid_choice", repr(given)[:80], expected, fix)


def _unknown(name: object, value: object, known: Mapping[str, object]) -> Problem:
    if name == "priority":
        return priority_problem(value, "priority")
    expected = f"one of {', '.join(('kind', *known))}"
    return Problem(str(name)[:80], "unknown_field", "unknown field", expected)


def _secret_problems(fields: JsonObject) -> list[Problem]:
    """Secrets are removed from records, so what is carried out would differ from what was sent."""
    return [
        Problem(str(name), "secret", f"contains what looks like a secret ({kind})", "no secret")
        for name, value in fields.items()
        for kind in redact_value(value)[1]
    ]


def _knowledge_content(content: JsonObject, problems: list[Problem]) -> JsonObject:
    """The content with entries as normalized nodes and edges."""
    entries: list[JsonObject] = content.get("entries") or []
    places = {
        name: [at for at, entry in enumerate(entries) if ("source" in entry) is is_edge]
        for name, is_edge in (("nodes", False), ("edges", True))
    }
    given = ([entries[at] for at in places[name]] for name in places)
    try:
        nodes, edges = graph.graph_values(*given)
        # The target of an edge may be known to the ledger: it is checked when it is recorded.
        found = [p for p in graph.check_graph(nodes, edges) if p.code != "unknown_node"]
        found += graph.reserved_problems(nodes, edges)
    except InvalidInput as error:
        nodes, edges, found = [], [], list(error.problems)
    problems += [_at_entry(problem, places) for problem in found]
    documents = [*map(graph.part_document, nodes), *map(graph.part_document, edges)]
    problems += _size_problems(canonical_bytes(documents) if not found else b"", "entries")
    return {**content, "entries": documents, "file_path": content["file_path"] or DEFAULT_FILE}


def _at_entry(problem: Problem, places: dict[str, list[int]]) -> Problem:
    """A problem of `nodes[0]` with the path of the entry."""
    listed, _, rest = problem.path.partition("[")
    number, mark, rest = rest.partition("]")
    if listed not in places or not mark or not number.isdigit():
        return problem
    return problem._replace(path=f"entries[{places[listed][int(number)]}]{rest}")


def _knowledge_changes(content: JsonObject) -> tuple[ExpressChange, ...]:
    entries: list[JsonObject] = content["entries"]
    given = ([e for e in entries if ("source" in e) is is_edge] for is_edge in (False, True))
    nodes, edges = graph.graph_values(*given)
    action = "learn" if content["action"] == "append" else "learn_only"
    return (ExpressChange(action, content["file_path"], "", tuple(nodes), tuple(edges)),)


def _hot_fix_content(content: JsonObject, problems: list[Problem]) -> JsonObject:
    if ("files" in content) == ("patch" in content):
        problems.append(Problem("files", "required", "files and patch", "either files or a patch"))
        return {}
    if "patch" in content:
        patch = content["patch"] or ""
        read = git.read_patch(patch) if isinstance(patch, str) else git.Patch((), 0, ())
        problems += read.problems
        problems += [p for path in read.paths for p in git.file_problems(path, "patch")]
        return content
    files: dict[str, str] | None = content["files"]
    if files is None:
        problems.append(Problem("files", "required", "is empty", "either files or a patch"))
        return {}
    checked: dict[str, str] = {}
    for path, text in files.items():
        if normal_path(path) in checked:
            where = child_path("files", path)
            problems.append(Problem(where, "duplicate_path", "is given twice", "each file once"))
        checked[normal_path(path)] = text
    data = "".join(map(str, checked.values())).encode("utf-8", "replace")
    problems += _size_problems(data, "files")
    return {**content, "files": checked}


def _hot_fix_changes(content: JsonObject) -> tuple[ExpressChange, ...]:
    if "patch" in content:
        return (ExpressChange("patch", text=content["patch"]),)
    return tuple(ExpressChange("write", path, text) for path, text in content["files"].items())


def _file_content(content: JsonObject, problems: list[Problem]) -> JsonObject:
    is_missing = "content" not in content
    text = content.pop("content", None) or ""
    if content["action"] == "delete":
        if text:
            problems.append(Problem("content", "not_here", "given to delete a file", "none"))
        return content
    if is_missing:
        problems.append(Problem("content", "required", "is missing", "the text of the file"))
    return {**content, "content": text}


def _file_changes(content: JsonObject) -> tuple[ExpressChange, ...]:
    return (ExpressChange(content["action"], content["path"], content.get("content", "")),)


KINDS: Mapping[str, ExpressKind] = {
    "knowledge_update": ExpressKind(KnowledgeUpdate, _knowledge_changes, _knowledge_content),
    "hot_fix": ExpressKind(HotFix, _hot_fix_changes, _hot_fix_content),
    "file_task": ExpressKind(FileTask, _file_changes, _file_content),
}

_MAX_SHOWN = 40_000


def commit_message(item: ExpressItem, agent: str, mark: str) -> str:
    """The commit message of an item that an agent carried out; the last lines are trailers."""
    given = visible(str(item.content.get("message") or ""), keep_newlines=True).strip()
    reason = visible(item.reason, keep_newlines=True).strip()
    parts = [visible(item.title)]
    parts += [text for text in (given, reason) if text and text != parts[0]]
    trailers = [mark, f"Passdown-Kind: {item.kind}", f"Passdown-By: {item.by}"]
    trailers.append(f"Passdown-Carried-Out-By: {agent}")
    trailers += [f"Passdown-Task: {item.task}"] if item.task else []
    return "\n\n".join([*parts, "\n".join(trailers)]) + "\n"


def request_body(item: ExpressItem, facts: Mapping[str, Any]) -> str:
    """The text of an item's pull request; `facts` are those of the commit."""
    lines = [visible(item.reason, keep_newlines=True), "", f"- {item.kind} {item.id}"]
    lines += [f"- by {item.by}", f"- carried out by {facts['agent']}"]
    lines += [f"- commit {facts['commit']}"]
    lines += [f"- task {item.task}"] if item.task else []
    lines += [f"- changes {visible(path)}" for path in facts["files"]]
    lines += [f"- {visible(Problem(**report).line())}" for report in facts["reports"]]
    return "\n".join(lines) + "\n"


def task_description(item: ExpressItem, why: str, evidence: str) -> str:
    """The description of the task that a failed item becomes; long content is cut."""
    content = json.dumps(dict(item.content), ensure_ascii=False, indent=1)
    if len(content) > _MAX_SHOWN:
        content = f"{content[:_MAX_SHOWN]}\n(cut: passdown express show {item.id} has all of it)"
    about = f" about {item.task}" if item.task else ""
    sent = f"{item.by} sent the express item {item.id} ({item.kind}, from {item.base}){about}"
    parts = (f"{sent}: {item.reason}", f"It failed: {why}", f"Evidence:\n{evidence}")
    return "\n\n".join((*parts, f"Content:\n{content}"))


ATTEMPTS = 3

# Faults of the item or its project. A store that is busy or gone is neither: that is raised, and
# the item is carried out later.
_FAILURES = (GitError, InvalidInput, NotFound, OSError)


class ExpressRecord(NamedTuple):
    """An item and its run."""

    item: ExpressItem
    run: Run

    @property
    def status(self) -> str:
        """`sent`, `started`, `done`, `promoted` (it became a task), or how its run ended."""
        if self.run.ended_at:
            names = {"completed": "done", "failed": "promoted" if self.run.promoted else "failed"}
            return names.get(self.run.status, self.run.status)
        return "started" if any(turn.begun_at for turn in self.run.legs.values()) else "sent"

    @property
    def is_over(self) -> bool:
        """Whether nothing follows: it is done or stopped, or became a task."""
        return bool(self.run.ended_at) and self.status != "failed"

    @property
    def is_earlier(self) -> bool:
        """Whether an earlier version recorded it, without a run."""
        return self.run.run.startswith(EXPRESS_STREAM)

    @property
    def result(self) -> JsonObject:
        """The result of the last attempt: `agent`, and `commit` on `branch` with its `files` and
        `pull_request`, or no commit where nothing had to change. `reports` are conflicts and what
        was removed from a file, `lost` the names of the latter.
        """
        found = [turn.result for turn in self.run.legs.values() if turn.result]
        return found[-1] if found else {}

    @property
    def why(self) -> str:
        """Why the last attempt failed; "" if it didn't."""
        turns = reversed(self.run.legs.values())
        return next((turn.why for turn in turns if not turn.is_open), "")

    def to_dict(self) -> JsonObject:
        """The item with its result and its attempts, as a plain JSON object."""
        fields = ("number", "worker", "begun_at", "ended_at", "outcome", "why", "result")
        turns = self.run.legs.values()
        attempts = [{name: getattr(turn, name) for name in fields} for turn in turns]
        return {
            **self.item.to_dict(),
            "title": self.item.title,
            "status": self.status,
            "is_over": self.is_over,
            "next": [] if self.run.promoted else next_commands(self.run),
            "run": self.run.run,
            "sent_at": self.run.started_at,
            "result": self.result,
            "why": self.why,
            "promoted": self.run.promoted,
            "attempts": attempts,
        }


def _relay_for(item: ExpressItem) -> Relay:
    """The relay of an item: one leg, which any of its agents may take, a few times."""
    retry = {"when": {"outcome": [ERROR]}, "go": [AGAIN], "at_most": ATTEMPTS - 1}
    leg = {"leg": "change", "agent": item.agents[0], "request": item.reason}
    document: JsonObject = {
        "relay": EXPRESS,
        "description": item.title,
        "parallel": 1,
        "agents": {name: {"runner": {}} for name in item.agents},
        "legs": [{**leg, "phase": "implementing", "then": [retry]}],
        "item": item.to_dict(),
    }
    return relay_of(document)


def item_of(run: Run) -> ExpressItem:
    """The item of an express run."""
    given: JsonObject = run.relay.document["item"]
    return ExpressItem(**given)._replace(agents=tuple(given["agents"]))


def _earlier(records: list[Record]) -> ExpressRecord:
    """An item of an earlier version, which had a stream of its own, as a run of one turn."""
    first, last = records[0], records[-1]
    facts: dict[str, JsonObject] = {record.kind: record.document() for record in records}
    times = {record.kind: record.at for record in records}
    item = ExpressItem(**facts["sent"])
    failed, done = facts.get("failed"), facts.get("done")
    agent = facts.get("started", {}).get("agent", "")
    turn = LegRun(
        *(1, "change", agent, LEG, 1, "", (), first.at),
        begun_at=times.get("started", ""),
        ended_at=times.get("failed") or times.get("done", ""),
        outcome=ERROR if failed else "completed" if done else "",
        why=failed["why"] if failed else "",
        result={**(failed or done or {}), "agent": agent},
    )
    is_over = last.kind in ("done", "promoted")
    run = Run(
        *(first.stream, _relay_for(item), item.task, item.by, EXPRESS, first.at, last.position),
        mark="",
        legs={1: turn},
        status=RUNNING if not is_over else "completed" if done else "failed",
        ended_at=last.at if is_over else "",
        promoted=facts.get("promoted", {}).get("task", ""),
    )
    return ExpressRecord(item, run)


def send(workspace: Workspace, given: object) -> ExpressRecord:
    """Check and record an item, or find it recorded. A server queues it as well.

    The same id with other content raises KeyReused; the creation time and the agents may differ.
    A task that it names must exist.
    """
    if not WorkspaceStreams(workspace).is_local:
        sent = workspace.relay.send_express(cast("JsonObject", given))
        return express_record(workspace, sent["id"])
    return _recorded(workspace, _checked(workspace, given))


def submit(
    workspace: Workspace, given: object, *, url: str = "", wait_s: float = 0.0
) -> tuple[ExpressRecord, str]:
    """Record an item and queue it for the workers; also gives why it could not be queued, or "".

    A full queue makes the sender wait for up to `wait_s`, then raises LaneFull, and nothing is
    recorded. What is recorded but not queued is found by the next worker.
    """
    item = _checked(workspace, given)
    known = _known(workspace, item.id)
    if known is not None and known.is_over:
        return _recorded(workspace, item), ""
    try:
        from passdown.relay.engine import database_faults
        from passdown.relay.worker import EngineOptions, open_engine

        turn = known.run.open_legs[0].number if known and known.run.open_legs else 1
        with database_faults(), open_engine(workspace, EngineOptions(url=url)) as engine:
            name, is_more = EXPRESS_RUN + item.id, known is not None
            engine.send(EXPRESS, name, turn, wait_s=wait_s, is_more=is_more)
        why = ""
    except (PassdownError, OSError) as error:
        if isinstance(error, LaneFull):
            raise
        why = error.message if isinstance(error, PassdownError) else str(error)
    return _recorded(workspace, item), why


def _checked(workspace: Workspace, given: object) -> ExpressItem:
    streams = WorkspaceStreams(workspace)
    item = express_item(given, now=stamp(streams.now()))
    if item.task and not streams.position(stream_of(item.task)):
        message = f"there is no task {item.task}"
        problem = Problem("task", "unknown_task", message, "an existing task, or none")
        raise InvalidInput(_REFUSED, [problem])
    return item


def _recorded(workspace: Workspace, item: ExpressItem) -> ExpressRecord:
    runs = Runs(workspace)
    known = _known(workspace, item.id)
    if known is None:
        name = EXPRESS_RUN + item.id
        runs.start(_relay_for(item), item.task, by=item.by, lane=EXPRESS, name=name)
        known = express_record(workspace, item.id)
    if known.item.digest() != item.digest():
        message = f"the express item {item.id} was sent before, with other content"
        raise KeyReused(message, next_step="Use a new id for new work.")
    return known


def express_document(workspace: Workspace, record: ExpressRecord) -> JsonObject:
    """An item as a plain JSON object; `waits_for` says what keeps each of its agents from it."""
    is_sent = record.status == "sent" and not record.is_earlier
    found = RunAgents(workspace).obstacles(record.run) if is_sent else []
    return {**record.to_dict(), "waits_for": [problem.line() for problem in found]}


def express_records(workspace: Workspace, *, status: str = "") -> list[ExpressRecord]:
    """All items, oldest first, or those with a status."""
    runs = Runs(workspace)
    names = [name for name in runs.positions() if name.startswith(EXPRESS_RUN)]
    found = [ExpressRecord(item_of(run), run) for run in map(runs.get, names)]
    streams, known = WorkspaceStreams(workspace), {each.item.id for each in found}
    found += [
        _earlier(streams.records(head.stream))
        for head in streams.streams(EXPRESS_STREAM)
        if head.stream.removeprefix(EXPRESS_STREAM) not in known
    ]
    kept = [each for each in found if not status or each.status == status]
    return sorted(kept, key=lambda each: (each.run.started_at, each.item.id))


def express_record(workspace: Workspace, item: str) -> ExpressRecord:
    """One item by its id; raises NotFound."""
    known = None if id_problems(item, "id") else _find(workspace, item)
    if known is None:
        message = f"there is no express item {item[:100]!r}"
        raise NotFound(message, next_step="passdown express list shows their ids.")
    return known


def _find(workspace: Workspace, item: str) -> ExpressRecord | None:
    name, streams = EXPRESS_RUN + item, WorkspaceStreams(workspace)
    if streams.position(RUN_STREAM + name):
        run = Runs(workspace).get(name)
        return ExpressRecord(item_of(run), run)
    records = streams.records(EXPRESS_STREAM + item)
    return _earlier(records) if records else None


def _known(workspace: Workspace, item: str) -> ExpressRecord | None:
    """The item with an id; None for one of an earlier version that is open: it becomes a run."""
    found = _find(workspace, item)
    return None if found and found.is_earlier and not found.is_over else found


def carry_out(
    workspace: Workspace, item: object, *, pull_request: OpenPullRequest = git.open_pull_request
) -> ExpressRecord:
    """Carry out an item in this process, or return the result of an item that was.

    This process acts for its agents, so they needn't have done anything before. Raises GateRefused
    if all of them are busy.
    """
    agents = RunAgents(workspace, takes_unknown=True)
    runs, turns = Runs(workspace), ExpressTurns(workspace, agents, pull_request=pull_request)
    sent = send(workspace, item)
    if sent.is_earlier:
        return sent
    run = runs.advance(sent.run.run)
    while run.open_legs and not run.ended_at:
        turn = run.open_legs[0]
        turns.agents.check_free(run)
        runs.begin(run.run, turn.number, worker_name())
        turns.take(run, turn)
        run = runs.advance(run.run)
    turns.settle(run)
    return express_record(workspace, item_of(run).id)


class ExpressTurns:
    """Takes the turns of express runs; each step may be repeated.

    A pull request is opened after the commit, at least once.
    """

    def __init__(
        self,
        workspace: Workspace,
        agents: RunAgents,
        *,
        pull_request: OpenPullRequest = git.open_pull_request,
    ) -> None:
        self.agents = agents
        self._workspace = workspace
        self._runs = Runs(workspace)
        self._open_request = pull_request
        self._folder = os.path.join(context_of(workspace).place.folder, EXPRESS)

    def take(
        self, run: Run, turn: LegRun, *, wait_s: float = git.LOCK_TIMEOUT_S
    ) -> JsonObject | None:
        """Carry out an item and record how that ended; None if all its agents are busy, or the turn
        is over. Raises StoreBusy if another process is carrying it out for longer than `wait_s`.
        """
        item = item_of(run)
        with git.locked(self._lock_of(item), timeout_s=wait_s):
            found = self._runs.get(run.run)
            if found.ended_at or not found.legs[turn.number].is_open:
                return None
            agent = self.agents.begin_express(run)
            if not agent:
                return None
            ended = storable_values(self._try(item, agent))
            self._runs.end(run.run, turn.number, ended)
            return ended

    def settle(self, run: Run) -> None:
        """Free the agent of a run that has ended; make a task of an item that failed."""
        self.agents.settle(run)
        if run.status == "failed" and not run.promoted:
            self._promote(run)
        lock = self._lock_of(item_of(run))
        if run.ended_at and os.path.exists(lock):  # left by a killed process
            with suppress(StoreBusy), git.locked(lock, timeout_s=0):
                pass

    def _lock_of(self, item: ExpressItem) -> str:
        return os.path.join(self._folder, f"{item.id}.lock")

    def _try(self, item: ExpressItem, agent: str) -> JsonObject:
        started = time.monotonic()
        try:
            base, plan = self._set_up(item)
            self.agents.to_coding(agent)
            result = self._code(item, agent, base, plan)
            ended: JsonObject = {"outcome": "completed", "result": result}
        except _FAILURES as error:
            why = error.message if isinstance(error, PassdownError) else repr(error)
            facts = {"code": getattr(error, "code", ""), "evidence": str(error)[:8_000]}
            ended = {"outcome": ERROR, "why": why[:2_000], "result": facts}
        ended["result"]["agent"] = agent
        return {**ended, "measured": {"seconds": round(time.monotonic() - started, 3)}}

    def _set_up(self, item: ExpressItem) -> tuple[str, ExpressPlan]:
        """Find out what has to change, and record knowledge."""
        repository = git.Repository(self._workspace.root)
        base = repository.commit_of(item.base)
        is_knowledge = any(change.nodes or change.edges for change in item.changes())
        # Two updates of knowledge must not each be compared with a ledger without the other.
        guard = git.locked(os.path.join(self._folder, "knowledge.lock"))
        with guard if is_knowledge else nullcontext():
            known = graph.Graph()
            if is_knowledge:
                with context_of(self._workspace).store.reading() as reader:
                    known = written_graph(reader)
            plan = ExpressPlan(repository, base, known)
            for change in item.changes():
                plan.add(change)
            if plan.nodes or plan.edges:
                # Recorded before we were killed, and changed by others since: theirs is newer.
                with suppress(KeyReused):
                    key, add = EXPRESS_RUN + item.id, self._workspace.knowledge.add
                    add(plan.nodes, plan.edges, agent=item.by, task=item.task, key=key)
        return base, plan

    def _code(self, item: ExpressItem, agent: str, base: str, plan: ExpressPlan) -> JsonObject:
        """Write, commit and open a pull request."""
        commit = self._commit(item, agent, base, plan)
        facts: JsonObject = {
            "agent": agent,
            "branch": item.branch if commit.id else "",
            "commit": commit.id,
            "files": list(commit.files),
            "reports": [report.to_dict() for report in plan.reports],
            "lost": list(plan.lost),
        }
        request = self._ask_to_merge(item, facts)._asdict() if commit.id else None
        return {**facts, "pull_request": request}

    def _commit(self, item: ExpressItem, agent: str, base: str, plan: ExpressPlan) -> git.Commit:
        """The commit of an item, made now or before we were killed; empty if nothing changes."""
        mark = f"Passdown-Express: {item.id} {item.digest()[:32]}"
        try:
            with git.Worktree(self._workspace.root, item.branch, base, mark=mark) as tree:
                if tree.committed is not None or not plan.needs:
                    return tree.committed or git.Commit("", ())
                for path, data in plan.files.items():
                    if data is None:
                        tree.delete(path)
                    else:
                        tree.write(path, data)
                for patch in plan.patches:
                    tree.apply(patch)
                message, at = commit_message(item, agent, mark), parse_time(item.created)
                return tree.commit(message, author=item.by, at=at, committer=agent)
        except GitError as error:
            # A patch, or a line ending that git ignores, may change nothing.
            if error.code != "nothing_to_commit":
                raise
            return git.Commit("", ())

    def _ask_to_merge(self, item: ExpressItem, facts: JsonObject) -> git.PullRequest:
        """Open a pull request; if that fails, the commit is there all the same."""
        root = self._workspace.root
        into = git.Repository(root).branch_at(item.base)
        title, body = visible(item.title), request_body(item, facts)
        spec = git.PullRequestSpec(item.branch, into, title, body)
        try:
            return self._open_request(root, spec)
        except (PassdownError, OSError) as error:
            if isinstance(error, StoreBusy):  # stopped: another worker goes on from the commit
                raise
            return git.PullRequest(False, problem=str(error)[:2_000])

    def _promote(self, run: Run) -> None:
        """Make a task of an item, with everything that is known, and record which."""
        item = item_of(run)
        failed = run.legs[run.stopped_by[0]] if run.stopped_by else list(run.legs.values())[-1]
        fields: JsonObject = {
            "title": f"Express work that failed: {item.title}",
            "agent": item.by,
            "description": task_description(item, failed.why, failed.result.get("evidence", "")),
            "inputs": [visible(path) for change in item.changes() if (path := change.path)],
            "criteria": [f"what {item.kind} {item.id} was for is done, or not wanted any more"],
        }
        for suffix in ("", *(f"-{number}" for number in range(2, 100))):
            try:
                self._workspace.create_task(run.run + suffix, key=run.run, **fields)
            except Conflict:
                continue
            self._runs.promote(run.run, run.run + suffix)
            return
        raise NotFound(f"no free task id for {run.run}: too many tasks have that name")


class ExpressPlan:
    """What an item changes at a commit: files with their new content (None: deleted), patches, and
    what the ledger learns. `reports` and `lost` are for the sender.

    Files are read from the commit, never from the user's folder. Only what differs is in a plan.
    """

    def __init__(self, repository: git.Repository, base: str, ledger: graph.Graph) -> None:
        self.files: dict[str, bytes | None] = {}
        self.patches: list[str] = []
        self.nodes: list[graph.Node] = []
        self.edges: list[graph.Edge] = []
        self.reports: list[Problem] = []
        self.lost: list[str] = []
        self._repository = repository
        self._base = base
        self._ledger = ledger

    @property
    def needs(self) -> tuple[str, ...]:
        """The files that it touches."""
        patched = (path for patch in self.patches for path in git.read_patch(patch).paths)
        return tuple(sorted({*self.files, *patched}))

    def add(self, change: ExpressChange) -> None:
        """Add one change; raises GitError or InvalidInput where it can't be made."""
        path, action = change.path, change.action
        if action == "write":
            self._put(path, change.text.encode())
        elif action == "append":
            before = self._content(path) or b""
            gap = b"" if not before or before.endswith(b"\n") else b"\n"
            self._put(path, before + gap + change.text.encode())
        elif action == "delete":
            if self._content(path) is None:
                message = f"there is no file {path!r} to delete"
                raise GitError(message, next_step="Check its name.", code="unsafe_path")
            self._put(path, None)
        elif action == "patch":
            self.patches.append(change.text)
        else:
            self._learn(change)

    def _content(self, path: str) -> bytes | None:
        """The content of a file after the changes so far."""
        return self.files[path] if path in self.files else self._repository.read(self._base, path)

    def _put(self, path: str, data: bytes | None) -> None:
        self.files.pop(path, None)
        if data != self._repository.read(self._base, path):
            self.files[path] = data

    def _learn(self, change: ExpressChange) -> None:
        """Merge entries into a knowledge file and the ledger."""
        entries = graph.graph_of(change.nodes, change.edges)
        file = self._read_graph(change.path)
        made = update_graph(file, entries, self._ledger, is_only=change.action == "learn_only")
        form = "json" if change.path.endswith(".json") else "dot"
        self._put(change.path, write_graph(made.file, form).encode())
        self.nodes += made.nodes
        self.edges += made.edges
        self.reports += made.reports
        self.lost += made.lost

    def _read_graph(self, path: str) -> graph.Graph:
        data = self._content(path) or b""
        if not data.strip():
            return graph.graph_of((), ())
        known = [node.id for node in self._ledger.nodes]
        try:
            return read_graph(data.decode().replace("\r\n", "\n"), known=known)
        except UnicodeDecodeError as error:
            problem = Problem(path, "not_text", str(error), "a knowledge file")
            raise InvalidInput("the knowledge file can't be read", [problem]) from error
