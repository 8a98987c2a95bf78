"""Express items: their values, checks and texts. Pure.

An item says who wants which files changed, and why. Its kind is a row of `KINDS`: its fields, how
they are checked, and the changes that it comes down to.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.arguments import priority_problem
from passdown.core.graph import Edge, Node, check_graph
from passdown.core.knowledge import edge_document, graph_values, node_document, reserved_problems
from passdown.core.names import agent_problems, id_problems, normal_path, path_problems
from passdown.core.record import canonical_bytes, digest_bytes
from passdown.core.redaction import redact_value
from passdown.core.text import excerpt, ignorable, text_problems, visible
from passdown.core.times import parse_time, stamp
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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

# A revision is given to git as one word; this keeps options, ranges and searches out of it.
_BASE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}", re.ASCII)
_GIT_FOLDERS = (".git", "git~1")


def head_problems(head: Mapping[str, Any]) -> list[Problem]:
    """Check the fields that all items have, except the kind."""
    problems = _id_problems(head["id"]) if head.get("id") else []
    for name in ("by", "reason"):
        if head.get(name) is None:
            problems.append(Problem(name, "required", "is missing", _EXPECTED[name]))
    if head.get("by") is not None:
        problems += agent_problems(head["by"], "by")
    if head.get("reason") is not None:
        problems += text_problems(head["reason"], "reason", max_length=MAX_REASON)
    if head.get("task"):
        problems += id_problems(head["task"], "task")
    for name in _agent_names(head):
        problems += agent_problems(name, "agents")
    return problems + _base_problems(head.get("base")) + _time_problems(head.get("created"))


_EXPECTED = {"by": "the agent or person who asks for it", "reason": "why it is needed"}


def _id_problems(given: object) -> list[Problem]:
    problems = id_problems(given, "id")
    if problems or not isinstance(given, str):
        return problems
    if len(given) > MAX_EXPRESS_ID:
        return [Problem("id", "too_long", f"{len(given)} characters", f"at most {MAX_EXPRESS_ID}")]
    if ".." in given or given.endswith((".", ".lock")):
        expected = "no two dots in a row, and no dot or .lock at the end"
        return [Problem("id", "invalid_id", f"{given!r} can't be part of a branch name", expected)]
    return []


def _agent_names(head: Mapping[str, Any]) -> list[Any]:
    """The agents that may carry it out: a list, or one name."""
    given: object = head.get("agents") or []
    names = cast("list[Any]", given) if isinstance(given, list | tuple) else [given]
    return names


def _base_problems(given: object) -> list[Problem]:
    if given is None or given == "":
        return []
    if isinstance(given, str) and _BASE.fullmatch(given) and ".." not in given:
        return []
    return [Problem("base", "invalid_base", repr(given)[:80], "a branch, a tag or a commit")]


def _time_problems(given: object) -> list[Problem]:
    if given is None or given == "":
        return []
    try:
        parse_time(str(given))
    except ValueError:
        expected = "a time with its zone, such as 2026-01-31T12:00:00Z"
        return [Problem("created", "invalid_time", repr(given)[:60], expected)]
    return []


def file_problems(path: object, where: str) -> list[Problem]:
    """Check the path of a file to change."""
    problems = path_problems(path, where)
    if problems or not isinstance(path, str):
        return problems
    if is_protected(path):
        message = f"{path[:200]!r} is inside a folder that keeps the project's history"
        return [Problem(where, "protected_path", message, "a file of the project")]
    return []


def is_protected(path: str) -> bool:
    """Whether a project path leads into git's folder or Passdown's."""
    # Some file systems ignore case and invisible characters.
    parts = [ignorable().sub("", part).casefold() for part in normal_path(path).split("/")]
    return parts[0] == OWN_FOLDER or any(part in _GIT_FOLDERS for part in parts)


def knowledge_file_problems(path: object, where: str) -> list[Problem]:
    """Check the path of a knowledge file: `.passdown/knowledge.dot` (or `.json`) is allowed, and
    the extension gives the format.
    """
    if isinstance(path, str) and normal_path(path) in _OWN_KNOWLEDGE:
        return []
    problems = file_problems(path, where)
    if not problems and isinstance(path, str) and not path.endswith(KNOWLEDGE_ENDINGS):
        expected = f"a name that ends in {' or '.join(KNOWLEDGE_ENDINGS)}"
        message = f"{path[-80:]!r} isn't a knowledge file"
        problems = [Problem(where, "invalid_path", message, expected)]
    return problems


_OWN_KNOWLEDGE = frozenset(f"{OWN_FOLDER}/knowledge{ending}" for ending in KNOWLEDGE_ENDINGS)


def may_change(path: str) -> bool:
    """Whether express items may change a project path."""
    return path in _OWN_KNOWLEDGE or not is_protected(path)


def read_choice(
    content: Mapping[str, Any],
    name: str,
    allowed: Sequence[str],
    problems: list[Problem],
    *,
    default: str = "",
) -> str:
    """One of the allowed words; anything else adds a problem."""
    given = content.get(name) or default
    if given in allowed:
        return str(given)
    code = "invalid_choice" if given else "required"
    message = repr(given)[:80] if given else "is missing"
    problems.append(Problem(name, code, message, f"one of {', '.join(allowed)}"))
    return ""


def read_text(
    content: Mapping[str, Any],
    name: str,
    problems: list[Problem],
    *,
    required: bool = True,
    max_length: int = MAX_CONTENT_BYTES,
) -> str:
    """The text of a field; what isn't text, or is too long, adds a problem and gives ""."""
    given = content.get(name)
    if given is None:
        if required:
            problems.append(Problem(name, "required", "is missing", "text"))
        return ""
    found = text_problems(given, name, required=required, max_length=max_length)
    # A file may hold any number of combining marks: it isn't shown to agents.
    found = [problem for problem in found if problem.code != "too_many_marks"]
    problems += found
    return "" if found else str(given)


