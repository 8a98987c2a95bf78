"""Rules by layer: brackets, budgets, time limits, sessions, switches and compaction."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown.context.rules import (
    FALL_ORDER,
    HANDOFF_WARNING,
    LAYERS,
    Domain,
    Extras,
    LayerResult,
    LayerRun,
    RulesRequest,
    fit_rules,
    layer_providers,
    parse_manifest,
    parse_rules,
    run_layers,
)
from passdown.context.sessions import (
    ALL_LAYERS,
    BRACKETS,
    CRITICAL,
    DEPLETED,
    FRESH,
    MODERATE,
    Bracket,
    History,
    Session,
    bracket_of,
    compaction_of,
    read_session,
    remaining_percent,
)
from passdown.core.settings import Settings
from passdown.core.tokens import counter_of
from passdown.errors import InvalidInput
from passdown.workspace.rules import RulesInjected, compaction, inject_rules, rule_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from passdown.workspace.context import Context

EXAMPLE = Path(__file__).resolve().parent.parent / "docs" / "examples" / "rules"
PAGE = EXAMPLE.parent.parent / "rules.md"
START = datetime(2026, 1, 9, 10, 0, tzinfo=UTC)
NO_NUMBERS: list[object] = [
    math.nan,
    math.inf,
    -math.inf,
    None,
    True,
    False,
    "80",
    "",
    [],
    {},
    b"1",
    1j,
]
CHARS4 = counter_of("chars4")


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def still() -> float:
    return 0.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> Iterator[Context]:
    with passdown.open(str(tmp_path), clock=clock) as workspace:
        yield workspace._context  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def folder(opened: Context) -> Path:
    """The documented example, as the rules of the workspace."""
    return Path(shutil.copytree(EXAMPLE, Path(opened.place.folder) / "rules"))


def write_rules(opened: Context, manifest: str, **files: str) -> Path:
    folder = Path(opened.place.folder) / "rules"
    folder.mkdir(exist_ok=True)
    (folder / "manifest").write_text(manifest, "utf-8")
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return folder


def session_file(opened: Context, id: str = "s1") -> Path:
    return Path(opened.place.folder) / "sessions" / f"{id}.json"


def codes(result: RulesInjected) -> list[str]:
    return [problem.code for problem in result.problems]


# Brackets and numbers


def rules_for(
    opened: Any, prompt: Any, *, used_tokens: Any = None, timer: Any = None, **given: Any
) -> RulesInjected:
    """The rules for a prompt, with the layers' clock replaced where one is given."""
    with pytest.MonkeyPatch.context() as patch:
        if timer is not None:
            patch.setattr("passdown.workspace.rules.TIMER", timer)
        return inject_rules(opened, prompt, used=used_tokens, **given)


@pytest.mark.promise("S2-21")
@pytest.mark.parametrize(
    ("percent", "bracket"),
    [
        *((100, FRESH), (60, FRESH), (60.0, FRESH), (10**400, FRESH)),
        *((59.999, MODERATE), (40, MODERATE)),
        *((39.999, DEPLETED), (25, DEPLETED)),
        *((24.999, CRITICAL), (0, CRITICAL), (-1, CRITICAL), (-(10**400), CRITICAL)),
        *((value, CRITICAL) for value in NO_NUMBERS),
    ],
)
def test_what_is_left_gives_the_bracket(percent: object, bracket: Bracket) -> None:
    """60, 40 and 25 percent are the borders; what is no number is CRITICAL."""
    assert bracket_of(percent) is bracket


@pytest.mark.promise("S2-21")
def test_each_bracket_has_its_budget_and_layers() -> None:
    assert [(b.name, b.budget) for b in BRACKETS] == [
        ("FRESH", 800),
        ("MODERATE", 1_500),
        ("DEPLETED", 2_000),
        ("CRITICAL", 2_500),
    ]
    assert FRESH.layers == (0, 1, 2, 7)
    assert all(b.layers == ALL_LAYERS for b in BRACKETS[1:])
    assert [b.has_memory for b in BRACKETS] == [False, False, True, True]
    assert [b.has_warning for b in BRACKETS] == [False, False, False, True]


@pytest.mark.promise("S2-21")
def test_what_is_left_is_counted_or_guessed() -> None:
    """By count where there is one, else by 1,800 tokens a prompt; never outside 0 to 100."""
    assert remaining_percent(200_000, used_tokens=80_000) == 60
    assert remaining_percent(1_000_000, used_tokens=80_000) == 92
    assert remaining_percent(200_000, prompts=10) == pytest.approx(91)  # pyright: ignore[reportUnknownMemberType]
    assert remaining_percent(200_000, prompts=10, used_tokens=0) == 100
    assert remaining_percent(200_000, prompts=10**9) == 0
    assert remaining_percent(200_000, used_tokens=10**400) == 0
    for used in (-1, *(value for value in NO_NUMBERS if value is not None)):
        assert bracket_of(remaining_percent(200_000, used_tokens=used)) is CRITICAL
    for prompts in (-1, *NO_NUMBERS):
        assert bracket_of(remaining_percent(200_000, prompts=prompts)) is CRITICAL


