"""Which states an agent may go through."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.core.record import Record, canonical_bytes
from passdown.errors import InvalidInput
from passdown.relay.agents import (
    DETOURS,
    MACHINES,
    VERDICTS,
    AgentStatus,
    Lease,
    Machine,
    StatePosition,
    after_review,
    as_mermaid,
    check_path,
    legal_steps,
    status_of,
)

CODER, ARCHITECT = MACHINES["coder"], MACHINES["architect"]
WAITING = StatePosition()


def ends(machine: Machine, *path: str, is_express: bool = False) -> str:
    """Where a path from WAITING ends; it has to be legal."""
    walked = check_path(machine, WAITING, path, is_express=is_express)
    assert walked.problems == ()
    return walked.position.state


def refused(machine: Machine, *path: str, is_express: bool = False) -> tuple[str, str]:
    """Which step of a path isn't legal, and what would be."""
    (problem,) = check_path(machine, WAITING, path, is_express=is_express).problems
    return problem.path, problem.expected


def reachable(
    machine: Machine, start: StatePosition, *, is_express: bool = True
) -> set[StatePosition]:
    """Every position that can be reached from another."""
    found, todo = {start}, [start]
    while todo:
        position = todo.pop()
        for to in legal_steps(machine, position, is_express=is_express):
            after = check_path(machine, position, [to], is_express=is_express).position
            if after not in found:
                found.add(after)
                todo.append(after)
    return found


def test_a_coder_plans_codes_tests_and_waits_again() -> None:
    """The long way round, and the short ones that a relay without reviews takes."""
    work = ("SETUP", "PLANNING", "PLAN_REVIEW", "CODING", "TESTING", "CODE_REVIEW", "DONE")
    assert ends(CODER, *work, "WAITING") == "WAITING"
    assert ends(CODER, "SETUP", "PLANNING", "CODING", "DONE") == "DONE"
    assert ends(CODER, "SETUP", "PLANNING", "DONE", "WAITING", "SETUP") == "SETUP"
    assert ends(ARCHITECT, "REQUEST", "ESCALATED", "REQUEST", "WAITING") == "WAITING"
    assert ends(ARCHITECT, "SETUP", "DISPATCHING", "MONITORING", "REQUEST", "MONITORING", "DONE")


@pytest.mark.promise("S4-20")
def test_only_express_work_is_coded_without_a_plan() -> None:
    """WAITING, SETUP, CODING; other work has to be planned, and is told so."""
    assert ends(CODER, "SETUP", "CODING", is_express=True) == "CODING"
    assert refused(CODER, "SETUP", "CODING") == ("path[1]", "one of PLANNING, ERROR, SUSPEND")
    assert refused(CODER, "CODING", is_express=True)[0] == "path[0]"
    express = refused(CODER, "SETUP", "TESTING", is_express=True)
    assert express[1] == "one of PLANNING, CODING, ERROR, SUSPEND"
    (problem,) = check_path(CODER, WAITING, ["SETUP", "CODING"]).problems
    assert problem.message == "CODING can't follow SETUP except for express work"


def test_a_detour_leads_back_to_where_it_began_and_nowhere_else() -> None:
    """Also when it is paused in between."""
    coding = ("SETUP", "PLANNING", "CODING")
    assert ends(CODER, *coding, "QUESTION", "CODING") == "CODING"
    assert refused(CODER, *coding, "QUESTION", "PLANNING")[1] == "one of CODING, ERROR, SUSPEND"
    assert ends(CODER, *coding, "QUESTION", "SUSPEND", "QUESTION", "CODING") == "CODING"
    assert refused(CODER, *coding, "QUESTION", "SUSPEND", "CODING")[1] == "one of QUESTION, ERROR"
    assert ends(CODER, "SUSPEND", "WAITING", "SETUP", "SUSPEND", "SETUP") == "SETUP"


@pytest.mark.promise("S4-41")
@pytest.mark.parametrize("came_from", ["PLANNING", "CODING", "TESTING"])
def test_the_answer_to_a_budget_review_says_where_it_goes_on(came_from: str) -> None:
    """Each answer is a legal step; what is escalated comes back to the review."""
    expected = {
        "continue": came_from,
        "pivot": "PLANNING",
        "escalate": "SUSPEND",
        "abandon": "ERROR",
    }
    assert {verdict: after_review(verdict, came_from) for verdict in VERDICTS} == expected
    reviewed = StatePosition("BUDGET_REVIEW", (came_from,))
    assert check_path(CODER, StatePosition(came_from), ["BUDGET_REVIEW"]).position == reviewed
    for verdict in VERDICTS:
        after = check_path(CODER, reviewed, [after_review(verdict, came_from)])
        assert after.problems == ()
    waits = check_path(CODER, reviewed, ["SUSPEND"]).position
    assert check_path(CODER, waits, ["BUDGET_REVIEW", came_from]).position == StatePosition(
        came_from
    )