def size_problems(data: bytes, where: str) -> list[Problem]:
    """Check the size of an item's content."""
    if len(data) <= MAX_CONTENT_BYTES:
        return []
    expected = f"at most {MAX_CONTENT_BYTES:,} bytes in all; create a task for more"
    return [Problem(where, "too_large", f"{len(data):,} bytes", expected)]


DEFAULT_FILE = "knowledge.dot"
BRANCH = "passdown/express-"
KNOWLEDGE_ACTIONS = ("append", "replace")
FILE_ACTIONS = ("write", "append", "delete")
MAX_FILES = 50
MAX_ENTRIES = 1_000

DEFAULT_AGENT = "coder"
_COMMON = ("id", "kind", "by", "reason", "task", "base", "created", "agents")
_REFUSED = "the express item is refused; nothing was changed"


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
    """A kind of item: its fields, a check that normalizes its content and adds problems, and the
    changes that the content stands for.
    """

    fields: tuple[str, ...]
    check: Callable[[JsonObject, list[Problem]], JsonObject]
    changes: Callable[[JsonObject], tuple[ExpressChange, ...]]


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
    head, content = _split_fields(cast("JsonObject", given))
    problems: list[Problem] = []
    name = head["kind"].lower().replace("-", "_") if isinstance(head.get("kind"), str) else ""
    kind = KINDS.get(name)
    if kind is None:
        problems.append(_not_a_kind(head.get("kind")))
    else:
        problems += _unknown_fields(content, kind)
        content = kind.check(content, problems)
    problems += head_problems(head)
    problems += _secret_problems(head, content)
    if problems:
        raise InvalidInput(_REFUSED, problems, next_step="Fix these and send it again.")
    created = stamp(parse_time(head["created"])) if head.get("created") else now
    item = ExpressItem(
        head.get("id") or "", name, head["by"], head["reason"], content, created=created
    )
    item = item._replace(task=head.get("task") or "", base=head.get("base") or "HEAD")
    item = item._replace(agents=tuple(dict.fromkeys(_agent_names(head))) or (DEFAULT_AGENT,))
    return item if item.id else item._replace(id=f"x{item.digest()[:16]}")