@pytest.mark.promise("S2-21")
@pytest.mark.parametrize("window", [0, -1, -0.0, *NO_NUMBERS])
def test_a_window_has_to_be_above_zero(window: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        remaining_percent(window, prompts=1)
    assert [(p.path, p.code) for p in caught.value.problems] == [("window", "out_of_range")]


@given(st.floats() | st.integers(), st.integers(1, 10**9))
def test_more_used_never_looks_fresher(used: float, window: int) -> None:
    percent = remaining_percent(window, used_tokens=used)
    assert 0 <= percent <= 100
    if isinstance(used, int) and used >= 0:
        fuller = remaining_percent(window, used_tokens=used + 1)
        assert bracket_of(fuller).floor <= bracket_of(percent).floor


@pytest.mark.promise("S1-14")
def test_compaction_is_due_from_a_quarter_of_the_window() -> None:
    """Long before the window is full; the share is the caller's to set."""
    assert not compaction_of(49_999, 200_000).due
    assert compaction_of(50_000, 200_000).due
    assert not compaction_of(50_000, 200_000, 0.5).due
    assert compaction_of(100_000, 200_000, compact_at=0.5).due
    assert not compaction_of(0, 1).due
    assert compaction_of(7, 100, 0.07) == (True, 7, 7, 100, ("threshold",))
    assert compaction_of(6, 100, 0.07) == (False, 6, 7, 100, ())
    for bad in (-1, *NO_NUMBERS):
        assert compaction_of(bad, 200_000) == (True, None, 50_000, 200_000, ("bad_number",))
        assert compaction_of(0, bad).due
        assert compaction_of(0, 200_000, bad).due
    assert compaction_of(0, 0).due
    assert compaction_of(0, 200_000, 0).due
    assert compaction_of(0, 200_000, 1.5).due


@pytest.mark.promise("S1-14")
def test_window_and_share_come_from_the_settings(tmp_path: Path) -> None:
    settings = Settings(window=1_000, compact_at=0.5)
    with passdown.open(str(tmp_path), settings=settings) as workspace:
        opened = workspace._context  # pyright: ignore[reportPrivateUsage]
        assert compaction(opened, 499) == (False, 499, 500, 1_000, ())
        assert compaction(opened, 500).due
        found = rules_for(opened, "", session="s1", used_tokens=760)
        assert (found.bracket, found.percent, found.compaction.threshold) == ("CRITICAL", 24, 500)
        assert found.compaction.reasons == ("threshold",)
    with pytest.raises(InvalidInput, match=r"context\.window"):
        passdown.open(str(tmp_path), settings=Settings(window=0))


# Manifest and rules

ALL_LAYERS_MANIFEST = "\n".join(
    ["core.layer=0", "all.layer=1"]
    + [f"{n}.layer={n}\n{n}.trigger=x" for n in ("agent", "workflow", "task", "squad", "star")]
    + ["keyword.layer=6", "keyword.recall=x"]
)


@pytest.mark.promise("S2-18")
def test_a_manifest_names_domains_of_all_eight_layers() -> None:
    found = parse_manifest(
        "\ufeff# domains\r\ndevmode=on\n core.layer = 0\n"
        + ALL_LAYERS_MANIFEST.replace("core.layer=0\n", "")
        + "\nagent.file=agents/dev\nkeyword.exclude=no sql, y\nall.bracket=fresh,CRITICAL\n"
    )
    assert found.problems == ()
    assert found.devmode
    assert [domain.layer for domain in found.domains] == [0, 1, 2, 3, 4, 5, 7, 6]
    by_name = {domain.name: domain for domain in found.domains}
    assert by_name["agent"] == Domain("agent", 2, "agents/dev", trigger=("x",))
    assert by_name["keyword"].exclude == ("no sql", "y")
    assert by_name["all"].brackets == ("FRESH", "CRITICAL")


@pytest.mark.promise("S2-18")
def test_all_faults_of_a_manifest_are_listed_and_the_rest_holds() -> None:
    text = """\
good.layer=0
no equals sign
devmode=maybe
a.layer=9
b.trigger=x
c.layer=2
d.layer=6
e.layer=0
e.layer=0
f.layer=0
f.colour=red
g.layer=0
g.file=../../etc/passwd
h/i.layer=0
j.layer=1
j.bracket=WARM
k.layer=0
k.trigger=x
l.layer=6
l.recall=a,,b
m.layer=
manifest.layer=0
n.layer=6
n.recall=->
also-good.layer=7
also-good.trigger=x
"""
    found = parse_manifest(text)
    assert [domain.name for domain in found.domains] == ["good", "also-good"]
    assert sorted((p.path.split(": ")[-1], p.code) for p in found.problems) == sorted(
        [
            ("manifest:2", "invalid_line"),
            ("manifest:3", "invalid_line"),
            ("a.layer", "invalid_layer"),
            ("b.layer", "invalid_layer"),
            ("c.trigger", "missing"),
            ("d.recall", "missing"),
            ("manifest:9", "duplicate"),
            ("manifest:11", "unknown_key"),
            ("g.file", "invalid_path"),
            ("h/i", "invalid_id"),
            ("j.bracket", "invalid_choice"),
            ("k.trigger", "unused_key"),
            ("l.recall", "empty"),
            ("manifest:21", "empty"),
            ("m.layer", "invalid_layer"),
            ("manifest.file", "own_file"),
            ("n.recall", "empty"),
        ]
    )
    assert all(problem.expected or problem.fix for problem in found.problems)


def test_a_rule_is_a_line_or_the_value_of_a_key() -> None:
    rules, problems = parse_rules(
        "\ufeff# head\n\nplain rule\r\n- dashed\nKEY_1=keyed = too\nset retries=3\nKEY_1=again\n"
        "EMPTY=\n\x00bad\n" + "x" * 2_001 + "\n",
        "f",
    )
    assert rules == ("plain rule", "dashed", "keyed = too", "set retries=3")
    assert [(p.path, p.code) for p in problems] == [
        ("f:7", "duplicate"),
        ("f:8", "empty"),
        ("f:9", "nul_character"),
        ("f:10", "too_long"),
    ]
    assert parse_rules("# nothing\n", "f")[1][0].level == "warning"


_LINES = st.lists(
    st.text(max_size=20)
    | st.builds(
        "{}.{}={}".format,
        st.sampled_from(["a", "b.c", "", "é", "manifest", "../x"]),
        st.sampled_from(["layer", "file", "trigger", "recall", "exclude", "bracket", "x"]),
        st.sampled_from(["0", "2", "6", "star", "FRESH", "x,y", ",", "../x", "\ud800", ""]),
    ),
    max_size=12,
)


@given(_LINES, st.text(max_size=60))
def test_no_text_breaks_the_readers(lines: list[str], prompt: str) -> None:
    """Any manifest, rules and prompt give domains and problems, never an exception."""
    text = "\n".join(lines)
    found = parse_manifest(text)
    rules, _ = parse_rules(text, "f")
    assert all("\n" not in rule for rule in rules)
    chosen = run_layers(
        MODERATE, layer_providers(found.domains, RulesRequest(prompt, "x", "x")), still
    )
    assert {each.run.state for each in chosen} <= {"used", "empty"}


# Which layers speak


def chosen_names(
    domains: Sequence[Domain], asked: RulesRequest, bracket: Bracket = MODERATE
) -> list[str]:
    runs = run_layers(bracket, layer_providers(domains, asked), still)
    return [name for each in runs for name in each.run.domains]


@pytest.mark.promise("S2-18")
def test_each_layer_has_its_own_reason_to_apply() -> None:
    domains = [d._replace(rules=("r",)) for d in parse_manifest(ALL_LAYERS_MANIFEST).domains]
    assert chosen_names(domains, RulesRequest()) == ["core", "all"]
    for scope in ("agent", "workflow", "task", "squad"):
        assert chosen_names(domains, RulesRequest()._replace(**{scope: "X"})) == [
            "core",
            "all",
            scope,
        ]
    assert chosen_names(domains, RulesRequest("say X!")) == ["core", "all", "keyword"]
    assert chosen_names(domains, RulesRequest("*x")) == ["core", "all", "keyword", "star"]
    everything = RulesRequest("*x", "x", "x", "x", "x")
    assert len(chosen_names(domains, everything)) == 8
    assert chosen_names(domains, everything, FRESH) == ["core", "all", "agent", "star"]


@pytest.mark.parametrize(
    ("prompt", "applies"),
    [
        ("a migration", True),
        ("MIGRATION.", True),
        ("migrations", False),
        ("the schema   change", True),
        ("schema-change", True),
        ("schema and change", False),
        ("a migration in nosql", False),
        ("c++", True),
        ("c", False),
        ("", False),
    ],
)
def test_keywords_are_whole_words_and_can_be_excluded(prompt: str, applies: bool) -> None:
    domain = Domain("d", 6, "d", (), ("migration", "schema change", "C++"), ("NoSQL",), (), ("r",))
    assert chosen_names([domain], RulesRequest(prompt)) == (["d"] if applies else [])


@pytest.mark.parametrize(
    ("prompt", "applies"),
    [
        ("*review", True),
        ("please *Review, now", True),
        ("(*review)", True),
        ("*review*", False),
        ("**review**", False),
        ("2*review", False),
        ("*reviewer", False),
        ("* review", False),
    ],
)
def test_a_star_command_is_a_word_of_its_own(prompt: str, applies: bool) -> None:
    domain = Domain("d", 7, "d", ("review",), rules=("r",))
    assert chosen_names([domain], RulesRequest(prompt)) == (["d"] if applies else [])


def test_a_trigger_may_stand_for_all_that_begin_so() -> None:
    domain = Domain("d", 4, "d", ("REL-*", "T-1"), rules=("r",))
    found = [
        name
        for name in ("REL-7", "rel-", "T-1", "T-12", "")
        if chosen_names([domain], RulesRequest(task=name))
    ]
    assert found == ["REL-7", "rel-", "T-1"]


# Time limits


class Timer:
    """A timer that layers move on by as much as they are said to take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def layer(self, number: int, ms: float) -> Callable[[], list[Domain]]:
        def provide() -> list[Domain]:
            self.seconds += ms / 1_000
            return [Domain(f"d{number}", number, "f", rules=("r",))]

        return provide


def states(times: dict[int, float], bracket: Bracket = MODERATE) -> dict[int, str]:
    timer = Timer()
    given = {number: timer.layer(number, times.get(number, 0)) for number in range(8)}
    return {each.run.number: each.run.state for each in run_layers(bracket, given, timer)}


@pytest.mark.promise("S2-18")
def test_a_layer_that_is_too_slow_is_left_out() -> None:
    limits = [layer.limit_ms for layer in LAYERS]
    assert limits == [5, 10, 15, 15, 20, 20, 15, 5]
    for layer in LAYERS[1:]:
        just = states({layer.number: layer.limit_ms - 0.01})
        assert set(just.values()) == {"used"}
        late = states({layer.number: layer.limit_ms + 0.01})
        assert late.pop(layer.number) == "slow"
        assert set(late.values()) == {"used"}


@pytest.mark.promise("S2-18")
def test_all_layers_together_have_a_limit_and_the_constitution_has_none() -> None:
    """After 100 ms the rest isn't even asked; the constitution stays however long it took."""
    found = states({0: 500})
    assert found.pop(0) == "used"
    assert set(found.values()) == {"slow"}
    nearly = {1: 9.9, 2: 14.9, 3: 14.9, 4: 19.9, 5: 19.9, 6: 14.9}
    assert set(states(nearly).values()) == {"used"}
    assert states({**nearly, 0: 2, 7: 4.9})[7] == "slow"
    timer = Timer()
    given = {0: timer.layer(0, 101), 1: lambda: pytest.fail("was asked")}
    assert run_layers(MODERATE, given, timer)[1].run.detail.startswith("101 ms")


@pytest.mark.promise("S2-18")
def test_a_layer_that_fails_is_left_out_and_named() -> None:
    def fail() -> list[Domain]:
        raise RuntimeError("no \x1b disk")

    timer = Timer()
    given = {n: timer.layer(n, 0) for n in (0, 1, 2, 4, 5, 6, 7)} | {3: fail}
    chosen = run_layers(MODERATE, given, timer)
    assert chosen[3].run.state == "failed"
    assert chosen[3].run.detail == "RuntimeError: no \\x1b disk"
    assert [each.run.state for each in chosen].count("used") == 7
    found = fit_rules(MODERATE, 50, chosen, CHARS4)
    assert "workflow (failed) left out\n" in found.text


# Budgets


def filled(
    words: int, names: Sequence[str] = tuple(layer.name for layer in LAYERS)
) -> list[LayerResult]:
    return [
        LayerResult(
            LayerRun(layer.number, layer.name, "used", (layer.name,), 2),
            (Domain(layer.name, layer.number, "f", rules=(f"{layer.name}! " * words, "r")),),
        )
        for layer in LAYERS
        if layer.name in names
    ]


EXTRAS = Extras(("memory! " * 40,), "summary! " * 40, devmode=True)
PROTECTED = ("Context: ", HANDOFF_WARNING, "constitution!", "global!", "agent!")


@pytest.mark.promise("S2-22")
def test_sections_fall_in_order_until_the_budget_holds() -> None:
    """One more falls with each step down, never out of order; what is protected stays."""
    budget, falls = 10**6, list[tuple[str, ...]]()
    while True:
        bracket = CRITICAL._replace(budget=budget)
        found = fit_rules(bracket, 10, filled(40), CHARS4, EXTRAS)
        assert found.tokens == CHARS4.tokens(found.text)
        assert all(text in found.text for text in PROTECTED)
        falls.append(tuple(each.section for each in found.fallen))
        if found.over_by:
            assert found.over_by == found.tokens - budget
            break
        assert found.tokens <= budget
        budget = found.tokens - 1
    assert falls[0] == ()
    assert falls[-1] == falls[-2] == FALL_ORDER
    assert falls[:-1] == [FALL_ORDER[:count] for count in range(9)]


@pytest.mark.promise("S2-22")
def test_what_fell_is_named_and_counted() -> None:
    chosen = filled(150)
    found = fit_rules(MODERATE, 50, chosen, CHARS4, EXTRAS)
    last = found.text.rstrip("\n").split("\n")[-1]
    assert found.fallen
    assert last.startswith("summary (no room), keyword (2 rules in keyword, no room), ")
    assert " left out: passdown rules show NAME (keyword, squad, " in last
    for each in found.fallen:
        assert f"{each.section} (" in last
        assert f"{each.section}!" not in found.text
        assert each.tokens > 0
    lost = {each.section for each in found.fallen}
    assert {run.name for run in found.layers if run.state == "fallen"} == lost & {
        layer.name for layer in LAYERS
    }
    assert found.held == ("memory",)
    many = [Domain(f"d{n}", 6, "f", rules=("x " * 4_000,)) for n in range(9)]
    found = fit_rules(
        MODERATE, 50, run_layers(MODERATE, {6: lambda: many}, still), counter_of("o200k_base")
    )
    assert found.text.endswith(
        "keyword (9 rules in d0, d1, d2 and 6 more, no room) left out: "
        "passdown rules show keyword\n"
    )
    assert found.over_by == 0


@pytest.mark.promise("S2-22")
def test_what_is_protected_stays_even_when_it_is_too_long() -> None:
    chosen = filled(400, ("constitution", "global", "agent"))
    found = fit_rules(FRESH, 80, chosen, CHARS4)
    assert found.fallen == ()
    assert found.over_by == found.tokens - 800 > 0
    assert all(found.text.count(f"{n}!") == 400 for n in ("constitution", "global", "agent"))


@given(
    st.sampled_from(BRACKETS),
    st.dictionaries(st.sampled_from([layer.name for layer in LAYERS]), st.integers(0, 300)),
    st.integers(0, 400),
    st.integers(0, 400),
    st.booleans(),
)
@pytest.mark.promise("S2-22")
def test_nothing_is_dropped_unsaid(
    bracket: Bracket, sizes: dict[str, int], memory: int, summary: int, devmode: bool
) -> None:
    """Every section is in the text or among the fallen, whole; over budget only if none may go."""
    given = {
        layer.number: lambda layer=layer: [
            Domain(layer.name, layer.number, "f", rules=(f"{layer.name}! " * sizes[layer.name],))
        ]
        for layer in LAYERS
        if sizes.get(layer.name)
    }
    chosen = run_layers(bracket, given, still)
    extras = Extras(("memory! " * memory,) if memory else (), "summary! " * summary, devmode)
    found = fit_rules(bracket, 50, chosen, CHARS4, extras)
    lost = [each.section for each in found.fallen]
    assert lost == [name for name in FALL_ORDER if name in lost]
    wanted = {**sizes, "memory": memory, "summary": summary}
    for name, size in wanted.items():
        is_out = name in lost or name in found.held
        assert found.text.count(f"{name}!") == (0 if is_out else size)
    assert set(found.held) <= {"workflow", "task", "squad", "keyword", "memory"}
    left = [name for name in FALL_ORDER if wanted.get(name) and name not in (*lost, *found.held)]
    assert not found.over_by or not left
    assert found.over_by == max(0, found.tokens - bracket.budget)


# A prompt's way through real files


@pytest.mark.promise("S2-18")
def test_the_documented_example_gives_what_the_page_says(opened: Context, folder: Path) -> None:
    page = PAGE.read_text("utf-8")
    shown = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    asked = re.search(r'--session s1 --agent dev "(.*?)"', page)
    assert shown
    assert asked
    found = rules_for(opened, asked[1], session="s1", agent="dev", timer=still)
    assert found.text == shown[1]
    assert found.problems == ()
    assert found.tokens == counter_of("o200k_base").tokens(found.text) <= FRESH.budget
    assert found.held == ("workflow", "task", "squad", "keyword")
    for key in ("layer", "file", "trigger", "recall", "exclude", "bracket"):
        assert f"`{key}`" in page


@pytest.mark.promise("S2-18")
def test_nothing_is_needed_for_it_to_work(opened: Context) -> None:
    found = rules_for(opened, "hello", session="s1")
    assert found.text.startswith("Context: FRESH, 99 % left.")
    assert "##" not in found.text
    assert found.problems == ()
    assert rule_report(opened).domains == []


@pytest.mark.promise("S2-20", "S2-19")
def test_with_a_switch_old_rules_go_and_new_ones_come(opened: Context, folder: Path) -> None:
    """Constitution and global rules stay; a switch is said once and makes compaction due once."""
    stay = ("Record why with every decision.", "Hand off before the context is full.")
    dev, qa = "Write the test before the fix.", "Change no source; report what fails."
    found = [
        rules_for(opened, "go on", session="s1", agent=agent, used_tokens=1_000, timer=still)
        for agent in ("dev", "dev", "qa", "qa", None)
    ]
    assert [result.switched for result in found] == [(), (), ("agent",), (), ()]
    assert [result.compaction.due for result in found] == [False, False, True, False, False]
    assert found[2].compaction.reasons == ("switch",)
    assert all(rule in result.text for result in found for rule in stay)
    assert [dev in result.text for result in found] == [True, True, False, False, False]
    assert [qa in result.text for result in found] == [False, False, True, True, True]
    history = found[-1].session.history
    assert history == (("dev", "qa"), ("constitution", "everyone", "agent-qa"))
    assert found[-1].session.prompt_count == 5


@pytest.mark.promise("S2-19")
@pytest.mark.parametrize("scope", ["agent", "workflow", "squad"])
def test_what_is_a_switch_and_what_is_not(opened: Context, scope: str) -> None:
    """From one name to another, in any case of letters; not from none, and not to none."""

    def step(name: str | None) -> tuple[str, ...]:
        names: dict[str, Any] = {scope: name}
        found = rules_for(opened, "", session="s1", used_tokens=0, **names)
        assert found.compaction.due == bool(found.switched)
        return found.switched

    names = [None, "a", "A", "a", None, "b", "b", "", None, "c", "a"]
    switches = [i for i, name in enumerate(names) if step(name) == (scope,)]
    assert [names[i] for i in switches] == ["b", "a"]
    assert switches == [5, 10]


@pytest.mark.promise("S2-19")
def test_several_scopes_may_switch_at_once_and_a_task_never_does(opened: Context) -> None:
    first: dict[str, Any] = {"agent": "a", "workflow": "w", "squad": "s", "task": "T-1"}
    rules_for(opened, "", session="s1", **first)
    other: dict[str, Any] = {"agent": "b", "workflow": "w", "squad": "t", "task": "T-2"}
    found = rules_for(opened, "", session="s1", **other)
    assert found.switched == ("agent", "squad")
    assert found.session.active_task == "T-2"
    assert rules_for(opened, "", session="s1", task="T-3").switched == ()
    assert rules_for(opened, "", session="s2", agent="z").switched == ()


@pytest.mark.promise("S2-19")
def test_of_prompts_at_the_same_time_one_sees_the_switch(opened: Context) -> None:
    rules_for(opened, "", session="s1", agent="a")

    def ask(_: int) -> RulesInjected:
        return rules_for(opened, "", session="s1", agent="b")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(16)))
    assert sum(result.switched == ("agent",) for result in found) == 1
    assert sorted(result.session.prompt_count for result in found) == list(range(2, 18))
    assert all(result.problems == () for result in found)


