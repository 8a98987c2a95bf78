"""ADRs are read as people write them, whatever the dialect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.imports.adr import Adr, NoAdr, read_adr, resolve_chain
from tests.imports.sources import MADR_BULLETS, MADR_FRONT, NYGARD_NEW, NYGARD_OLD, README


def adr(text: str, name: str = "0001-a.md") -> Adr:
    found = read_adr(name, text)
    assert isinstance(found, Adr), found
    return found


def with_status(text: str, name: str = "0001-a.md") -> Adr:
    return adr(f"# A\n\n## Status\n\n{text}\n\n## Decision\n\nDo it.\n", name)


def test_a_record_of_adr_tools() -> None:
    """Number and title part; decision, context and consequences are the reasons."""
    found = adr(NYGARD_NEW)
    assert found.title == "Keep sessions in Redis"
    assert (found.status, found.date) == ("accepted", "2022-01-31")
    assert found.supersedes == ("0001-keep-sessions-in-the-database.md",)
    assert found.rationale.startswith("Sessions live in Redis, with a time to live.")
    assert "Context: The table grew" in found.rationale
    assert "Consequences: - Redis has to be backed up." in found.rationale
    assert adr(NYGARD_OLD).superseded_by == ("0003-keep-sessions-in-redis.md",)


def test_a_madr_with_front_matter() -> None:
    """Facts come from the front matter; the chosen option is no alternative to itself."""
    found = adr(MADR_FRONT)
    assert (found.status, found.date) == ("accepted", "2024-05-06")
    assert found.tags == ("web-api", "auth")
    assert found.alternatives == ("Tokens in local storage which scripts can read", "Mutual TLS")
    assert "because scripts can't read them" in found.rationale
    assert "Decided by: Kim, Ada Nwosu" in found.rationale
    assert found.left_out == ("Pros and Cons of the Options",)


def test_a_madr_with_a_list_of_facts() -> None:
    """A heading in a fence is no heading, and a date that can't be read stays in words."""
    found = adr(MADR_BULLETS)
    assert found.title == "Log as JSON lines"
    assert (found.status, found.date) == ("reverted", "")
    assert "Decided by: the platform team" in found.rationale
    assert "Date: some day in spring" in found.rationale


def test_a_record_of_log4brains_is_dated_by_its_name() -> None:
    """The file's name gives the date where the text gives none."""
    text = "# B\n\n- Status: draft\n- Tags: dev tools, api\n\n## Decision\n\nYes.\n"
    found = adr(text, "20201016-use-the-slug.md")
    assert (found.status, found.date, found.tags) == (
        "proposed",
        "2020-10-16",
        ("dev-tools", "api"),
    )


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("Accepted", "accepted"),
        ("**Approved** by everybody", "accepted"),
        ("2020-01-02 proposed\n\n2020-02-03 accepted", "accepted"),
        ("~~Accepted~~ Deprecated", "reverted"),
        ("Rejected", "reverted"),
        ("Pending", "proposed"),
        ("Partly superseded", "accepted"),
        ("Accepted\n\nSuperseded by [B](0002-b.md)", "superseded"),
        ("Accepted, superseded by ADR-0002", "superseded"),
        ("On hold", "proposed"),
    ],
)
def test_a_status_in_many_words(words: str, status: str) -> None:
    """Every spelling gives one of four words; one that nobody knows is taken as proposed."""
    assert with_status(words).status == status


def test_no_status_at_all_means_accepted() -> None:
    """MADR lets the status be left out, and log4brains takes it for accepted too."""
    found = adr("# A\n\n## Decision\n\nDo it.\n")
    assert (found.status, found.said) == ("accepted", "")


