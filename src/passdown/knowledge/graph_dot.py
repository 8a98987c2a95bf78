r"""The knowledge graph as DOT: writer and parser.

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
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from typing import NamedTuple, NoReturn

from passdown.core.graph import Graph
from passdown.core.text import excerpt
from passdown.knowledge.graph_files import Draft, Drafts, Field

KEYWORDS = frozenset({"node", "edge", "graph", "digraph", "subgraph", "strict"})
MAX_DEPTH = 32
MAX_TOKENS = 2_000_000
"""More than a file of the largest size has, unless nearly every character is a token."""

_ESCAPED = re.compile(r'["\\\n\r]')
_ESCAPES = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\r": r"\r"}


def write_dot(graph: Graph) -> str:
    """The text of a sorted graph, one node or edge per line."""
    lines = ["digraph knowledge {"]
    for node in graph.nodes:
        tags = {"tags": ",".join(node.tags)} if node.tags else {}
        given = {"type": node.type, "summary": node.summary, **tags, **node.attributes}
        lines.append(f"  {_quoted(node.id)} {_attributes(given)};")
    for edge in graph.edges:
        given = {"relation": edge.relation, **edge.attributes}
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} {_attributes(given)};")
    return "".join(f"{line}\n" for line in (*lines, "}"))


def _attributes(given: dict[str, str]) -> str:
    pairs = ((_quoted(name) if name in KEYWORDS else name, given[name]) for name in given)
    return f"[{', '.join(f'{name}={_quoted(value)}' for name, value in pairs)}]"


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)}"'


# Every repetition is possessive, so that matching takes linear time.
_NUMBER = r"-?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?)"
_WORD = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*+"
_BLANK = r"(?:[ \t\r\f\v]++|\n(?:[ \t]*+\#[^\n]*+)?|//[^\n]*+|/\*(?s:.*?)\*/)"
_QUOTED = r'"[^"\\]*+(?:\\(?s:.)[^"\\]*+)*+"'
_TOKEN = re.compile(
    rf"""(?P<blank>{_BLANK}++)
    | (?P<quoted>{_QUOTED}(?:{_BLANK}*+\+{_BLANK}*+{_QUOTED})*+)
    | (?P<odd>{_NUMBER}{_WORD})
    | (?P<id>{_WORD}|{_NUMBER})
    | (?P<mark>->|--|[{{}}\[\];,=:+])
    | (?P<bad>(?s:.))""",
    re.VERBOSE,
)
_PIECE = re.compile(rf"{_BLANK}|({_QUOTED})", re.VERBOSE)
_ESCAPE = re.compile(r'\\(?:(["\\nlr])|\r?\n)')
_UNESCAPED = {'"': '"', "\\": "\\", "n": "\n", "l": "\n", "r": "\r", None: ""}
_DRAWING = re.compile(
    r"arrow\w+|bgcolor|class|color(?:scheme)?|constraint|decorate|dir|edgetooltip|fillcolor"
    r"|fixedsize|font\w+|gradientangle|group|head\w+|height|image\w*|label\w*|len|lhead|ltail"
    r"|margin|minlen|nojustify|ordering|orientation|penwidth|peripheries|pin|pos|rank|regular"
    r"|same(?:head|tail)|shape|shapefile|sides|skew|sortv|style|tail\w+|tooltip|weight|width|xlabel"
)
"""Attributes that only say how Graphviz draws."""


class _Token(NamedTuple):
    """A token: id, keyword, mark, bad (`text` says what is wrong) or end, and its position."""

    kind: str
    text: str
    at: int


def _tokens(source: str) -> Iterator[_Token]:
    """The tokens of a text that begins with a line break; the last is the end."""
    at = 0
    for number, match in enumerate(_TOKEN.finditer(source)):
        at, text, kind = match.start(), match[0], str(match.lastgroup)
        if number > MAX_TOKENS:
            yield _Token("bad", f"more than {MAX_TOKENS:,} words are too many", at)
            break
        if kind == "quoted":
            pieces = (piece[1][1:-1] for piece in _PIECE.finditer(text) if piece[1])
            words = "".join(_ESCAPE.sub(lambda e: _UNESCAPED[e[1]], piece) for piece in pieces)
            yield _Token("id", words, at)
        elif kind == "bad" and (text == '"' or source.startswith("/*", at)):
            what = "a quoted text" if text == '"' else "a comment"
            yield _Token("bad", f"{what} begins here and never ends", at)
            break
        elif kind in ("bad", "odd"):
            yield _Token("bad", f"{excerpt(text)} has to be quoted", at)
        elif kind == "id" and text.lower() in KEYWORDS:
            yield _Token("keyword", text.lower(), at)
        elif kind != "blank":
            yield _Token(kind, text, at)
    else:
        at = len(source)
    yield _Token("end", "", at)


_BEHIND = "behind"


class _SyntaxFault(Exception):
    """A statement that can't be read, and is refused already; `_BEHIND` if it was passed, too."""