@pytest.mark.promise("S2-21")
def test_brackets_follow_what_is_used(opened: Context, folder: Path) -> None:
    """More layers, memory and at last the warning, as the context fills."""

    def ask(used: Any) -> RulesInjected:
        return rules_for(
            *(opened, "a migration"),
            session="s1",
            workflow="release",
            used_tokens=used,
            memory=["the API is slow"],
            timer=still,
        )

    found = {used: ask(used) for used in (0, 100_000, 140_000, 190_000)}
    assert [result.bracket for result in found.values()] == [b.name for b in BRACKETS]

    def said(text: str) -> list[bool]:
        return [text in result.text for result in found.values()]

    assert said("Tag only what has passed") == [False, True, True, True]
    assert said("Every migration is one") == [False, True, True, True]
    assert said("the API is slow") == [False, False, True, True]
    assert said("Read single items") == [False, False, True, True]
    assert said(HANDOFF_WARNING) == [False, False, False, True]
    assert [("memory" in result.held) for result in found.values()] == [True, True, False, False]
    for bad in (math.nan, "x", True, -5):
        result = ask(bad)
        assert (result.bracket, codes(result)) == ("CRITICAL", ["wrong_type"])
        assert result.compaction.reasons == ("bad_number",)
        assert json.loads(session_file(opened).read_text("utf-8"))["percent"] == 0


