"""A program that collects traces itself: what it does with a workspace is part of its own spans."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from passdown.tracing import requested_exporter

if TYPE_CHECKING:
    from pathlib import Path

Spans = list[dict[str, Any]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> dict[str, Spans]:
    """The spans of a program of its own: a provider can be set once, and stays."""
    folder = tmp_path_factory.mktemp("own")
    done = subprocess.run(
        [sys.executable, "-m", "tests.tracing.embedding", str(folder)],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def below(spans: Spans, name: str) -> Counter[str]:
    """What stands directly below the only span of a name."""
    (top,) = [span for span in spans if span["name"] == name]
    return Counter(span["name"] for span in spans if span["parent"] == top["id"])


@pytest.mark.promise("O-1")
def test_what_a_workspace_does_is_part_of_the_program_s_span(told: dict[str, Spans]) -> None:
    """Transactions, embeddings and memory operations; outside of any span nothing is told."""
    assert told["alone"] == []
    found = below(told["own"], "own")
    memory = {"create_memory", "search_memory", "update_memory"}
    assert set(found) == {"store read", "store write", "embeddings minilm", "handoff", *memory}
    embeds = [span["attributes"] for span in told["own"] if span["name"] == "embeddings minilm"]
    assert {each["gen_ai.request.model"] for each in embeds} == {"minilm"}
    assert all(each["passdown.texts"] >= 1 for each in embeds)


@pytest.mark.promise("O-1", "O-2")
def test_memory_and_handoffs_have_the_names_of_the_conventions(told: dict[str, Spans]) -> None:
    """Counts and ids, of a handoff who and to whom; nothing that anybody wrote."""
    spans = {span["name"]: span["attributes"] for span in told["own"]}
    for name in ("create_memory", "search_memory", "update_memory"):
        assert spans[name]["gen_ai.operation.name"] == name
        assert spans[name]["gen_ai.memory.record.count"] == 1
        assert spans[name]["gen_ai.memory.store.id"].startswith("sqlite:")
    assert spans["update_memory"]["gen_ai.memory.record.id"] == "T-1#d1"
    assert spans["handoff"]["passdown.handoff.source"] == "planner"
    assert spans["handoff"]["passdown.handoff.target"] == "coder"
    assert "ookies" not in json.dumps(told)


@pytest.mark.promise("O-2")
def test_a_handoff_keeps_the_trace_that_it_was_recorded_in(told: dict[str, Spans]) -> None:
    """Here and through a server, and that of whoever started the process; a retry is no other."""
    (own, away, started) = told["traces"]
    assert own["trace_id"] == f"{told['own'][0]['trace']:032x}"
    assert own["is_replay"]
    assert own["logged"] == own["trace_id"]
    assert away["trace_id"] == f"{told['handed'][0]['trace']:032x}"
    assert started == {"trace_id": "a" * 32, "span_id": "b" * 16}


@pytest.mark.promise("O-1")
def test_a_remote_workspace_takes_the_trace_along(told: dict[str, Spans]) -> None:
    """Its own request is a span, and the server's is below it; without a span nothing is sent."""
    spans = told["away"]
    assert {span["trace"] for span in spans} == {spans[0]["trace"]}
    assert below(spans, "away") == {"POST": 1}
    assert below(spans, "POST") == {"POST /api/warnings": 1}
    assert below(spans, "POST /api/warnings") == {"workspace warn": 1}
    (asked,) = [span["attributes"] for span in spans if span["name"] == "POST"]
    assert asked["url.full"].endswith("/api/warnings")
    assert asked["http.response.status_code"] == 201
    (top,) = [span for span in told["silent"] if span["name"].startswith("GET")]
    assert top["parent"] == 0


@pytest.mark.promise("O-1")
def test_briefs_for_many_are_part_of_one_and_linked_to_all(told: dict[str, Spans]) -> None:
    spans = told["many"]
    tops = {span["id"]: span for span in spans if span["name"].startswith("GET")}
    handed = [span for span in spans if span["name"] == "hand out briefs"]
    assert {span["parent"] for span in handed} <= tops.keys()
    together = [span for span in handed if span["links"]]
    assert together
    for span in together:
        owners = {span["parent"], *span["links"]}
        assert owners <= tops.keys()
        assert len(owners) == span["attributes"]["passdown.briefs"]
    assert all(span["parent"] for span in spans if span["name"].startswith("store"))


def test_whoever_watches_the_server_leaves_no_spans(told: dict[str, Spans]) -> None:
    """They ask every few seconds, and what they ask is nobody's work."""
    assert told["watched"] == []


def test_a_stream_is_one_span_however_long_it_lasts(told: dict[str, Spans]) -> None:
    (top,) = [span for span in told["streamed"] if span["name"] == "GET /api/events"]
    assert [span["name"] for span in told["streamed"] if span["parent"] == top["id"]] == []


@pytest.mark.parametrize(
    ("environment", "exporter", "problem"),
    [
        ({}, "", ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "otlp", ""),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, "otlp", ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, "", ""),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp", ""),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console", ""),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, "", ""),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, "", ""),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "", "zipkin"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "", "grpc"),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, "", ""),
    ],
)
def test_the_usual_variables_decide(
    environment: dict[str, str], exporter: str, problem: str
) -> None:
    found = requested_exporter(environment)
    assert found.exporter == exporter
    assert (problem in found.problem) if problem else found.problem == ""