def _split_fields(given: JsonObject) -> tuple[JsonObject, JsonObject]:
    """The common fields, and those of the kind."""
    given = dict(given)
    if "kind" not in given and "type" in given:
        given["kind"] = given.pop("type")
    inner: JsonObject = {}
    for name in ("content", "payload"):
        if isinstance(given.get(name), dict):
            inner |= cast("JsonObject", given.pop(name))
    head = {name: given.pop(name) for name in _COMMON if name in given}
    return head, {**inner, **given}


def _not_a_kind(given: object) -> Problem:
    expected = f"one of {', '.join(KINDS)}"
    if given is None:
        return Problem("kind", "required", "is missing", expected)
    close = get_close_matches(str(given).lower(), KINDS, 1)
    fix = f"did you mean {close[0]}?" if close else ""
    return Problem("kind", "invalid_choice", repr(given)[:80], expected, fix)


def _unknown_fields(content: JsonObject, kind: ExpressKind) -> list[Problem]:
    expected = f"one of {', '.join((*_COMMON, *kind.fields))}"
    unknown = [name for name in content if name not in kind.fields]
    return [
        priority_problem(content[name], name)
        if name == "priority"
        else Problem(str(name)[:80], "unknown_field", "unknown field", expected)
        for name in unknown
    ]


def _secret_problems(head: JsonObject, content: JsonObject) -> list[Problem]:
    """Secrets are removed from records, so what is carried out would differ from what was sent."""
    found: list[Problem] = []
    for name, value in (*head.items(), *content.items()):
        found += [
            Problem(name, "secret", f"contains what looks like a secret ({kind})", "no secret")
            for kind in redact_value(value)[1]
        ]
    return found


def _check_knowledge(content: JsonObject, problems: list[Problem]) -> JsonObject:
    given: object = content.get("entries")
    entries = cast("list[Any]", given) if isinstance(given, list) else []
    if not entries:
        problems.append(Problem("entries", "required", "are missing", "nodes or edges"))
    if len(entries) > MAX_ENTRIES:
        expected = f"at most {MAX_ENTRIES:,}"
        problems.append(Problem("entries", "too_many", f"{len(entries):,} entries", expected))
        entries = []
    action = read_choice(content, "action", KNOWLEDGE_ACTIONS, problems)
    path = content.get("file_path") or DEFAULT_FILE
    problems += knowledge_file_problems(path, "file_path")
    documents = _entry_documents(entries, problems)
    file_path = normal_path(path) if isinstance(path, str) else ""
    return {"entries": documents, "file_path": file_path, "action": action}


def _entry_documents(entries: list[Any], problems: list[Problem]) -> list[JsonObject]:
    """Entries as normalized nodes and edges; an entry with a source is an edge."""
    places = {"nodes": _entry_indexes(entries, False), "edges": _entry_indexes(entries, True)}
    try:
        nodes, edges = graph_values(*([entries[at] for at in places[name]] for name in places))
        # The target of an edge may be known to the ledger: it is checked when it is recorded.
        found = [p for p in check_graph(nodes, edges) if p.code != "unknown_node"]
        found += reserved_problems(nodes, edges)
    except InvalidInput as error:
        nodes, edges, found = [], [], list(error.problems)
    problems += [_at_entry(problem, places) for problem in found]
    documents = [*map(node_document, nodes), *map(edge_document, edges)]
    problems += size_problems(canonical_bytes(documents) if not found else b"", "entries")
    return documents


def _entry_indexes(entries: list[Any], is_edge: bool) -> list[int]:
    """The indexes of the nodes, or of the edges, among the entries."""
    are_edges = [isinstance(entry, dict) and "source" in entry for entry in entries]
    return [at for at, found in enumerate(are_edges) if found is is_edge]


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