def test_without_a_count_prompts_are_counted(opened: Context) -> None:
    found = [rules_for(opened, "", session="s1") for _ in range(45)]
    assert [result.bracket for result in found] == ["FRESH"] * 44 + ["MODERATE"]
    assert [result.compaction.due for result in found] == [False] * 27 + [True] * 18


@pytest.mark.promise("S2-18")
def test_faulty_files_are_reported_together_and_take_no_other_down(
    opened: Context, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("secret", "utf-8")
    names = ("gone", "binary", "lines", "link", "pipe", "huge", "core")
    folder = write_rules(
        opened,
        "odd\n" + "".join(f"{name}.layer=0\n" for name in names),
        core="the core rule",
        lines="GOOD=a good line\nBAD=\n",
        huge="x\n" * 600_000,
    )
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    (folder / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe")
    found = rules_for(opened, "", session="s1", timer=still)
    assert "- a good line\n- the core rule" in found.text
    assert "secret" not in found.text
    assert found.text.endswith("7 faults in the rules' files: passdown rules list\n")
    assert [(p.path, p.code) for p in found.problems] == [
        ("manifest:1", "invalid_line"),
        ("gone", "missing_file"),
        ("binary", "invalid_utf8"),
        ("lines:2", "empty"),
        ("link", "path_escapes_root"),
        ("pipe", "not_regular_file"),
        ("huge", "too_large"),
    ]
    report = rule_report(opened)
    assert [(d.name, d.count) for d in report.domains] == [("lines", 1), ("core", 1)]
    assert len(report.problems) == 7


def test_a_folder_without_a_manifest_is_reported(opened: Context) -> None:
    folder = Path(opened.place.folder) / "rules"
    folder.mkdir()
    assert codes(rules_for(opened, "", session="s1")) == ["missing_file"]
    folder.rmdir()
    folder.write_text("no folder", "utf-8")
    assert codes(rules_for(opened, "", session="s1")) == ["unreadable_file"]


def test_the_folder_is_a_setting(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "team" / "rules")
    settings = Settings(rules_folder="team/rules")
    with passdown.open(str(tmp_path), settings=settings) as workspace:
        report = rule_report(workspace._context)  # pyright: ignore[reportPrivateUsage]
    assert [d.layer for d in report.domains] == [0, 1, 1, 2, 2, 3, 6, 7]
    assert report.problems == []


def test_a_counter_of_ones_own_decides_what_fits(opened: Context, folder: Path) -> None:
    found = rules_for(
        opened,
        "*review",
        session="s1",
        agent="dev",
        counter=lambda _: 900,  # pyright: ignore[reportUnknownLambdaType]
        timer=still,
    )
    assert [each.section for each in found.fallen] == ["star"]
    assert (found.over_budget, found.over_by, found.tokens) == (True, 100, 900)
    assert json.loads(json.dumps(found.to_dict()))["over_by"] == 100


def test_devmode_says_what_each_layer_gave(opened: Context, folder: Path) -> None:
    with (folder / "manifest").open("a") as file:
        file.write("devmode=on\n")
    found = rules_for(opened, "", session="s1", agent="dev", timer=still)
    assert "- L2 agent: used, 2 rules from agent-dev" in found.text
    assert "- L3 workflow: held, 0 rules" in found.text


def test_a_slow_layer_is_named_in_text_and_problems(opened: Context, folder: Path) -> None:
    ticks = iter([0.0, 0.0, 0.001, 0.001, 0.002, 0.002, 0.03, 0.03, 0.031])
    found = rules_for(opened, "*review", session="s1", agent="dev", timer=lambda: next(ticks))
    assert codes(found) == ["layer_slow"]
    assert found.layers[2].state == "slow"
    assert "Write the test" not in found.text
    assert "agent (took too long) left out\n" in found.text


# Sessions

NAMES = st.just("") | st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,10}", fullmatch=True).filter(
    lambda name: name.lower() not in ("con", "prn", "aux", "nul")
)


