"""Removes secrets from text before it is stored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import cast

from passdown.core.text import ignorable
from passdown.core.values import NamedTuple

_LEFT = r"(?<![A-Za-z0-9])"
_WORD = r"[A-Za-z0-9_-]"
_BEARER = (
    r"(?i:authorization[\"']?\s{0,8}[:=]\s{0,8}[\"']?bearer\s{1,8})"
    r"([A-Za-z0-9._~+/-]{16,}={0,2})"
)

# What has to follow is looked for once for each word, from its beginning, and only then the place
# in it where the token begins: looking on from every such place would take quadratic time.
_JWT = (
    rf"(?<!{_WORD})(?={_WORD}++\.ey{_WORD}{{6,}}+\.{_WORD}{{16}})"
    rf"(?:{_WORD}*?(?<![A-Za-z0-9]))(ey{_WORD}{{8,}}+\.ey{_WORD}++\.{_WORD}{{16,}})"
)

# Groups of (sign, kinds). A sign begins with one literal character that its group can't do
# without: the regex engine leaps from one such character to the next. Group 1 of a kind's
# pattern, if there, is the part to replace. Where two kinds overlap, the earlier names the whole.
_GROUPS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        r"-(?:----BEGIN |(?<=sk-)(?:ant-|proj-|svcacct-|admin-|[A-Za-z0-9]{40})"
        r"|(?<=xapp-)|(?<=pypi-)AgE|(?<=glpat-)|(?<=xox[abeoprs]-))",
        (
            (
                "private_key",
                r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
                r"(?s:.*?)(?:-----END [A-Z0-9 ]{0,48}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            ),
            ("anthropic_key", _LEFT + rf"sk-ant-{_WORD}{{20,}}"),
            (
                "openai_key",
                _LEFT + rf"sk-(?:(?:proj|svcacct|admin)-{_WORD}{{20,}}|[A-Za-z0-9]{{40,}})",
            ),
            ("slack_token", _LEFT + r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}"),
            ("pypi_token", _LEFT + rf"pypi-AgE{_WORD}{{40,}}"),
            ("gitlab_token", _LEFT + rf"glpat-{_WORD}{{20,}}"),
        ),
    ),
    (
        r"_(?:(?<=gh[pousr]_)|(?<=hf_)|(?<=npm_)|(?<=pdt_)|(?<=github_)pat_|(?<=[sr]k_)(?:live|test)_)",
        (
            (
                "github_token",
                _LEFT + r"(?:gh[pousr]_[A-Za-z0-9_]{30,}|github_pat_[A-Za-z0-9_]{22,})",
            ),
            ("huggingface_token", _LEFT + r"hf_[A-Za-z0-9]{30,}"),
            ("npm_token", _LEFT + r"npm_[A-Za-z0-9]{36,}"),
            ("passdown_token", _LEFT + rf"pdt_[a-z2-7]{{10}}_{_WORD}{{20,}}"),
            ("stripe_key", _LEFT + r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
        ),
    ),
    (
        r"I(?:A(?<=A[KS]IA)|(?<=AI)za)",
        (
            ("aws_key_id", _LEFT + r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
            ("google_api_key", _LEFT + rf"AIza{_WORD}{{35,}}"),
        ),
    ),
    (
        r"\.(?:ey|(?<=SG\.))",
        (
            ("jwt", _JWT),
            ("sendgrid_key", _LEFT + rf"SG\.{_WORD}{{16,32}}\.{_WORD}{{32,}}"),
        ),
    ),
    (r"=(?<=AccountKey=)", (("azure_key", r"AccountKey=([A-Za-z0-9+/]{40,}={0,2})"),)),
    (
        r"://[^\s/:@?#\"'<>]{0,128}:",
        (
            (
                "url_password",
                r"://[^\s/:@?#\"'<>]{0,128}:(?!\[redacted:|\$\{|<)"
                r"([^\s/?#\"'<>]{1,256})@(?=[\w\[])",
            ),
        ),
    ),
    (r"z(?<=uthoriz)ation", (("bearer_token", _BEARER),)),
    (r"Z(?<=UTHORIZ)ATION", (("bearer_token", _BEARER),)),
)


class _Span(NamedTuple):
    start: int
    end: int
    rank: int
    kind: str


class _Kind(NamedTuple):
    rank: int
    name: str
    pattern: re.Pattern[str]


@cache
def _signs() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(sign) for sign, _ in _GROUPS)


@cache
def _kinds(group: int) -> tuple[_Kind, ...]:
    # Compiled when first needed: most runs never meet a text that looks like a secret.
    listed = enumerate(_GROUPS[group][1])
    return tuple(_Kind(group * 100 + i, name, re.compile(source)) for i, (name, source) in listed)


def redact(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` with each secret replaced by `[redacted:<kind>]`, and the kinds found, sorted.

    Returns `text` itself when nothing was found. What comes out holds nothing to redact.
    """
    kinds = _suspected(text)
    return _replace(text, kinds) if kinds else (text, ())


