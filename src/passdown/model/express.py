"""Express items: small work that overtakes, as values, and the rules that it has to keep. Pure.

An item says who wants which files changed, and why. Its *kind* is a row of `KINDS`: which fields it
has, how they are checked, and which changes it comes down to. A new kind is a new row.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.arguments import priority_problem
from passdown.model.canonical import canonical_bytes, digest_bytes
from passdown.model.express_rules import (
    MAX_CONTENT_BYTES,
    choice,
    file_problems,
    head_problems,
    knowledge_file_problems,
    size_problems,
    text_of,
)
from passdown.model.graph import Edge, Node, check_graph
from passdown.model.kinds import EXPRESS_STREAM
from passdown.model.knowledge import as_values, edge_document, node_document, reserved_problems
from passdown.model.names import normal_path
from passdown.model.patches import read_patch
from passdown.model.redaction import redact_value
from passdown.model.times import parse_time, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Document = dict[str, Any]

DEFAULT_FILE = "knowledge.dot"
BRANCH = "passdown/express-"
KNOWLEDGE_ACTIONS = ("append", "replace")
FILE_ACTIONS = ("write", "append", "delete")
MAX_FILES = 50
MAX_ENTRIES = 1_000

_COMMON = ("id", "kind", "by", "reason", "task", "base", "created")
_REFUSED = "the express item is refused; nothing was changed"


class Change(NamedTuple):
    """One change that an item comes down to: `write`, `append`, `delete`, `patch` (a path is
    empty then, and the text is the patch), or of knowledge `learn` and `learn_only`.
    """

    action: str
    path: str = ""
    text: str = ""
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()


class ExpressItem(NamedTuple):
    """One piece of express work, checked: make it with `express_item`.

    `content` holds the fields of its kind as plain JSON; `base` is the branch or commit that it
    changes, `created` a time as it is stored.
    """

    id: str
    kind: str
    by: str
    reason: str
    content: Mapping[str, Any]
    task: str = ""
    base: str = "HEAD"
    created: str = ""

    @property
    def branch(self) -> str:
        """The branch that its commit is on."""
        return BRANCH + self.id

    @property
    def stream(self) -> str:
        """The stream of its records."""
        return EXPRESS_STREAM + self.id

    @property
    def title(self) -> str:
        """What it does in a line: its message's, else its reason's."""
        lines = str(self.content.get("message") or self.reason).strip().splitlines()
        return f"{' '.join(lines[0].split())[:72].rstrip()}"

    def changes(self) -> tuple[Change, ...]:
        """The changes that it comes down to, in their order."""
        return KINDS[self.kind].changes(dict(self.content))

    def digest(self) -> str:
        """A digest of all that it says but for its id and its time."""
        said = [self.kind, self.by, self.reason, self.task, self.base, dict(self.content)]
        return digest_bytes(canonical_bytes(said)).removeprefix("sha256:")

    def as_document(self) -> Document:
        """The item as a plain JSON object, which `express_item` reads back."""
        return {**self._asdict(), "content": dict(self.content)}


class ExpressKind(NamedTuple):
    """A row of the table of kinds: the fields, what is checked and the changes that come of it.

    `check` gives the content in its one form, and adds to the problems.
    """

    fields: tuple[str, ...]
    check: Callable[[Document, list[Problem]], Document]
    changes: Callable[[Document], tuple[Change, ...]]


def express_item(given: object, *, now: str) -> ExpressItem:
    """The item that plain data means; `now` is its time unless it says one.

    Fields of the kind stand beside the common ones, or under `content` or `payload`; the kind is
    given as `kind` or `type`, `hot_fix` or `HOT_FIX`. Without an id it gets one made from what it
    says, so the same again is the same item. Raises InvalidInput with every problem.
    """
    if isinstance(given, ExpressItem):
        given = given.as_document()
    if not isinstance(given, dict):
        problem = Problem("", "wrong_type", f"{type(given).__name__} given", "an object")
        raise InvalidInput(_REFUSED, [problem])
    head, content = _parted(cast("Document", given))
    problems: list[Problem] = []
    name = head["kind"].lower().replace("-", "_") if isinstance(head.get("kind"), str) else ""
    kind = KINDS.get(name)
    if kind is None:
        problems.append(_not_a_kind(head.get("kind")))
    else:
        problems += _unknown_fields(content, kind)
        content = kind.check(content, problems)
    problems += head_problems(head)
    problems += _secrets(head, content)
    if problems:
        raise InvalidInput(_REFUSED, problems, next_step="Mend these and send it again.")
    created = stamp(parse_time(head["created"])) if head.get("created") else now
    item = ExpressItem(
        head.get("id") or "", name, head["by"], head["reason"], content, created=created
    )
    item = item._replace(task=head.get("task") or "", base=head.get("base") or "HEAD")
    return item if item.id else item._replace(id=f"x{item.digest()[:16]}")


def _parted(given: Document) -> tuple[Document, Document]:
    """The common fields, and those of the kind."""
    given = dict(given)
    if "kind" not in given and "type" in given:
        given["kind"] = given.pop("type")
    inner: Document = {}
    for name in ("content", "payload"):
        if isinstance(given.get(name), dict):
            inner |= cast("Document", given.pop(name))
    head = {name: given.pop(name) for name in _COMMON if name in given}
    return head, {**inner, **given}


def _not_a_kind(given: object) -> Problem:
    expected = f"one of {', '.join(KINDS)}"
    if given is None:
        return Problem("kind", "required", "is missing", expected)
    close = get_close_matches(str(given).lower(), KINDS, 1)
    fix = f"did you mean {close[0]}?" if close else ""
    return Problem("kind", "invalid_choice", repr(given)[:80], expected, fix)


def _unknown_fields(content: Document, kind: ExpressKind) -> list[Problem]:
    expected = f"one of {', '.join((*_COMMON, *kind.fields))}"
    unknown = [name for name in content if name not in kind.fields]
    return [
        priority_problem(content[name], name)
        if name == "priority"
        else Problem(str(name)[:80], "unknown_field", "is no field of it", expected)
        for name in unknown
    ]


def _secrets(head: Document, content: Document) -> list[Problem]:
    """A record is kept without secrets, so what is carried out would not be what was sent."""
    found: list[Problem] = []
    for name, value in (*head.items(), *content.items()):
        found += [
            Problem(name, "secret", f"holds what looks like a secret ({kind})", "none in it")
            for kind in redact_value(value)[1]
        ]
    return found


def _check_knowledge(content: Document, problems: list[Problem]) -> Document:
    given: object = content.get("entries")
    entries = cast("list[Any]", given) if isinstance(given, list) else []
    if not entries:
        problems.append(Problem("entries", "required", "are missing", "nodes or edges"))
    if len(entries) > MAX_ENTRIES:
        expected = f"at most {MAX_ENTRIES:,}"
        problems.append(Problem("entries", "too_many", f"{len(entries):,} entries", expected))
        entries = []
    action = choice(content, "action", KNOWLEDGE_ACTIONS, problems)
    path = content.get("file_path") or DEFAULT_FILE
    problems += knowledge_file_problems(path, "file_path")
    documents = _entry_documents(entries, problems)
    file_path = normal_path(path) if isinstance(path, str) else ""
    return {"entries": documents, "file_path": file_path, "action": action}


def _entry_documents(entries: list[Any], problems: list[Problem]) -> list[Document]:
    """Entries as plain nodes and edges in their one form; what has a source is an edge."""
    places = {"nodes": _places(entries, False), "edges": _places(entries, True)}
    try:
        nodes, edges = as_values(*([entries[at] for at in places[name]] for name in places))
        # Where an edge leads to can be known elsewhere: that is for whoever writes it down.
        found = [p for p in check_graph(nodes, edges) if p.code != "unknown_node"]
        found += reserved_problems(nodes, edges)
    except InvalidInput as error:
        nodes, edges, found = [], [], list(error.problems)
    problems += [_at_entry(problem, places) for problem in found]
    documents = [*map(node_document, nodes), *map(edge_document, edges)]
    problems += size_problems(canonical_bytes(documents) if not found else b"", "entries")
    return documents


def _places(entries: list[Any], is_edge: bool) -> list[int]:
    """Where the nodes, or the edges, stand among the entries."""
    are_edges = [isinstance(entry, dict) and "source" in entry for entry in entries]
    return [at for at, found in enumerate(are_edges) if found is is_edge]


def _at_entry(problem: Problem, places: dict[str, list[int]]) -> Problem:
    """A problem of `nodes[0]` at the entry that this node was."""
    listed, _, rest = problem.path.partition("[")
    number, mark, rest = rest.partition("]")
    if listed not in places or not mark or not number.isdigit():
        return problem
    return problem._replace(path=f"entries[{places[listed][int(number)]}]{rest}")


def _knowledge_changes(content: Document) -> tuple[Change, ...]:
    entries: list[Document] = content["entries"]
    nodes, edges = as_values(
        [entry for entry in entries if "source" not in entry],
        [entry for entry in entries if "source" in entry],
    )
    action = "learn" if content["action"] == "append" else "learn_only"
    return (Change(action, content["file_path"], "", tuple(nodes), tuple(edges)),)


def _check_hot_fix(content: Document, problems: list[Problem]) -> Document:
    message = text_of(content, "message", problems, required=False, max_length=4_000)
    if ("files" in content) == ("patch" in content):
        expected = "one of both: files, or a patch"
        problems.append(Problem("files", "required", "files and patch", expected))
        return {}
    if "patch" in content:
        text = text_of(content, "patch", problems, max_length=MAX_CONTENT_BYTES)
        patch = read_patch(text)
        problems += patch.problems if text else ()
        problems += [p for path in patch.paths for p in file_problems(path, "patch")]
        return {"patch": text, "message": message}
    given: object = content["files"]
    if not isinstance(given, dict) or not given:
        problems.append(Problem("files", "wrong_type", "is empty or no object", "texts by paths"))
        return {}
    files = cast("dict[Any, Any]", given)
    if len(files) > MAX_FILES:
        expected = f"at most {MAX_FILES}; more is a task"
        problems.append(Problem("files", "too_many", f"{len(files)} files", expected))
        return {}
    return {"files": _checked_files(files, problems), "message": message}


def _checked_files(files: dict[Any, Any], problems: list[Problem]) -> dict[str, str]:
    checked: dict[str, str] = {}
    for path, text in files.items():
        where = f'files["{str(path)[:80]}"]'
        found = file_problems(path, where)
        content = text_of({where: text}, where, problems, required=False)
        if not found and normal_path(path) in checked:
            found = [Problem(where, "duplicate_path", "is there twice", "each file once")]
        problems += found
        if not found:
            checked[normal_path(path)] = content
    problems += size_problems("".join(checked.values()).encode("utf-8", "replace"), "files")
    return checked


def _hot_fix_changes(content: Document) -> tuple[Change, ...]:
    if "patch" in content:
        return (Change("patch", text=content["patch"]),)
    return tuple(Change("write", path, text) for path, text in content["files"].items())


def _check_file_task(content: Document, problems: list[Problem]) -> Document:
    message = text_of(content, "message", problems, required=False, max_length=4_000)
    action = choice(content, "action", FILE_ACTIONS, problems, default="write")
    path = content.get("path")
    found = file_problems(path, "path")
    problems += found
    checked = {"path": "" if found else normal_path(str(path)), "action": action}
    if action == "delete":
        if content.get("content"):
            problems.append(Problem("content", "not_here", "given to delete a file", "none"))
        return {**checked, "message": message}
    if content.get("content") is None:
        problems.append(Problem("content", "required", "is missing", "the text of the file"))
    text = text_of(content, "content", problems, required=False)
    return {**checked, "content": text, "message": message}


def _file_changes(content: Document) -> tuple[Change, ...]:
    return (Change(content["action"], content["path"], content.get("content", "")),)


KINDS: Mapping[str, ExpressKind] = {
    "knowledge_update": ExpressKind(
        ("entries", "file_path", "action"), _check_knowledge, _knowledge_changes
    ),
    "hot_fix": ExpressKind(("files", "patch", "message"), _check_hot_fix, _hot_fix_changes),
    "file_task": ExpressKind(
        ("path", "content", "action", "message"), _check_file_task, _file_changes
    ),
}