SESSIONS = st.builds(
    Session,
    st.just("s1"),
    st.integers(0, 10**9),
    *(NAMES, NAMES, NAMES, NAMES),
    st.sampled_from([bracket.name for bracket in BRACKETS]),
    st.floats(0, 100),
    st.builds(History, st.lists(NAMES).map(tuple), st.lists(NAMES).map(tuple)),
    st.just("2026-01-09T10:00:00Z"),
    st.none() | st.integers(0, 10**9),
    st.just(0),
)


@given(SESSIONS)
@pytest.mark.promise("S2-18")
def test_a_session_survives_json(session: Session) -> None:
    assert read_session(json.loads(json.dumps(session.to_dict())), "s1") == session


@pytest.mark.promise("S2-18")
def test_a_session_is_saved_after_every_prompt(opened: Context) -> None:
    found = rules_for(opened, "", session="s1", agent="dev", task="T-1", used_tokens=100_000)
    assert json.loads(session_file(opened).read_text("utf-8")) == {
        "schema": 1,
        "id": "s1",
        "prompt_count": 1,
        "active_agent": "dev",
        "active_workflow": "",
        "active_squad": "",
        "active_task": "T-1",
        "bracket": "MODERATE",
        "percent": 50.0,
        "history": {"agents": ["dev"], "domains": []},
        "updated_at": "2026-01-09T10:00:00.000000Z",
        "used_tokens": 100_000,
        "counted_at": 1,
    }
    assert found.session.to_dict() == json.loads(session_file(opened).read_text("utf-8"))
    assert {path.name for path in session_file(opened).parent.iterdir()} == {"s1.json", ".locks"}


