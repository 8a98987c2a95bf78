"""Output: JSON for programs; tables, items, receipts and progress bars for people."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import unicodedata
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from passdown.core.items import check_text, fact_text
from passdown.core.kinds import KINDS, parse_address
from passdown.core.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
    from typing import TextIO

    from passdown.cli.session import Session
    from passdown.core.results import Check, HandoffCommand, Receipt
    from passdown.core.types import JsonObject
    from passdown.errors import PassdownError, Problem
    from passdown.workspace.briefs import Freshness


_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def terminal_width() -> int:
    """How many columns there are; 0 when output goes somewhere without a width."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return max(int(columns), 20)
    try:
        return max(os.get_terminal_size(sys.stdout.fileno()).columns, 20)
    except (OSError, ValueError, AttributeError):
        return 0


def text_width(text: str) -> int:
    """How many columns a text takes; wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me") or "\ufe00" <= char <= "\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def wrapped(text: str, width: int) -> list[str]:
    """One line as several of at most `width` columns, broken at spaces where there are any."""
    if width <= 0 or text_width(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        if line and text_width(line) + 1 + text_width(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
        while text_width(line) > width:
            head = _fitting_start(line, width)
            lines.append(head)
            line = line[len(head) :]
    return [*lines, line] if line else lines


def _fitting_start(text: str, width: int) -> str:
    """As much of the beginning as fits, but at least one character."""
    used = 0
    for index, char in enumerate(text):
        used += _char_width(char)
        if used > width and index:
            return text[:index]
    return text


def ellipsis() -> str:
    """The mark of what was left out, in characters that the output can encode."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    return "…" if is_unicode else "..."


def cut(text: str, width: int) -> str:
    """The beginning of a line that fits `width` columns, with an ellipsis where more follows."""
    if width <= 0 or text_width(text) <= width:
        return text
    mark = ellipsis()
    return _fitting_start(text, max(width - len(mark), 1)).rstrip() + mark


def has_colours() -> bool:
    """Whether standard output is a terminal that wants colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str) -> str:
    """`text` in a style (bold, dim, red, green, yellow, cyan) where there are colours."""
    return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if has_colours() else text


_GAP = "  "
_NARROWEST = 8
_DIGEST_CHARS = 12


SCHEMA = 1
"""The version of what --json prints; it grows when a field goes or gets another meaning."""


def print_json(data: object) -> None:
    """Print a result for programs, in the envelope of every command."""
    print_document({"schema": SCHEMA, "data": data})


def print_document(document: object) -> None:
    """Print a document as indented JSON that is safe to look at in a terminal."""
    from passdown.core.text import ignorable

    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(document, ensure_ascii=not is_unicode, indent=2)
    unsafe = f"[\x7f-\x9f\u2028\u2029\ud800-\udfff]|{ignorable().pattern}"
    if not text.isascii() and re.search(unsafe, text):
        # JSON strings may spell any character as an escape, so nothing is changed by this.
        text = json.dumps(document, indent=2)
    print(text.replace("\x7f", "\\u007f"))


def _print_wrapped(first: str, text: str, indent: int, to: TextIO | None = None) -> None:
    """Print text, visible and wrapped, after `first` and then indented; line breaks in it stay."""
    width = terminal_width()
    for part in visible(text, keep_newlines=True).expandtabs(4).split("\n"):
        for piece in wrapped(part, max(width - indent, _NARROWEST) if width else 0):
            print(first + piece, file=to)
            first = " " * indent


def line(text: str = "", indent: int = 0) -> None:
    """Print text, visible and wrapped; line breaks in it stay."""
    _print_wrapped(" " * indent, text, indent)


def error_line(text: str) -> None:
    """Print a message on standard error, visible and wrapped; entries of a list are indented."""
    for part in text.split("\n"):
        indent = 4 if part.startswith("  - ") else 0
        _print_wrapped(part[:indent], part[indent:], indent, sys.stderr)


def verbatim(text: str) -> None:
    """Print text that is copied elsewhere: visible, and never wrapped."""
    print(visible(text, keep_newlines=True))


def write_text(path: str, text: str) -> None:
    """Put a text into a file and say so."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    line(f"written to {path}")