@pytest.mark.parametrize(
    "reference",
    ["[x](0002-b.md)", "[x](./0002-b.md#why)", "ADR-0002", "ADR 2", "0002-b", "#2", "[2](../a/b)"],
)
def test_a_reference_is_found_by_path_name_or_number(reference: str) -> None:
    """Links count first, then names and numbers."""
    old = with_status(f"Superseded by {reference}")
    new = with_status("Accepted", "0002-b.md")
    linked = resolve_chain([new, old])
    is_known = reference != "[2](../a/b)"
    assert linked.supersedes["0002-b.md"] == (("0001-a.md",) if is_known else ())
    assert [p.code for p in linked.problems] == ([] if is_known else ["unknown_adr"])
    assert [each.name for each in linked.order] == ["0001-a.md", "0002-b.md"]


def test_a_circle_is_cut_and_reported() -> None:
    """ADRs that supersede each other are all kept, in an order, without the link that closes it."""
    ring = [with_status(f"Superseded by ADR-{(n + 1) % 3}", f"000{n}-x.md") for n in range(3)]
    alone = with_status("Superseded by ADR-9", "0009-x.md")
    linked = resolve_chain([*ring, alone])
    assert len(linked.order) == 4
    assert sum(map(len, linked.supersedes.values())) == 2
    assert [p.code for p in linked.problems] == ["cycle", "cycle"]


def test_only_what_was_decided_counts_for_the_digest() -> None:
    """A new status or date leaves the digest alone; any other word changes it."""
    changed = MADR_FRONT.replace("accepted", "deprecated").replace("2024-05-06", "2025-05-06")
    assert adr(changed).digest == adr(MADR_FRONT).digest
    assert adr(NYGARD_OLD).digest == adr(NYGARD_OLD.replace("Superceded by", "Accepted,")).digest
    assert adr(MADR_FRONT.replace("phones", "old phones")).digest != adr(MADR_FRONT).digest


def test_pages_about_adrs_are_none() -> None:
    """A page without a decision is not taken; one with a number should have had one."""
    for name, is_meant in (("README.md", False), ("notes.md", False), ("0004-x.md", True)):
        found = read_adr(name, README)
        assert isinstance(found, NoAdr)
        assert found.is_meant == is_meant
    template = "# {short title}\n\n## Decision Outcome\n\n{why}\n"
    assert isinstance(read_adr("0000-x.md", template), NoAdr)


def test_several_adrs_in_one_file_are_not_mixed() -> None:
    """What would become one decision out of two is refused, with the reason."""
    text = "# All\n\n## ADR 1\n\n### Decision\n\nA.\n\n## ADR 2\n\n### Decision\n\nB.\n"
    found = read_adr("all.md", text)
    assert isinstance(found, NoAdr)
    assert (found.problem.code, found.is_meant) == ("several_adrs", True)


def test_an_adr_in_a_folder_of_its_own() -> None:
    """There an index or a readme may be the ADR; the words before its title say nothing."""
    text = "# Architecture Decision Record: Use Rust\n\n## Decision\n\nRust.\n"
    assert adr(text, "use-rust/index.md").title == "Use Rust"
    assert isinstance(read_adr("index.md", text), NoAdr)


_PIECES = """# A|## Status|## Decision|---|status: x|```|* a|  b|Superseded by [a](b.md)|<!--
|-->|===|Chosen option: "a"|## Considered Options|- [ ] c|"""
_MARKUP = st.lists(
    st.sampled_from([*_PIECES.split("|"), "|Status|x|", "\x00", "\ud800", "\ufeff", "\r"])
).map("\n".join)


@given(st.text() | _MARKUP, st.sampled_from(["0001-a.md", "README.md", "x/y.md", ".md", ""]))
def test_no_text_can_break_the_reader(text: str, name: str) -> None:
    """Any text is an ADR or is none, and what is one can be put in order."""
    found = read_adr(name, text)
    if isinstance(found, Adr):
        assert found.title or not name
        assert found.rationale
        assert resolve_chain([found]).order == (found,)


def test_a_giant_line_takes_no_time() -> None:
    """A line of 10 MB is text, and looking for markup in it ends at once."""
    big = "*Status: [a](" * 800_000
    found = adr(f"# A\n\n{big}\n\n## Decision\n\nDo it.\n\n## Context\n\n{big}\n")
    assert found.rationale == "Do it."
    assert found.left_out == ("Context",)