@pytest.mark.promise("S2-18")
def test_a_count_holds_until_the_next_one(opened: Context) -> None:
    """A prompt without a count goes on from the last one, and says that it is an estimate."""
    first = rules_for(opened, "", session="s1", used_tokens=190_000)
    assert (first.bracket, first.percent) == ("CRITICAL", 5.0)
    assert "Context: CRITICAL, 5 % left." in first.text
    for prompt in (1, 2):
        after = rules_for(opened, "", session="s1")
        assert after.percent == pytest.approx(5.0 - prompt * 0.9)
        assert after.compaction.used == 190_000 + prompt * 1_800
        assert after.compaction.due
        assert f"CRITICAL, about {4 - (prompt > 1)} % left (estimated)." in after.text
    wrong: Any = math.nan
    assert rules_for(opened, "", session="s1", used_tokens=wrong).percent == 0
    again = rules_for(opened, "", session="s1")
    assert again.compaction.used == 190_000 + 4 * 1_800
    smaller = rules_for(opened, "", session="s1", used_tokens=20_000)
    assert "Context: FRESH, 90 % left." in smaller.text
    assert rules_for(opened, "", session="s1").percent == pytest.approx(89.1)
    other = rules_for(opened, "", session="s2")
    assert "(estimated)" not in other.text