def _check_hot_fix(content: JsonObject, problems: list[Problem]) -> JsonObject:
    message = read_text(content, "message", problems, required=False, max_length=4_000)
    if ("files" in content) == ("patch" in content):
        expected = "either files or a patch"
        problems.append(Problem("files", "required", "files and patch", expected))
        return {}
    if "patch" in content:
        text = read_text(content, "patch", problems, max_length=MAX_CONTENT_BYTES)
        patch = read_patch(text)
        problems += patch.problems if text else ()
        problems += [p for path in patch.paths for p in file_problems(path, "patch")]
        return {"patch": text, "message": message}
    given: object = content["files"]
    if not isinstance(given, dict) or not given:
        problems.append(
            Problem("files", "wrong_type", "is empty or not an object", "texts by paths")
        )
        return {}
    files = cast("dict[Any, Any]", given)
    if len(files) > MAX_FILES:
        expected = f"at most {MAX_FILES}; create a task for more"
        problems.append(Problem("files", "too_many", f"{len(files)} files", expected))
        return {}
    return {"files": _checked_files(files, problems), "message": message}


def _checked_files(files: dict[Any, Any], problems: list[Problem]) -> dict[str, str]:
    checked: dict[str, str] = {}
    for path, text in files.items():
        where = f'files["{str(path)[:80]}"]'
        found = file_problems(path, where)
        content = read_text({where: text}, where, problems, required=False)
        if not found and normal_path(path) in checked:
            found = [Problem(where, "duplicate_path", "is given twice", "each file once")]
        problems += found
        if not found:
            checked[normal_path(path)] = content
    problems += size_problems("".join(checked.values()).encode("utf-8", "replace"), "files")
    return checked


def _hot_fix_changes(content: JsonObject) -> tuple[ExpressChange, ...]:
    if "patch" in content:
        return (ExpressChange("patch", text=content["patch"]),)
    return tuple(ExpressChange("write", path, text) for path, text in content["files"].items())


def _check_file_task(content: JsonObject, problems: list[Problem]) -> JsonObject:
    message = read_text(content, "message", problems, required=False, max_length=4_000)
    action = read_choice(content, "action", FILE_ACTIONS, problems, default="write")
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
    text = read_text(content, "content", problems, required=False)
    return {**checked, "content": text, "message": message}


def _file_changes(content: JsonObject) -> tuple[ExpressChange, ...]:
    return (ExpressChange(content["action"], content["path"], content.get("content", "")),)


KINDS: Mapping[str, ExpressKind] = {
    "knowledge_update": ExpressKind(
        ("entries", "file_path", "action"), _check_knowledge, _knowledge_changes
    ),
    "hot_fix": ExpressKind(("files", "patch", "message"), _check_hot_fix, _hot_fix_changes),
    "file_task": ExpressKind(
        ("path", "content", "action", "message"), _check_file_task, _file_changes
    ),
}

_MAX_SHOWN = 40_000


def commit_message(item: ExpressItem, mark: str) -> str:
    """The commit message of an item; the last lines are trailers, with the mark."""
    given = visible(str(item.content.get("message") or ""), keep_newlines=True).strip()
    reason = visible(item.reason, keep_newlines=True).strip()
    parts = [visible(item.title)]
    parts += [text for text in (given, reason) if text and text != parts[0]]
    trailers = [mark, f"Passdown-Kind: {item.kind}", f"Passdown-By: {item.by}"]
    trailers += [f"Passdown-Task: {item.task}"] if item.task else []
    return "\n\n".join([*parts, "\n".join(trailers)]) + "\n"


def request_body(item: ExpressItem, facts: Mapping[str, Any]) -> str:
    """The text of an item's pull request; `facts` are those of the commit."""
    lines = [visible(item.reason, keep_newlines=True), "", f"- {item.kind} {item.id}"]
    lines += [f"- by {item.by}", f"- commit {facts['commit']}"]
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