class _Scope(NamedTuple):
    """What applies between two braces: defaults, and the nodes mentioned there."""

    nodes: dict[str, Field]
    edges: dict[str, Field]
    mentioned: dict[str, Field]


def read_dot(text: str, known: Iterable[str]) -> Graph:
    """The graph in a DOT text; raises InvalidInput with all problems."""
    drafts = Drafts(known, by_line=True)
    _DotParser(text, drafts).read()
    return drafts.graph()


class _DotParser:
    """Parses statements into drafts; after a fault it continues with the next statement."""

    def __init__(self, text: str, drafts: Drafts) -> None:
        self._drafts = drafts
        source = f"\n{text}"
        self._breaks = [match.start() for match in re.finditer("\n", source)]
        self._tokens = _tokens(source)
        self._token = next(self._tokens)
        self._edge_mark = "->"

    def read(self) -> None:
        """Read the whole text."""
        try:
            self._header()
            self._statements(_Scope({}, {}, {}), 1)
            self._close(self._place())
            if self._token.kind != "end":
                self._fault(f"{self._found()} follows the graph", "one graph and nothing else")
        except _SyntaxFault:
            self._drafts.is_partial = True

    # Tokens

    def _line(self) -> int:
        return bisect_right(self._breaks, self._token.at)

    def _place(self) -> str:
        """Line and column of the current token."""
        line = self._line()
        return f"{line}:{self._token.at - self._breaks[line - 1]}"

    def _next(self) -> str:
        """Take the current token."""
        text = self._token.text
        self._token = next(self._tokens, self._token)
        return text

    def _is(self, *texts: str) -> bool:
        return self._token.kind in ("mark", "keyword") and self._token.text in texts

    def _take(self, *texts: str) -> str:
        """Skip a mark or keyword if it is the current token."""
        return self._next() if self._is(*texts) else ""

    def _found(self) -> str:
        return "the end" if self._token.kind == "end" else excerpt(self._token.text)

    def _fault(self, message: str, expected: str) -> NoReturn:
        """Refuse the current token and leave the statement."""
        words = self._token.text if self._token.kind == "bad" else message
        self._drafts.refuse(self._place(), "invalid_dot", words, expected)
        raise _SyntaxFault

    def _id(self, what: str) -> Field:
        if self._token.kind != "id":
            self._fault(f"{self._found()} where {what} should be", f"{what}, quoted if need be")
        place = self._place()
        return Field(self._next(), place)

    def _open(self, where: str) -> None:
        if not self._take("{"):
            self._fault(f"{self._found()} {where}", "{")

    def _close(self, place: str) -> None:
        """Skip a closing brace; after other problems it may be missing."""
        if self._take("}"):
            return
        if not self._drafts.problems:
            self._drafts.refuse(place, "invalid_dot", "the braces aren't closed", "}")
        raise _SyntaxFault

    # Statements

    def _header(self) -> None:
        self._take("strict")
        kind = self._take("graph", "digraph")
        if not kind:
            self._fault("no graph begins here", "digraph { ... }")
        self._edge_mark = "->" if kind == "digraph" else "--"
        if self._token.kind == "id":
            self._next()
        self._open("at the head of the graph")

    def _statements(self, scope: _Scope, depth: int) -> None:
        """Read up to the closing brace of this depth or the end."""
        while not self._is("}") and self._token.kind != "end":
            try:
                self._statement(scope, depth)
            except _SyntaxFault as fault:
                if _BEHIND not in fault.args and self._skip(";", "]"):
                    self._next()
            while self._take(";"):
                pass

    def _skip(self, *marks: str) -> bool:
        """Skip to a mark, a brace or the next line; whether it is one of the marks."""
        line = self._line()
        while not self._is(*marks, "{", "}") and self._token.kind != "end":
            self._next()
            if self._line() > line:
                return False
        return self._is(*marks)

    def _statement(self, scope: _Scope, depth: int) -> None:
        if kind := self._take("node", "edge", "graph"):
            if not self._is("["):
                self._fault(f"{self._found()} after {kind}", "a list of defaults in [ ]")
            given = self._attributes()
            kept = {name: field for name, field in given.items() if not _DRAWING.fullmatch(name)}
            {"node": scope.nodes, "edge": scope.edges, "graph": {}}[kind].update(kept)
            return
        names, is_node = self._end(scope, depth)
        if self._is("="):
            if not is_node:
                self._fault("= after a subgraph", "an edge or another statement")
            self._next()
            self._id("a value")  # an attribute of the drawing
        elif self._is("->", "--"):
            self._chain(names, scope, depth)
        elif is_node:
            (name,) = names
            scope.mentioned.setdefault(name.text, name)
            if self._is("["):
                self._node(name, scope)
            else:
                self._drafts.mention(name)

    def _end(self, scope: _Scope, depth: int) -> tuple[list[Field], bool]:
        """One node, or the nodes of a subgraph; and whether it is a node."""
        is_subgraph = bool(self._take("subgraph"))
        if is_subgraph and self._token.kind == "id":
            self._next()
        if is_subgraph or self._is("{"):
            return list(self._subgraph(scope, depth).values()), False
        name = self._id("a node")
        if self._is(":"):
            message = f"{excerpt(name.text)} has a port"
            self._fault(message, "no ports; quotes around an id that has a colon")
        return [name], True

    def _subgraph(self, scope: _Scope, depth: int) -> dict[str, Field]:
        place = self._place()
        self._open("where a subgraph should begin")
        if depth >= MAX_DEPTH:
            message = "subgraphs are nested too deeply"
            self._drafts.refuse(place, "too_deep", message, f"at most {MAX_DEPTH} levels")
            self._drafts.give_up()
        self._drafts.spend(1 + len(scope.nodes) + len(scope.edges), place)
        inner = _Scope(dict(scope.nodes), dict(scope.edges), {})
        self._statements(inner, depth + 1)
        self._close(place)
        scope.mentioned.update(inner.mentioned)
        return inner.mentioned

    def _node(self, name: Field, scope: _Scope) -> None:
        try:
            fields = {**scope.nodes, **self._attributes()}
        except _SyntaxFault:
            # The node exists: edges that lead to it are valid.
            self._drafts.known.add(name.text)
            raise
        self._refuse_fields(fields, "id")
        lists = (fields.pop(word, Field("", "")) for word in ("tags", "tag"))
        tags = [tag for field in lists for tag in field.split()]
        self._drafts.add_node(Draft(name.place, {**fields, "id": name}, tuple(tags)))

    def _chain(self, first: list[Field], scope: _Scope, depth: int) -> None:
        chain = [first]
        while self._is("->", "--"):
            place, mark = self._place(), self._next()
            if mark != self._edge_mark:
                message = f"{mark} in this kind of graph"
                self._drafts.refuse(place, "invalid_dot", message, self._edge_mark)
            chain.append(self._end(scope, depth)[0])
        given = {**scope.edges, **self._attributes()}
        self._refuse_fields(given, "source", "target")
        scope.mentioned.update({name.text: name for names in chain for name in names})
        for ends in pairwise(chain):
            for source, target in product(*ends):
                fields = {**given, "source": source, "target": target}
                self._drafts.add_edge(Draft(source.place, fields))

    def _refuse_fields(self, given: dict[str, Field], *names: str) -> None:
        """Refuse attributes that are stated before the brackets."""
        for name in names:
            if name in given:
                message = f"{name} is given before the attributes"
                place = given.pop(name).place
                self._drafts.refuse(place, "invalid_name", message, f"no {name}")

    def _attributes(self) -> dict[str, Field]:
        """The lists in brackets that follow; faults of all of them are reported."""
        found: dict[str, Field] = {}
        is_faulty = False
        while self._take("["):
            while not self._take("]"):
                try:
                    self._attribute(found)
                except _SyntaxFault:
                    is_faulty = True
                    self._skip(",", ";", "]")
                    if self._token.kind == "end" or self._is("{", "}"):
                        raise
                self._take(",", ";")
        if is_faulty:
            raise _SyntaxFault(_BEHIND)
        return found

    def _attribute(self, found: dict[str, Field]) -> None:
        place = self._place()
        name = self._id("the name of an attribute").text
        if not self._take("="):
            self._fault(f"{excerpt(name)} has no value", "= and a value")
        value = self._id("a value")
        if found.setdefault(name, value).text != value.text:
            message = f"{excerpt(name)} is given twice with different values"
            self._drafts.refuse(place, "duplicate_key", message, "one value")