def test_an_answer_that_is_none_is_refused_with_all_that_is_wrong() -> None:
    with pytest.raises(InvalidInput) as caught:
        after_review("perhaps", "WAITING")
    assert [problem.path for problem in caught.value.problems] == ["verdict", "came_from"]


def test_every_unknown_state_of_a_path_is_named() -> None:
    """With the first step that isn't legal."""
    walked = check_path(CODER, WAITING, ["SETUP", "FLYING", "CODING", "DREAMING"])
    assert [(p.path, p.code) for p in walked.problems] == [
        ("path[1]", "unknown_state"),
        ("path[3]", "unknown_state"),
    ]
    assert walked.position.state == "SETUP"
    both = check_path(CODER, WAITING, ["CODING", "FLYING"]).problems
    assert [p.code for p in both] == ["unknown_state", "illegal_step"]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_every_state_can_be_reached_and_leads_back_to_waiting(machine: Machine) -> None:
    """Whatever detour an agent is on, and with or without express work."""
    found = reachable(machine, WAITING)
    assert {position.state for position in found} == set(machine.steps)
    for position in found:
        assert bool(position.came_from) == (position.state in DETOURS)
        assert WAITING in reachable(machine, position, is_express=False)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_any_state_may_fail_and_all_but_the_ends_may_pause(machine: Machine) -> None:
    for state, after in machine.steps.items():
        assert ("ERROR" in after) == (state != "ERROR")
        assert ("SUSPEND" in after) == (state not in ("DONE", "ERROR", "SUSPEND"))
        assert set(after) <= set(machine.steps)


@given(st.data())
def test_no_path_leaves_the_table(data: st.DataObject) -> None:
    """A walk of any length, by whatever is legal, stays in the machine and is legal as a whole."""
    machine = data.draw(st.sampled_from(list(MACHINES.values())))
    is_express = data.draw(st.booleans())
    position, path = WAITING, list[str]()
    for _ in range(data.draw(st.integers(1, 30))):
        to = data.draw(st.sampled_from(legal_steps(machine, position, is_express=is_express)))
        position = check_path(machine, position, [to], is_express=is_express).position
        path.append(to)
        assert position.state == to
        assert {position.state, *position.came_from} <= set(machine.steps)
        assert len(position.came_from) <= 2
    assert check_path(machine, WAITING, path, is_express=is_express).position == position
    if not is_express:
        assert ("SETUP", "CODING") not in pairwise(["WAITING", *path])


@given(st.lists(st.sampled_from([*CODER.steps, *ARCHITECT.steps, "FLYING"]), max_size=8))
def test_any_path_is_legal_to_its_end_or_has_a_problem(path: list[str]) -> None:
    """The position is how far it was legal, and the problem is about the step after that."""
    walked = check_path(CODER, WAITING, path)
    if not walked.problems:
        assert walked.position.state == (path[-1] if path else "WAITING")
        return
    first = min(int(problem.path[5:-1]) for problem in walked.problems)
    assert check_path(CODER, WAITING, path[:first]) == (walked.position, ())
    for problem in walked.problems:
        assert "WAITING" in problem.expected or "ERROR" in problem.expected


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_picture_has_every_step_of_the_table(machine: Machine) -> None:
    """An arrow for each, but the two that nearly all share: these are a note."""
    lines = as_mermaid(machine).splitlines()
    arrows = {line.partition(":")[0].strip() for line in lines if "-->" in line}
    steps = {
        f"{state} --> {to}"
        for state, after in machine.steps.items()
        for to in after
        if to not in ("ERROR", "SUSPEND")
    }
    backs = {" --> ".join(reversed(s.split(" --> "))) for s in steps if s.split()[-1] in DETOURS}
    assert arrows == steps | backs | {"[*] --> WAITING"}
    assert "ERROR" in lines[-1]
    assert "SUSPEND" in lines[-1]


def test_a_standing_reads_back_equal() -> None:
    whole = AgentStatus("coder", "coder", StatePosition("QUESTION", ("CODING",)), None, "2026", 3)
    for lease in (None, Lease("coder", "T-1", 2, "R-1")):
        standing = whole._replace(lease=lease)
        data = canonical_bytes({"stands": standing.document()})
        record = Record("agent/coder", 3, "2026", "coder", "moved", "", "", "", data)
        assert status_of("coder", record) == standing
