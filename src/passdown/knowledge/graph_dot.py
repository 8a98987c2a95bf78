r"""The knowledge graph as DOT: writer, tokenizer and parser.

The writer quotes ids and values, with `\"`, `\\`, `\n` and `\r` as the only escapes, so that every
node and edge is one line. The parser reads DOT as Graphviz users write it: a node is listed by a
statement with an attribute list; a bare name and the end of an edge only mention it. Defaults
(`node [..]`, `edge [..]`) apply to what follows in their braces, except those that only say how to
draw. A subgraph is flattened; as the end of an edge it means all nodes that it mentions. `a --
b` leads from a to b. Ports are refused, since they would be lost. An attribute that is given twice
must have the same value. A line that begins with `#` is a comment.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

from passdown.core.text import excerpt
from passdown.knowledge.graph_files import Draft, Drafts, Field

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from passdown.core.graph import Edge, Graph, Node


KEYWORDS = frozenset({"node", "edge", "graph", "digraph", "subgraph", "strict"})

_ESCAPED = re.compile(r'["\\\n\r]')
_ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r"}


def write_dot(graph: Graph) -> str:
    """The text of a sorted graph, one node or edge per line."""
    lines = (*map(_node_line, graph.nodes), *map(_edge_line, graph.edges))
    return "".join(f"{line}\n" for line in ("digraph knowledge {", *lines, "}"))


def _node_line(node: Node) -> str:
    tags = [("tags", ",".join(node.tags))] if node.tags else []
    first = [("type", node.type), ("summary", node.summary), *tags]
    return f"  {quoted(node.id)} {_attributes((*first, *node.attributes.items()))};"


def _edge_line(edge: Edge) -> str:
    given = (("relation", edge.relation), *edge.attributes.items())
    return f"  {quoted(edge.source)} -> {quoted(edge.target)} {_attributes(given)};"


def _attributes(given: Iterable[tuple[str, str]]) -> str:
    return f"[{', '.join(f'{_name(name)}={quoted(value)}' for name, value in given)}]"


def _name(name: str) -> str:
    return quoted(name) if name in KEYWORDS else name


def quoted(text: str) -> str:
    """A text as a quoted id."""
    return f'"{_ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)}"'


DotTokenKind = Literal["id", "quoted", "keyword", "mark", "bad", "end"]

MAX_WORDS = 2_000_000
"""More than a file of the largest size has, unless nearly every character is a token."""

# Every repetition is possessive, so that matching takes linear time.
_NUMBER = r"-?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?)"
_WORD = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*+"
_TOKEN = re.compile(
    rf"""
    (?P<blank>(?:[ \t\r\n\f\v]++|//[^\n]*+|/\*(?s:.*?)\*/)++)
    | (?P<quoted>"[^"\\]*+(?:\\(?s:.)[^"\\]*+)*+")
    | (?P<odd>{_NUMBER}{_WORD})
    | (?P<id>{_WORD}|{_NUMBER})
    | (?P<mark>->|--|[{{}}\[\];,=:+])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r'\\(?:(["\\nlr])|\r?\n)')
_UNESCAPED = {'"': '"', "\\": "\\", "n": "\n", "l": "\n", "r": "\r"}
_MANY_LINES = ("blank", "quoted", None)
_LONGEST_KEYWORD = max(map(len, KEYWORDS))
_ANGLE = re.compile("[<>]")
_REST_OF_LINE = re.compile(r"[^\n]*+")


class DotToken(NamedTuple):
    """A token: its kind, its text (of a bad one, what is wrong) and its position."""

    kind: DotTokenKind
    text: str
    line: int
    column: int

    @property
    def place(self) -> str:
        """Line and column, as in problems."""
        return f"{self.line}:{self.column}"


def dot_tokens(source: str) -> Iterator[DotToken]:
    """The tokens of a text, with quoted texts joined by `+` as one; the last is the end, or bad."""
    given = _raw_tokens(source)
    for token in given:
        following = token
        while following.kind == "quoted":
            following = yield from _joined(following, given)
        yield following


def _joined(first: DotToken, given: Iterator[DotToken]) -> Generator[DotToken, None, DotToken]:
    """Yield a quoted text with all that `+` adds to it, and return the token after it."""
    parts = [first.text]
    while (token := next(given)).kind == "mark" and token.text == "+":
        added = next(given)
        if added.kind != "quoted":
            yield first._replace(kind="id", text="".join(parts))
            yield token._replace(kind="bad", text="nothing quoted follows the +")
            return added
        parts.append(added.text)
    yield first._replace(kind="id", text="".join(parts))
    return token


def _raw_tokens(source: str) -> Iterator[DotToken]:
    """The tokens as written; the last is the end, or bad if reading can't continue."""
    at, line, line_start, words = 0, 1, 0, 0
    is_first = True
    while at < len(source):
        match = _TOKEN.match(source, at)
        group = match.lastgroup if match else None
        end = match.end() if match else at
        if group is None and is_first and source[at] == "#":
            end = _end_of_line(source, at)
        elif group != "blank":
            kind, text, end = _word(source, at, group, end)
            is_first = False
            words += 1
            if words > MAX_WORDS:
                kind, text, end = "bad", f"more than {MAX_WORDS:,} words are too many", -1
            yield DotToken(kind, text, line, at - line_start + 1)
            if end < 0:
                return
        if group in _MANY_LINES and (breaks := source.count("\n", at, end)):
            line += breaks
            line_start = source.rfind("\n", at, end) + 1
            is_first = True
        at = end
    yield DotToken("end", "", line, at - line_start + 1)


def _word(source: str, at: int, group: str | None, end: int) -> tuple[DotTokenKind, str, int]:
    """Kind, text and end of a token; the end is below zero if nothing after it can be read."""
    if group is None:
        return "bad", *_unmatched(source, at)
    text = source[at:end]
    if group == "mark":
        return "mark", text, end
    if group == "quoted":
        return "quoted", _unquoted(text), end
    if group == "odd":
        return "bad", f"{excerpt(text)} has to be quoted", end
    if len(text) <= _LONGEST_KEYWORD and text.lower() in KEYWORDS:
        return "keyword", text.lower(), end
    return "id", text, end


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    if "\\" not in inner:
        return inner
    return _ESCAPE.sub(_unescape, inner)


def _unescape(escape: re.Match[str]) -> str:
    return _UNESCAPED[escape[1]] if escape[1] else ""


def _unmatched(source: str, at: int) -> tuple[str, int]:
    """What is wrong where no token begins, and where reading may continue."""
    char = source[at]
    if char == '"':
        return "a quoted text begins here and never ends", -1
    if source.startswith("/*", at):
        return "a comment begins here and never ends", -1
    if char == "<":
        end = _after_html(source, at)
        return "HTML can't be read as text; quote it" if end > 0 else "HTML never ends", end
    return f"{excerpt(char)} has to be quoted", at + 1


def _end_of_line(source: str, at: int) -> int:
    match = _REST_OF_LINE.match(source, at)
    return match.end() if match else at


def _after_html(source: str, at: int) -> int:
    """The end of the angle brackets that open here; below zero if they are never closed."""
    depth = 0
    for angle in _ANGLE.finditer(source, at):
        depth += 1 if angle.group() == "<" else -1
        if depth == 0:
            return angle.end()
    return -1


MAX_DEPTH = 32

_EDGES = ("->", "--")
_DRAWING = re.compile(
    r"arrow\w+|bgcolor|class|color(?:scheme)?|constraint|decorate|dir|edgetooltip|fillcolor"
    r"|fixedsize|font\w+|gradientangle|group|head\w+|height|image\w*|label\w*|len|lhead|ltail"
    r"|margin|minlen|nojustify|ordering|orientation|penwidth|peripheries|pin|pos|rank|regular"
    r"|same(?:head|tail)|shape|shapefile|sides|skew|sortv|style|tail\w+|tooltip|weight|width|xlabel"
)
"""Attributes that only say how Graphviz draws."""


class _SyntaxFault(Exception):
    """A statement that can't be read; `is_behind` if reading has passed it already."""

    def __init__(self, *, is_behind: bool = False) -> None:
        super().__init__()
        self.is_behind = is_behind


class _Scope(NamedTuple):
    """What applies between two braces: defaults, and the nodes mentioned there."""

    nodes: dict[str, Field]
    edges: dict[str, Field]
    mentioned: dict[str, Field]


def read_dot(text: str, known: Iterable[str]) -> Graph:
    """The graph in a DOT text; raises InvalidInput with all problems."""
    drafts = Drafts(by_line=True)
    _DotParser(text, drafts).read()
    return drafts.graph(known)


class _DotParser:
    """Parses statements into drafts; after a fault it continues with the next statement."""

    def __init__(self, text: str, drafts: Drafts) -> None:
        self._drafts = drafts
        self._tokens = dot_tokens(text)
        self._token = next(self._tokens)
        self._is_directed = True

    def read(self) -> None:
        """Read the whole text."""
        try:
            self._header()
            self._statements(_Scope({}, {}, {}), 1)
            self._close(self._token.place)
            if self._token.kind != "end":
                self._fault(f"{self._found()} follows the graph", "one graph and nothing else")
        except _SyntaxFault:
            self._drafts.is_partial = True

    def _close(self, place: str) -> None:
        """Skip a closing brace; after other problems it may be missing."""
        if self._take("}"):
            return
        if not self._drafts.has_problems:
            self._drafts.refuse(place, "invalid_dot", "the braces aren't closed", "}")
        raise _SyntaxFault

    # Tokens

    def _next(self) -> DotToken:
        """Take the current token."""
        token = self._token
        if token.kind != "end":
            self._token = next(self._tokens, token._replace(kind="end"))
        return token

    def _is_mark(self, *marks: str) -> bool:
        return self._token.kind == "mark" and self._token.text in marks

    def _is_keyword(self, *words: str) -> bool:
        return self._token.kind == "keyword" and self._token.text in words

    def _take(self, mark: str) -> bool:
        """Skip a mark if it is the current token."""
        if not self._is_mark(mark):
            return False
        self._next()
        return True

    def _found(self) -> str:
        return "the end" if self._token.kind == "end" else excerpt(self._token.text)

    def _fault(self, message: str, expected: str) -> NoReturn:
        """Refuse the current token and leave the statement."""
        token = self._token
        words = token.text if token.kind == "bad" else message
        self._drafts.refuse(token.place, "invalid_dot", words, expected)
        raise _SyntaxFault

    def _id(self, what: str) -> Field:
        if self._token.kind != "id":
            self._fault(f"{self._found()} where {what} should be", f"{what}, quoted if need be")
        token = self._next()
        return Field(token.text, token.place)

    # The graph

    def _header(self) -> None:
        if self._is_keyword("strict"):
            self._next()
        if not self._is_keyword("graph", "digraph"):
            self._fault("no graph begins here", "digraph { ... }")
        self._is_directed = self._next().text == "digraph"
        if self._token.kind == "id":
            self._next()
        if not self._take("{"):
            self._fault(f"{self._found()} at the head of the graph", "{")

    def _statements(self, scope: _Scope, depth: int) -> None:
        """Read up to the closing brace of this depth or the end."""
        while not self._is_mark("}") and self._token.kind != "end":
            try:
                self._statement(scope, depth)
            except _SyntaxFault as fault:
                if not fault.is_behind:
                    self._recover()
            while self._take(";"):
                pass

    def _recover(self) -> None:
        """Skip to what looks like the next statement: after `;` or `]`, at a brace, or on a line
        below the fault.
        """
        line = self._token.line
        while self._token.kind != "end" and not self._is_mark("{", "}"):
            if self._is_mark(";", "]"):
                self._next()
                return
            self._next()
            if self._token.line > line:
                return

    def _statement(self, scope: _Scope, depth: int) -> None:
        if self._is_keyword("node", "edge", "graph"):
            self._defaults(scope)
            return
        ends = self._end(scope, depth)
        if self._is_mark("="):
            self._graph_attribute(ends)
        elif self._is_mark(*_EDGES):
            self._chain(ends, scope, depth)
        elif self._is_mark("[") and ends.is_node:
            self._node(ends.first, scope)
        elif ends.is_node:
            self._mention(ends.first, scope)

    def _defaults(self, scope: _Scope) -> None:
        kind = self._next().text
        if not self._is_mark("["):
            self._fault(f"{self._found()} after {kind}", "a list of defaults in [ ]")
        given = self._attributes()
        if kind == "graph":
            return
        kept = {name: field for name, field in given.items() if not _DRAWING.fullmatch(name)}
        (scope.nodes if kind == "node" else scope.edges).update(kept)

    def _graph_attribute(self, ends: _Ends) -> None:
        if not ends.is_node:
            self._fault("= after a subgraph", "an edge or another statement")
        self._next()
        self._id("a value")

    def _end(self, scope: _Scope, depth: int) -> _Ends:
        """A node or a subgraph, at the beginning of a statement or in an edge."""
        is_subgraph = self._is_keyword("subgraph")
        if is_subgraph:
            self._next()
            if self._token.kind == "id":
                self._next()
        if is_subgraph or self._is_mark("{"):
            return _Ends(list(self._subgraph(scope, depth).values()), is_node=False)
        name = self._id("a node")
        if self._is_mark(":"):
            message = f"{excerpt(name.text)} has a port"
            self._fault(message, "no ports; quotes around an id that has a colon")
        return _Ends([name], is_node=True)

    def _subgraph(self, scope: _Scope, depth: int) -> dict[str, Field]:
        if not self._is_mark("{"):
            self._fault(f"{self._found()} where a subgraph should begin", "{")
        if depth >= MAX_DEPTH:
            message = "subgraphs are nested too deeply"
            self._drafts.refuse(
                self._token.place, "too_deep", message, f"at most {MAX_DEPTH} levels"
            )
            self._drafts.give_up()
        brace = self._next()
        self._drafts.spend(1 + len(scope.nodes) + len(scope.edges), brace.place)
        inner = _Scope(dict(scope.nodes), dict(scope.edges), {})
        self._statements(inner, depth + 1)
        self._close(brace.place)
        scope.mentioned.update(inner.mentioned)
        return inner.mentioned

    # Nodes and edges

    def _mention(self, name: Field, scope: _Scope) -> None:
        scope.mentioned.setdefault(name.text, name)
        self._drafts.mention(name)

    def _node(self, name: Field, scope: _Scope) -> None:
        scope.mentioned.setdefault(name.text, name)
        try:
            fields = {**scope.nodes, **self._attributes()}
        except _SyntaxFault:
            # The node exists: edges that lead to it are valid.
            self._drafts.excuse(name.text)
            raise
        if "id" in fields:
            place = fields["id"].place
            self._drafts.refuse(place, "invalid_name", "id is given before the attributes", "no id")
        tags = [tag for word in ("tags", "tag") for tag in _tags(fields.pop(word, None))]
        self._drafts.add_node(Draft(name.place, {**fields, "id": name}, tuple(tags)))

    def _chain(self, first: _Ends, scope: _Scope, depth: int) -> None:
        chain = [first]
        while self._is_mark(*_EDGES):
            if (self._token.text == "->") != self._is_directed:
                wanted = "->" if self._is_directed else "--"
                message = f"{self._token.text} in this kind of graph"
                self._drafts.refuse(self._token.place, "invalid_dot", message, wanted)
            self._next()
            chain.append(self._end(scope, depth))
        given = {**scope.edges, **(self._attributes() if self._is_mark("[") else {})}
        for name in ("source", "target"):
            if name in given:
                words = f"{name} is given before the attributes"
                self._drafts.refuse(given.pop(name).place, "invalid_name", words, f"no {name}")
        for ends in chain:
            scope.mentioned.update({name.text: name for name in ends.names})
        for sources, targets in pairwise(chain):
            for source in sources.names:
                for target in targets.names:
                    fields = {**given, "source": source, "target": target}
                    self._drafts.add_edge(Draft(source.place, fields))

    def _attributes(self) -> dict[str, Field]:
        """One list in brackets, or several in a row; faults of all of them are reported."""
        found: dict[str, Field] = {}
        is_faulty = False
        while self._take("["):
            while not self._is_mark("]"):
                try:
                    self._attribute(found)
                except _SyntaxFault:
                    is_faulty = True
                    self._skip_attribute()
                if self._is_mark(",", ";"):
                    self._next()
            self._next()
        if is_faulty:
            raise _SyntaxFault(is_behind=True)
        return found

    def _skip_attribute(self) -> None:
        """Skip a faulty attribute; leave the statement if the list seems to be over."""
        line = self._token.line
        while not self._is_mark(",", ";", "]"):
            if self._token.kind == "end" or self._is_mark("{", "}"):
                raise _SyntaxFault
            self._next()
            if self._token.line > line:
                return

    def _attribute(self, found: dict[str, Field]) -> None:
        name = self._id("the name of an attribute")
        if not self._take("="):
            self._fault(f"{excerpt(name.text)} has no value", "= and a value")
        value = self._id("a value")
        first = found.setdefault(name.text, value)
        if first.text != value.text:
            message = f"{excerpt(name.text)} is given twice with different values"
            self._drafts.refuse(name.place, "duplicate_key", message, "one value")


class _Ends(NamedTuple):
    """The nodes at one end of an edge: a single one, or all of a subgraph."""

    names: list[Field]
    is_node: bool

    @property
    def first(self) -> Field:
        return self.names[0]


def _tags(field: Field | None) -> list[Field]:
    if field is None:
        return []
    return [Field(part.strip(), field.place) for part in field.text.split(",") if part.strip()]
