"""The journal as a page of Markdown that a person reads and a file keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.item_text import flat

if TYPE_CHECKING:
    from collections.abc import Sequence

Document = dict[str, Any]


def journal_page(journal: Document) -> str:
    """A journal document as Markdown; stored words can't leave the cell that they stand in."""
    about = journal["task"] or "all work"
    parts = [
        f"# Journal: {about}\n",
        _section(
            "Active blockers", journal["active_blockers"], _BLOCKERS, "Nothing is in the way."
        ),
        _section("Gotchas", journal["gotchas"], _GOTCHAS, "None that still holds."),
        _section("Context map", journal["context_map"], _PLACES, "No file was handed over yet."),
    ]
    if journal["more"]:
        named = ", ".join(name.replace("_", " ") for name in journal["more"])
        parts.append(f"There is more in: {named}. `passdown journal --limit N` shows it.\n")
    return "\n".join(parts)


_BLOCKERS = (("Blocker", "blocker"), ("Impact", "impact"), ("Try", "proposed_resolution"))
_GOTCHAS = (("Severity", "severity"), ("Issue", "issue"), ("Do", "mitigation"))
_PLACES = (("Component", "component"), ("Location", "location"), ("Notes", "notes"))


def _section(
    title: str, rows: Sequence[Document], columns: Sequence[tuple[str, str]], empty: str
) -> str:
    if not rows:
        return f"## {title}\n\n{empty}\n"
    heads = [*(head for head, _ in columns), "Source"]
    lines = [_line(heads), "|" + " --- |" * len(heads)]
    for row in rows:
        cells = [row.get(name, "") for _, name in columns]
        lines.append(_line([*cells, ", ".join(row.get("items", [row.get("item", "")]))]))
    return f"## {title}\n\n" + "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    """A text in a table's cell: on one line, without a bar, tag, link or picture of its own."""
    plain = flat(text).replace("\\", "\\\\").replace("|", "\\|").replace("[", "\\[")
    return plain.replace("<", "&lt;").replace("`", "'")