def test_a_session_without_a_count_is_read(opened: Context) -> None:
    """Sessions that were saved before counts were kept go on."""
    rules_for(opened, "", session="s1", agent="dev")
    path = session_file(opened)
    document = json.loads(path.read_text("utf-8"))
    del document["used_tokens"], document["counted_at"]
    path.write_text(json.dumps(document), "utf-8")
    found = rules_for(opened, "", session="s1")
    assert found.problems == ()
    assert found.session.prompt_count == 2


@pytest.mark.promise("S2-18")
def test_a_session_is_stale_after_a_day(opened: Context, clock: Clock) -> None:
    rules_for(opened, "", session="s1", agent="dev")
    clock.now += timedelta(hours=24)
    kept = rules_for(opened, "", session="s1")
    assert (kept.session.prompt_count, kept.session.active_agent) == (2, "dev")
    clock.now += timedelta(hours=24, seconds=1)
    anew = rules_for(opened, "", session="s1", agent="qa")
    assert (anew.session.prompt_count, anew.switched) == (1, ())
    assert codes(anew) == ["session_stale"]
    clock.now -= timedelta(days=3)
    assert codes(rules_for(opened, "", session="s1")) == ["session_stale"]


@pytest.mark.parametrize(
    "change",
    [
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"schema": 1}',
        {"id": "s2"},
        {"schema": 2},
        {"prompt_count": -1},
        {"prompt_count": True},
        {"prompt_count": "1"},
        {"percent": math.nan},
        {"percent": None},
        {"bracket": "WARM"},
        {"bracket": []},
        {"active_agent": "../x"},
        {"active_task": None},
        {"history": []},
        {"history": {"agents": [1], "domains": []}},
        {"history": {"agents": []}},
        {"updated_at": "yesterday"},
        {"updated_at": "2026-01-09T10:00:00"},
        {"updated_at": 5},
        {"more": 1},
        {"used_tokens": -1},
        {"used_tokens": "many"},
        {"counted_at": 2},
        {"counted_at": -1},
    ],
)
@pytest.mark.promise("S2-18")
def test_a_broken_session_starts_anew_with_a_warning(
    opened: Context, change: str | dict[str, Any]
) -> None:
    rules_for(opened, "", session="s1", agent="dev")
    path = session_file(opened)
    if isinstance(change, dict):
        change = json.dumps({**json.loads(path.read_text("utf-8")), **change})
    path.write_text(change, "utf-8")
    found = rules_for(opened, "", session="s1", agent="qa")
    assert codes(found) == ["session_broken"]
    assert found.problems[0].level == "warning"
    assert (found.session.prompt_count, found.switched) == (1, ())
    assert rules_for(opened, "", session="s1").problems == ()


