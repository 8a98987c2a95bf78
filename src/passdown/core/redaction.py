"""Removes secrets from text before it is stored."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, cast

from passdown.core.text import ignorable
from passdown.core.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    _collect(value, texts)
    # One look at all texts together is far cheaper than one at each; no sign spans two lines.
    kinds = _suspected("\n".join(texts))
    return _redact_in(value, kinds) if kinds else (value, ())


def _collect(value: object, texts: list[str]) -> None:
    """Every text in a value and below it, keys too."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        mapping = cast("dict[object, object]", value)
        _collect_all(mapping, texts)
        _collect_all(mapping.values(), texts)
    elif isinstance(value, (list, tuple)):
        _collect_all(cast("list[object]", value), texts)


def _collect_all(values: Iterable[object], texts: list[str]) -> None:
    for value in values:
        # Most are texts: a call for each would take as long as everything else here.
        if isinstance(value, str):
            texts.append(value)
        elif value is not None:
            _collect(value, texts)


def _redact_in(value: object, kinds: list[_Kind]) -> tuple[object, tuple[str, ...]]:
    if isinstance(value, str):
        return _replace(value, kinds)
    if isinstance(value, dict):
        return _redact_dict(cast("dict[object, object]", value), kinds)
    if not isinstance(value, (list, tuple)):
        return value, ()
    entries = cast("list[object]", value)
    names: set[str] = set()
    built: list[object] = []
    for entry in entries:
        clean, found = _redact_in(entry, kinds)
        built.append(clean)
        names.update(found)
    if not names:
        return entries, ()
    return (tuple(built) if isinstance(value, tuple) else built), tuple(sorted(names))


def _redact_dict(value: dict[object, object], kinds: list[_Kind]) -> tuple[object, tuple[str, ...]]:
    names: set[str] = set()
    built: dict[object, object] = {}
    for key, item in value.items():
        clean_key, in_key = _replace(key, kinds) if isinstance(key, str) else (key, ())
        clean, in_item = _redact_in(item, kinds)
        names.update(in_key, in_item)
        if in_key:
            clean_key = _free(str(clean_key), built, value)
        built[clean_key] = clean
    return (built, tuple(sorted(names))) if names else (value, ())


def _free(key: str, built: dict[object, object], original: dict[object, object]) -> str:
    """`key`, or `key#2` and so on, so that it is the key of no other entry."""
    number, candidate = 1, key
    while candidate in built or candidate in original:
        number += 1
        candidate = f"{key}#{number}"
    return candidate


def removal_message(kind: str) -> str:
    """The message about a secret that was removed."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} was removed before storing"
