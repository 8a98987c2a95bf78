"""Express items: their values, checks and texts. Pure.

An item says who wants which files changed, and why. Its kind is a row of `KINDS`: its declared
fields, and the changes that it comes down to.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.arguments import priority_problem
from passdown.core.graph import Edge, Node, check_graph
from passdown.core.knowledge import edge_document, graph_values, node_document, reserved_problems
from passdown.core.names import id_problems, normal_path, path_problems
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
from passdown.core.text import child_path, excerpt, ignorable, text_problems, visible
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.core.types import JsonObject


_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NAMED = ("--- ", "+++ ", "rename from ", "rename to ", "copy from ", "copy to ")
_MODE = re.compile(r"(?:old|new) mode \d+|(?:new|deleted) file mode (?!100644$|100755$)\d+")
_BINARY = ("GIT binary patch", "Binary files ")
_NOWHERE = "/dev/null"


class Patch(NamedTuple):
    """The headers of a patch: the files it names, how many leading parts of their names to strip
    (`a/` and `b/`: 1), and what is wrong with it.
    """

    paths: tuple[str, ...]
    strip: int
    problems: tuple[Problem, ...]


def read_patch(text: str, where: str = "patch") -> Patch:
    """Read the headers of a unified patch; git checks the rest when it is applied.

    Patches of binary files and modes (links and submodules too) and quoted names are refused: their
    effect can't be seen from the text.
    """
    heads, hunks = _header_lines(text)
    problems = [
        Problem(where, "not_text", f"{excerpt(line)!r}", "changes to the text of files")
        for line in heads
        if line.startswith(_BINARY) or _MODE.fullmatch(line)
    ]
    named = [name for line in heads if (name := _file_named_in(line))]
    if any(name.startswith('"') for _, name in named):
        fix = "make it with git -c core.quotePath=false diff"
        problems.append(Problem(where, "invalid_patch", "has a quoted name", "unquoted names", fix))
    if not named or not (hunks or any(is_bare for is_bare, _ in named)):
        expected = "a unified diff, with --- and +++ before each @@"
        problems.append(Problem(where, "invalid_patch", "contains no change", expected))
    sided = [name for is_bare, name in named if not is_bare]
    strip = int(bool(sided) and all(name[:2] in ("a/", "b/") for name in sided))
    paths = {name if is_bare else name[2 * strip :] for is_bare, name in named}
    return Patch(tuple(sorted(paths)), strip, tuple(problems))


def _header_lines(text: str) -> tuple[list[str], int]:
    """The lines outside hunks, and the number of hunks."""
    heads: list[str] = []
    hunks = old = new = 0
    for line in text.split("\n"):
        if old > 0 or new > 0:
            old -= line[:1] not in ("+", "\\")
            new -= line[:1] not in ("-", "\\")
        elif hunk := _HUNK.match(line):
            hunks += 1
            old, new = (int(count) if count else 1 for count in hunk.groups())
        else:
            heads.append(line.removesuffix("\r"))
    return heads, hunks


def _file_named_in(line: str) -> tuple[bool, str] | None:
    """The file that a header names, and whether without `a/` or `b/`; None for other lines."""
    start = next((start for start in _NAMED if line.startswith(start)), None)
    if start is None:
        return None
    name = line[len(start) :].partition("\t")[0]
    return (start[0] in "rc", name) if name and name != _NOWHERE else None


MAX_EXPRESS_ID = 80
MAX_REASON = 4_000
MAX_CONTENT_BYTES = 1_048_576
"""The most text in one item; its record keeps all of it."""
OWN_FOLDER = ".passdown"
KNOWLEDGE_ENDINGS = (".dot", ".gv", ".json")
DEFAULT_FILE = "knowledge.dot"
DEFAULT_AGENT = "coder"
BRANCH = "passdown/express-"
KNOWLEDGE_ACTIONS = ("append", "replace")
FILE_ACTIONS = ("write", "append", "delete")
MAX_FILES = 50
MAX_ENTRIES = 1_000

# A revision is given to git as one word; this keeps options, ranges and searches out of it.
_BASE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}", re.ASCII)
_GIT_FOLDERS = (".git", "git~1")
_OWN_KNOWLEDGE = frozenset(f"{OWN_FOLDER}/knowledge{ending}" for ending in KNOWLEDGE_ENDINGS)
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


def _reason_problems(given: object, where: str) -> list[Problem]:
    return text_problems(given, where, max_length=MAX_REASON)


def _content_problems(given: object, where: str) -> list[Problem]:
    found = text_problems(given, where, required=False, max_length=MAX_CONTENT_BYTES)
    # A file may hold any number of combining marks: it isn't shown to agents.
    return [problem for problem in found if problem.code != "too_many_marks"]


def file_problems(path: object, where: str) -> list[Problem]:
    """Check the path of a file to change."""
    problems = path_problems(path, where)
    if not problems and isinstance(path, str) and _is_protected(path):
        message = f"{path[:200]!r} is inside a folder that keeps the project's history"
        problems = [Problem(where, "protected_path", message, "a file of the project")]
    return problems


def _is_protected(path: str) -> bool:
    """Whether a project path leads into git's folder or Passdown's."""
    # Some file systems ignore case and invisible characters.
    parts = [ignorable().sub("", part).casefold() for part in normal_path(path).split("/")]
    return parts[0] == OWN_FOLDER or any(part in _GIT_FOLDERS for part in parts)


def may_change(path: str) -> bool:
    """Whether express items may change a project path."""
    return path in _OWN_KNOWLEDGE or not _is_protected(path)


def _knowledge_file_problems(path: object, where: str) -> list[Problem]:
    """`.passdown/knowledge.dot` (or `.json`) is allowed, and the extension gives the format."""
    if isinstance(path, str) and normal_path(path) in _OWN_KNOWLEDGE:
        return []
    problems = file_problems(path, where)
    if not problems and isinstance(path, str) and not path.endswith(KNOWLEDGE_ENDINGS):
        expected = f"a name that ends in {' or '.join(KNOWLEDGE_ENDINGS)}"
        message = f"{path[-80:]!r} isn't a knowledge file"
        problems = [Problem(where, "invalid_path", message, expected)]
    return problems


def _size_problems(data: bytes, where: str) -> list[Problem]:
    if len(data) <= MAX_CONTENT_BYTES:
        return []
    expected = f"at most {MAX_CONTENT_BYTES:,} bytes in all; create a task for more"
    return [Problem(where, "too_large", f"{len(data):,} bytes", expected)]


_REASON, _CONTENT = Text(_reason_problems), Text(_content_problems)
_FILE = Text(file_problems, normal_path)


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
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()


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
        problems += [
            _unknown(field, fields[field], known) for field in fields if field not in known
        ]
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
    try:
        nodes, edges = graph_values(*([entries[at] for at in places[name]] for name in places))
        # The target of an edge may be known to the ledger: it is checked when it is recorded.
        found = [p for p in check_graph(nodes, edges) if p.code != "unknown_node"]
        found += reserved_problems(nodes, edges)
    except InvalidInput as error:
        nodes, edges, found = [], [], list(error.problems)
    problems += [_at_entry(problem, places) for problem in found]
    documents = [*map(node_document, nodes), *map(edge_document, edges)]
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
    nodes, edges = graph_values(
        [entry for entry in entries if "source" not in entry],
        [entry for entry in entries if "source" in entry],
    )
    action = "learn" if content["action"] == "append" else "learn_only"
    return (ExpressChange(action, content["file_path"], "", tuple(nodes), tuple(edges)),)


def _hot_fix_content(content: JsonObject, problems: list[Problem]) -> JsonObject:
    if ("files" in content) == ("patch" in content):
        problems.append(Problem("files", "required", "files and patch", "either files or a patch"))
        return {}
    if "patch" in content:
        patch = content["patch"] or ""
        read = read_patch(patch) if isinstance(patch, str) else Patch((), 0, ())
        problems += read.problems
        problems += [p for path in read.paths for p in file_problems(path, "patch")]
        return content
    files: dict[str, str] = content["files"]
    checked: dict[str, str] = {}
    for path, text in files.items():
        if normal_path(path) in checked:
            where = child_path("files", path)
            problems.append(Problem(where, "duplicate_path", "is given twice", "each file once"))
        checked[normal_path(path)] = text
    problems += _size_problems(
        "".join(map(str, checked.values())).encode("utf-8", "replace"), "files"
    )
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
    lines += [
        f"- by {item.by}",
        f"- carried out by {facts['agent']}",
        f"- commit {facts['commit']}",
    ]
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
    return "\n\n".join(
        [
            f"{sent}: {item.reason}",
            f"It failed: {why}",
            f"Evidence:\n{evidence}",
            f"Content:\n{content}",
        ]
    )