@pytest.mark.promise("S2-18")
@pytest.mark.parametrize(
    "id",
    ["", "..", ".", "../x", "a/b", "a\\b", "/etc/x", "a b", "a\x00b", "é", "nul", "x" * 200, 5],
)
def test_an_id_that_could_lead_elsewhere_is_refused(
    opened: Context, tmp_path: Path, id: Any
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInput):
        rules_for(opened, "", session=id)
    assert sorted(tmp_path.rglob("*")) == before


def test_bad_input_is_refused_with_all_problems(opened: Context) -> None:
    bad: Any = {"agent": "a/b", "squad": 5, "task": "", "memory": ["x", 3], "summary": None}
    prompt: Any = b"x"
    with pytest.raises(InvalidInput) as caught:
        rules_for(opened, prompt, session="s1", **bad)
    assert [problem.path for problem in caught.value.problems] == [
        *("agent", "squad", "prompt", "summary", "memory")
    ]
    assert not session_file(opened).exists()


def test_a_save_that_fails_is_a_warning(opened: Context, folder: Path) -> None:
    """The rules are given all the same."""
    Path(opened.place.folder, "sessions").write_text("in the way", "utf-8")
    found = rules_for(opened, "", session="s1", agent="dev", timer=still)
    assert "Write the test before the fix." in found.text
    assert codes(found) == ["session_not_locked", "session_broken", "session_not_saved"]
    assert {problem.level for problem in found.problems} == {"warning"}