def counted(number: int, word: str, plural: str = "") -> str:
    """A number and what it counts: `1 record`, `2 records`."""
    return f"{number} {word}" if number == 1 else f"{number} {plural or word + 's'}"


def short_digest(digest: object) -> str:
    """The beginning of a digest, enough to compare two by eye."""
    kind, mark, digits = str(digest or "").rpartition(":")
    if len(digits) <= _DIGEST_CHARS:
        return f"{kind}{mark}{digits}"
    return f"{kind}{mark}{digits[:_DIGEST_CHARS]}{ellipsis()}"


def short_time(stamp: object) -> str:
    """A stored time as month, day and time of day, in UTC as it is stored."""
    return str(stamp or "")[5:16].replace("T", " ")


def moment(stamp: object) -> str:
    """A stored time to the minute, and how long ago it was."""
    text = str(stamp or "")
    since = re.sub("^now$", "just now", ago(text)) if text else ""
    return f"{text[:16].replace('T', ' ')} UTC, {since}" if text else ""


def ago(stamp: str) -> str:
    """How long ago a time was, in its largest unit."""
    from datetime import UTC, datetime

    from passdown.core.times import parse_time

    seconds = max(0, round((datetime.now(UTC) - parse_time(stamp)).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit} ago"
    return "now"


def labelled(label: str, style: str, text: str, indent: int = 0, column: int = 0) -> None:
    """Print a label in a style and text beside it, wrapped in a column of its own."""
    column = max(column, len(label) + len(_GAP))
    first = " " * indent + styled(label, style) + " " * (column - len(label))
    _print_wrapped(first, text, indent + column)


def heading(text: str) -> None:
    """Print a heading."""
    for piece in wrapped(visible(text), terminal_width()):
        print(styled(piece, "bold"))


def pairs(entries: Iterable[tuple[str, object]], indent: int = 0) -> None:
    """Print names and values in two columns; values that are empty are left out."""
    kept = [(name, shown(value)) for name, value in entries if value not in (None, "", [], (), {})]
    column = max((len(name) for name, _ in kept), default=0) + len(_GAP)
    is_narrow = 0 < terminal_width() < indent + column + _NARROWEST
    for name, text in kept:
        if is_narrow:
            line(name, indent)
            line(text, indent + 1)
        else:
            _print_wrapped(" " * indent + name.ljust(column), text, indent + column)


def shown(value: object) -> str:
    """A value as visible text; lists are joined by commas, line breaks stay."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(shown(part) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, dict):
        texts = ((visible(str(k)), shown(v)) for k, v in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return ", ".join(f"{name} {text}" for name, text in texts if text)
    return "" if value is None else visible(str(value), keep_newlines=True).expandtabs(4)


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    empty: str = "none",
    *,
    whole: Collection[str] = (),
    short: Collection[str] = (),
) -> None:
    """Print rows under headers, wrapped to the terminal; as blocks where columns get too narrow.

    Columns named in `whole` are never broken; those in `short` are cut instead of wrapped.
    """
    cells = [[visible(shown(value).replace("\n", " ")) for value in row] for row in rows]
    if not cells:
        line(empty)
        return
    used = [i for i in range(len(headers)) if any(row[i] for row in cells)]
    titles = [headers[i] for i in used]
    cells = [[row[i] for i in used] for row in cells]
    widths = _fitted(titles, cells, whole)
    if not widths:
        for index, row in enumerate(cells):
            if index:
                print()
            pairs(zip(titles, row, strict=True))
        return
    for row in (titles, *cells):
        parts = [
            [cut(cell, width)] if title in short else wrapped(cell, width)
            for title, cell, width in zip(titles, row, widths, strict=True)
        ]
        for index in range(max(len(part) for part in parts)):
            text = _row(
                [part[index] if index < len(part) else "" for part in parts], widths, titles
            )
            print(styled(text, "bold") if row is titles else text)


def row_printer(
    columns: str,
    empty: str,
    *,
    whole: str | None = None,
    short: str = "",
    **computed: Callable[[JsonObject], object],
) -> Callable[[Sequence[JsonObject]], None]:
    """A function that prints objects as a table.

    `columns` are fields, or `TITLE=FIELD`, with commas; those in `computed` are functions of the
    object, and times have a title with (UTC). All columns but the last are whole, unless `whole`
    names some; `short` is the one that is cut.
    """
    titles = tuple(_declared(columns))
    kept = titles[:-1] if whole is None else whole.split(",")

    def print_rows(found: Sequence[JsonObject]) -> None:
        rows = [[value for _, value in _values(entry, columns, computed)] for entry in found]
        table(titles, rows, empty, whole=kept, short=(short,))

    return print_rows


def value_printer(
    fields: str,
    title: Callable[[JsonObject], str] | None = None,
    **computed: Callable[[JsonObject], object],
) -> Callable[[JsonObject], None]:
    """A function that prints one object: a heading, and below it names and values.

    `fields` are as the columns of `row_printer`; what is empty is left out.
    """

    def print_value(found: JsonObject) -> None:
        if title:
            heading(title(found))
        pairs(_values(found, fields, computed), 2)

    return print_value


def _declared(columns: str) -> dict[str, str]:
    """Fields by their titles: those of `TITLE=FIELD, FIELD`, where an underscore is a space."""
    parts = [part.strip().rpartition("=") for part in columns.split(",")]
    return {title or field.replace("_", " "): field for title, _, field in parts}


def _values(
    entry: JsonObject, columns: str, computed: Mapping[str, Callable[[JsonObject], object]]
) -> list[tuple[str, object]]:
    """The titles of columns, and the values that an object has for them."""
    found: list[tuple[str, object]] = []
    for title, field in _declared(columns).items():
        value = computed[field](entry) if field in computed else entry.get(field)
        if value and title.endswith("(UTC)"):
            value = f"{short_time(value)} {ago(str(value))}"
        elif value and field.endswith("_at") and field not in computed:
            value = moment(value)
        found.append((title, value))
    return found


_STATUS_COLUMNS = ("status", "outcome", "state", "result", "now")
_STATUS_STYLES = {
    **dict.fromkeys(("completed", "passed", "approved", "done", "same", "live"), "green"),
    **dict.fromkeys(("blocked", "held", "partial", "pending", "waiting", "changed"), "yellow"),
    **dict.fromkeys(("failed", "rejected", "missing", "refused", "cancelled", "damaged"), "red"),
}


def _row(cells: Sequence[str], widths: Sequence[int], titles: Sequence[str]) -> str:
    """One line of a table; words for statuses have their colour."""
    parts: list[str] = []
    for cell, width, title in zip(cells, widths, titles, strict=True):
        style = _STATUS_STYLES.get(cell, "") if title in _STATUS_COLUMNS else ""
        parts.append((styled(cell, style) if style else cell) + " " * (width - text_width(cell)))
    return _GAP.join(parts).rstrip()


def _fitted(titles: list[str], cells: list[list[str]], whole: Collection[str]) -> list[int]:
    """Column widths that fit the terminal, the widest shortened first; nothing when none do."""
    contents = [max(text_width(row[i]) for row in cells) for i in range(len(titles))]
    widths = [max(len(title), width) for title, width in zip(titles, contents, strict=True)]
    limit = terminal_width()
    if not limit:
        return widths
    room = limit - len(_GAP) * (len(widths) - 1)
    # A title may be broken between its words.
    floors = [
        max(width if title in whole else min(width, _NARROWEST), *map(len, title.split()))
        for title, width in zip(titles, contents, strict=True)
    ]
    if sum(floors) > room:
        return []
    while sum(widths) > room:
        widest = max(range(len(widths)), key=lambda i: widths[i] - floors[i])
        rest = sorted(widths, reverse=True)
        step = max(1, min(sum(widths) - room, widths[widest] - max(rest[1:2], default=0)))
        widths[widest] = max(widths[widest] - step, floors[widest])
    return widths


def print_problems(problems: Iterable[Problem], indent: int = 2) -> None:
    """Print problems as a list, one line each; recommended fields share a line."""
    recommended: list[str] = []
    for problem in problems:
        if problem.code == "recommended":
            recommended.append(problem.path)
            continue
        style = "yellow" if problem.level == "warning" else "red"
        labelled(problem.level, style, problem.line(), indent, len("warning") + len(_GAP))
    if recommended:
        line(f"recommended, missing: {', '.join(recommended)}", indent)


def print_findings(findings: Iterable[Mapping[str, Any]], indent: int = 0) -> None:
    """Print findings that are plain objects with the fields of a problem."""
    from passdown.errors import Problem as Finding

    print_problems([Finding(**finding) for finding in findings], indent)


def print_error(error: PassdownError, *, as_json: bool) -> None:
    """Say why something was refused: text on standard error, or JSON on standard output."""
    if as_json:
        print_document({"schema": SCHEMA, **error.to_dict()})
    else:
        error_line(re.sub(r" \(in Python: [^)]*\)", "", str(error)))


def print_freshness(session: Session, found: Freshness, task: str) -> int:
    """Print whether a text is from the current version; gives 1 when it isn't."""

    def print_text(found: Freshness) -> None:
        if found.is_current:
            line(f"current: made from version {found.made_from}")
        elif found.made_from == found.now:
            line(f"outdated: version {found.now} of {task} has another digest: another history?")
        else:
            line(f"outdated: made from version {found.made_from}, {task} is at {found.now}")

    session.show(found, print_text)
    return 0 if found.is_current else 1


_BAR_WIDTH = 30
_REDRAW_EVERY_S = 0.1


def progress_bar(label: str) -> Callable[[int, int], None] | None:
    """A function that draws `done` of `total`; None where standard error is no terminal."""
    if not sys.stderr.isatty():
        return None
    drawn = 0.0

    def draw(done: int, total: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        is_end = done >= total
        if now - drawn < _REDRAW_EVERY_S and not is_end:
            return
        drawn = now
        share = min(done / total, 1.0) if total else 1.0
        bar = ("#" * round(share * _BAR_WIDTH)).ljust(_BAR_WIDTH, ".")
        # The line is wiped at the end, so that the result stands alone.
        text = "\r\x1b[K" if is_end else f"\r{label} [{bar}] {share:4.0%}"
        sys.stderr.write(text)
        sys.stderr.flush()

    return draw


_BUSY_AFTER_S = 0.5


@contextmanager
def busy(label: str) -> Generator[None]:
    """Say on a terminal that work is going on, if it takes more than half a second."""
    if not sys.stderr.isatty():
        yield
        return
    from threading import Timer

    is_shown = False

    def write(text: str) -> None:
        nonlocal is_shown
        is_shown = True
        sys.stderr.write(text)
        sys.stderr.flush()

    timer = Timer(_BUSY_AFTER_S, write, (f"\r{label}...",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if is_shown:
            write("\r\x1b[K")


_SHOWN_FIRST = {"address", "status", "agent", "at", "version", "status_version", "name"}
_DIGEST_FIELDS = {"sha256", "digest", "previous"}
_FIELD_LABELS = {
    "suggested_resolution": "resolution",
    "discovered_in": "found in",
    "size_bytes": "bytes",
}


def title_of(item: JsonObject) -> str:
    """The main text of an item, by its kind."""
    address = parse_address(item["address"])
    if address is None:
        return ""
    if address.letter == "k":
        return str(item.get("blocker") or item.get("name", ""))
    if address.letter == "h":
        to = f" to {item['to_agent']}" if item.get("to_agent") else ""
        text = f": {item['summary']}" if item.get("summary") else ""
        return f"{item.get('from_agent', '')}{to}, {item.get('outcome', '')}{text}"
    if address.letter == "c":
        return check_text(item)
    if address.letter == "f":
        return fact_text(item) + (f" (was {item['was']})" if item.get("was") else "")
    return str(item.get(KINDS[address.letter].text, ""))


def print_items(title: str, items: Sequence[JsonObject]) -> None:
    """Print a list of items under a title; nothing when there are none."""
    if not items:
        return
    line()
    heading(f"{title} ({len(items)})")
    for item in items:
        print_item(item)


def print_item(item: JsonObject) -> None:
    """Print one item."""
    address = parse_address(item["address"])
    letter = address.letter if address else ""
    status = "" if item["status"] in ("recorded", "active") else f"{item['status']}, "
    by = f"{item.get('agent')}, version {item.get('version')}"
    labelled(item["address"], "cyan", f"{status}{by}", 2)
    line(title_of(item), 4)
    dropped = re.fullmatch("not repeated by (.+)", str(item.get("status_note", "")))
    if dropped:
        item = {**item, "status_note": f"dropped by {dropped[1]}'s next handoff"}
    told = {*_SHOWN_FIRST, KINDS[letter].text if letter in KINDS else ""}
    if letter == "h":
        told |= {"from_agent", "to_agent", "outcome"}
    if letter == "k":
        told |= {"blocker", "kind"}
    told |= {"f": {"value", "was"}, "c": {"command", "file"}}.get(letter, set())
    rest = [
        (_FIELD_LABELS.get(k, k.replace("_", " ")), short_digest(v) if k in _DIGEST_FIELDS else v)
        for k, v in item.items()
        if k not in told
    ]
    pairs([(name, value) for name, value in rest if value is not False], 6)


def print_receipt(receipt: Receipt) -> None:
    """Print the version and the items of a small write."""
    said = "was recorded already" if receipt.is_replay else "recorded"
    items = f": {', '.join(receipt.items)}" if receipt.items else ""
    line(f"{said}, {receipt.task} version {receipt.version}{items}")
    print_problems(receipt.warnings)


def print_command(command: HandoffCommand) -> None:
    """Print what the receiver of a handoff is given."""
    said = "was recorded already" if command.is_replay else "recorded"
    line(f"{said}, {command.task} version {command.version}")
    delta = command.state_delta
    files = counted(delta["artifacts_added"], "artifact")
    state = "state" if command.state_file.startswith("/api/") else "state file"
    pairs(
        [
            ("to", command.to_agent),
            ("phase", command.phase),
            ("outcome", command.outcome),
            ("held by", [approve_hint(gate) for gate in command.held_by]),
            ("detail score", f"{command.detail_score}/100"),
            ("added", f"{files}, {counted(delta['decisions_made'], 'decision')}"),
            (state, command.state_file),
            ("digest", short_digest(command.digest)),
        ],
        2,
    )
    print_problems(command.warnings)
    line()
    verbatim(command.context_summary)


def _print_delta(delta: JsonObject) -> None:
    """Print what a prepared handoff would change: fields, new items, statuses of others."""
    fields = {name: value for name, value in delta["set"].items() if name != "updated_at"}
    added = [entry["address"] for entries in delta["add"].values() for entry in entries]
    changed = [f"{address} {each['status']}" for address, each in delta["change"].items()]
    pairs(
        [
            ("version", f"{delta['from_version']} to {delta['to_version']}"),
            ("sets", [f"{name}: {value}" for name, value in fields.items()]),
            ("adds", added),
            ("changes", changed),
        ],
        2,
    )


def approve_hint(gate: str) -> str:
    """A gate, and how a person lets it pass."""
    return f"{gate} (passdown gate approve {gate} --by NAME)"


def print_check(check: Check) -> None:
    """Print what a dry run found."""
    print(styled("would be recorded", "green") if check.ok else styled("refused", "red"))
    pairs([("detail score", f"{check.detail_score}/100")], 2)
    if check.command is not None:
        _print_delta(check.command.state_delta)
    print_problems(sorted(check.problems, key=lambda problem: problem.level != "error"))
    line("nothing was changed (dry run)")