def _suspected(text: str) -> list[_Kind]:
    """The kinds whose sign is in `text`, without its invisible characters."""
    bare = text if text.isascii() else ignorable().sub("", text)
    groups = [group for group, sign in enumerate(_signs()) if sign.search(bare)]
    return [kind for group in groups for kind in _kinds(group)]


def _replace(text: str, kinds: list[_Kind]) -> tuple[str, tuple[str, ...]]:
    names: set[str] = set()
    # Once more after each find: a mark next to a word can bring the edge of another secret out.
    while spans := _spans(text, kinds):
        pieces: list[str] = []
        done = 0
        for span in spans:
            pieces += (text[done : span.start], f"[redacted:{span.kind}]")
            done = span.end
            names.add(span.kind)
        text = "".join([*pieces, text[done:]])
    return text, tuple(sorted(names))


def _spans(text: str, kinds: list[_Kind]) -> list[_Span]:
    """The places of secrets in `text`, in order and apart from one another."""
    found = _search(text, kinds)
    hidden = ignorable()
    if not text.isascii() and hidden.search(text):
        places = [i for i, char in enumerate(text) if not hidden.match(char)]
        for span in _search("".join(text[i] for i in places), kinds):
            start, end = places[span.start], places[span.end - 1] + 1
            found.append(span._replace(start=start, end=end))
    if len(found) < 2:
        return found
    found.sort()
    apart = [found[0]]
    for span in found[1:]:
        last = apart[-1]
        if span.start >= last.end:
            apart.append(span)
            continue
        first = min(last, span, key=lambda each: each.rank)
        apart[-1] = first._replace(start=last.start, end=max(last.end, span.end))
    return apart


def _search(text: str, kinds: list[_Kind]) -> list[_Span]:
    return [
        _Span(*match.span(match.lastindex or 0), kind.rank, kind.name)
        for kind in kinds
        for match in kind.pattern.finditer(text)
    ]


def redact_value(value: object) -> tuple[object, tuple[str, ...]]:
    """JSON-like `value` with the secrets in its texts and keys replaced, and the kinds found.

    Whatever holds no secret is returned as the same object. Keys that come out equal get
    a number, so that no entry is lost.
    """
    texts: list[str] = []
    _collect([value], texts)
    # One look at all texts together is far cheaper than one at each; no sign spans two lines.
    kinds = _suspected("\n".join(texts))
    names: set[str] = set()
    clean = _redact_in(value, kinds, names) if kinds else value
    return clean, tuple(sorted(names))


def _collect(values: Iterable[object], texts: list[str]) -> None:
    """Every text among some values and below them, keys too."""
    for value in values:
        # Most are texts: a call for each would take as long as everything else here.
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            mapping = cast("dict[object, object]", value)
            _collect(mapping, texts)
            _collect(mapping.values(), texts)
        elif isinstance(value, (list, tuple)):
            _collect(cast("list[object]", value), texts)


def _redact_in(value: object, kinds: list[_Kind], names: set[str]) -> object:
    if isinstance(value, str):
        clean, found = _replace(value, kinds)
        names.update(found)
        return clean
    if isinstance(value, dict):
        return _redact_dict(cast("dict[object, object]", value), kinds, names)
    if not isinstance(value, (list, tuple)):
        return value
    entries = cast("list[object]", value)
    built = [_redact_in(entry, kinds, names) for entry in entries]
    if all(new is old for new, old in zip(built, entries, strict=True)):
        return entries
    return tuple(built) if isinstance(value, tuple) else built


def _redact_dict(
    value: dict[object, object], kinds: list[_Kind], names: set[str]
) -> dict[object, object]:
    built: dict[object, object] = {}
    for key, item in value.items():
        clean = _redact_in(key, kinds, names) if isinstance(key, str) else key
        number, free = 1, clean
        while clean is not key and (free in built or free in value):
            number += 1  # so that it is the key of no other entry
            free = f"{clean}#{number}"
        built[free] = _redact_in(item, kinds, names)
    pairs = zip(built.items(), value.items(), strict=True)
    is_same = all(one is two for new, old in pairs for one, two in zip(new, old, strict=True))
    return value if is_same else built


def removal_message(kind: str) -> str:
    """The message about a secret that was removed."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} was removed before storing"
