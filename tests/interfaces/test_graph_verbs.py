"""`graph` and `knowledge`: what is written down, asked, drawn, packed and exchanged."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from passdown.knowledge.graph_files import read_graph

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

    Json = Callable[..., Any]

BY = ("--agent", "planner")


@pytest.fixture
def known(project: Path, cli: Run) -> Path:
    """A task with a decision and a pattern, and two nodes that hang together with them."""
    cli("task", "new", "T-1", "--title", "Sessions in the store", *BY)
    cli("decide", "Sessions in Redis", "--why", "speed", "--task", "T-1", "--tag", "auth", *BY)
    cli(
        *("note", "pattern", "one middleware checks tokens", "--location", "src/auth.py"),
        *("--tag", "auth,web", "--task", "T-1", "--agent", "coder"),
    )
    cli("knowledge", "add", "redis", "--type", "datastore", "--summary", "Redis 7", *BY)
    cli(
        *("knowledge", "add", "session-store", "--type", "component", "--tag", "auth"),
        *("--summary", "Keeps sessions", "--description", "For an hour", "--level", "architecture"),
        *("--edge", "uses:redis", "--edge", "must_follow:T-1#d1", *BY),
    )
    return project


@pytest.mark.promise("S3-38")
def test_a_node_is_shown_with_everything_that_touches_it(
    known: Path, cli: Run, as_json: Json
) -> None:
    out = cli("knowledge", "show", "session-store").out
    assert out.startswith("session-store  Keeps sessions\n")
    assert "  session-store -> uses -> redis\n" in out
    assert "  session-store -> uses -> redis\n" in cli("knowledge", "show", "node:redis").out
    found = as_json("knowledge", "show", "session-store")
    assert found["attributes"] == {"description": "For an hour", "level": "architecture"}
    assert [edge["target"] for edge in found["edges"]] == ["T-1#d1", "redis"]
    assert "nothing is known as 'nobody'" in cli("knowledge", "show", "nobody", code=1).err


@pytest.mark.promise("S3-38")
def test_near_shows_the_way(known: Path, cli: Run, as_json: Json) -> None:
    found = as_json("graph", "near", "session-store", "--depth", "2", "--direction", "out")
    way = {reached["node"]: reached for reached in found}
    assert way["task:T-1"]["depth"] == 2
    assert way["task:T-1"]["path"] == [
        ["session-store", "must_follow", "T-1#d1"],
        ["T-1#d1", "relates_to", "task:T-1"],
    ]
    out = cli("graph", "near", "redis", "--depth", "2").out
    assert "redis <- uses <- session-store -> must_follow -> T-1#d1\n" in out
    only = as_json("graph", "near", "session-store", "--relation", "uses")
    assert [reached["node"] for reached in only] == ["redis"]
    assert "nothing leads" in cli("graph", "near", "redis", "--direction", "out").out
    assert "depth" in cli("graph", "near", "redis", "--depth", "0", code=1).err


@pytest.mark.promise("S3-37")
def test_about_says_which_tasks_found_patterns(known: Path, cli: Run, as_json: Json) -> None:
    found = as_json("graph", "about", "auth")
    assert [node["id"] for node in found["T-1"]] == ["T-1#p1"]
    assert set(as_json("graph", "about", "auth", "--type", "component")) == {"workspace"}
    assert cli("graph", "about", "bread").out == "no task found a pattern about bread\n"
    cli("decide", "Bake at night", "--why", "cheap", "--task", "T-1", "--tag", "bread", *BY)
    hint = "; there is more with --type decision\n"
    assert cli("graph", "about", "bread").out.endswith(hint)


@pytest.mark.promise("S3-38")
def test_tagged_is_scored_by_shared_tags(known: Path, cli: Run, as_json: Json) -> None:
    found = as_json("graph", "tagged", "auth,web")
    assert found[0]["id"] == "T-1#p1"
    assert [node["score"] for node in found] == [1.0, 0.5, 0.5]
    assert as_json("graph", "tagged", "auth", "web", "--limit", "1") == found[:1]
    assert "1.00   T-1#p1" in cli("graph", "tagged", "auth", "web").out
    assert as_json("graph", "tags")["web"] == ["T-1#p1"]


def test_show_gives_the_same_graph_in_every_form(known: Path, cli: Run, as_json: Json) -> None:
    told = cli("graph", "show").out
    assert "  session-store -> uses -> redis\n" in told
    whole = read_graph(json.dumps(as_json("graph", "show")))
    assert read_graph(cli("graph", "show", "--format", "dot").out) == whole
    assert cli("graph", "show", "--format", "mermaid").out.startswith("flowchart ")
    assert "written to" in cli("graph", "show", "--format", "svg", "--output", "g.svg").out
    ElementTree.parse(known / "g.svg")
    cli("graph", "show", "--format", "dot", "--output", "g.dot")
    assert read_graph((known / "g.dot").read_text("utf-8")) == whole


def test_show_gives_a_part(known: Path, as_json: Json) -> None:
    def ids(*argv: str) -> set[str]:
        return {node["id"] for node in as_json("graph", "show", *argv)["nodes"]}

    assert ids("--around", "node:redis") == {"redis", "session-store"}
    assert ids("--around", "redis", "--depth", "0") == {"redis"}
    assert "session-store" not in ids("--task", "T-1")
    assert ids("--tag", "web", "--depth", "0") == {"T-1#p1"}
    assert ids("--type", "datastore", "--type", "component") == {"redis", "session-store"}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("graph", "show", "--output", "x"), "--format"),
        (("graph", "show", "--format", "dot", "--json"), "different formats"),
        (("graph", "show", "--type", "poem"), "is not one of"),
        (("graph", "near"), "NODE"),
        (("knowledge", "add"), "name an ID"),
        (("knowledge", "add", "x"), "--type and --summary"),
        (("knowledge", "add", "x", "--edge", "uses"), "RELATION:TARGET"),
        (("knowledge", "add", "x", "--type", "rule", "--set", "owner"), "NAME=VALUE"),
        (("knowledge", "add", "x", "--file", "g.dot"), "not both"),
    ],
)
def test_misuse_is_2(known: Path, cli: Run, argv: tuple[str, ...], said: str) -> None:
    answer = cli(*argv, code=2)
    assert said in answer.err + answer.out


@pytest.mark.promise("P-7")
def test_wrong_knowledge_is_refused_with_every_reason(known: Path, cli: Run) -> None:
    err = cli(
        *("knowledge", "add", "task:T-9", "--type", "rule", "--summary", "x" * 101),
        *("--tag", "Not OK", "--edge", "likes:nobody"),
        code=1,
    ).err
    for path in ("id", "summary", "tags[0]", "priority"):
        assert f"  - nodes[0].{path}: " in err
    assert "  - edges[0].relation: " in err
    assert "  - edges[0].target: " in err
    cli("knowledge", "show", "nobody", code=1)


def test_the_same_again_writes_nothing_and_other_words_are_reported(known: Path, cli: Run) -> None:
    add = ("knowledge", "add", "redis", "--type", "datastore", *BY)
    assert "was recorded already" in cli(*add, "--summary", "Redis 7").out
    out = cli(*add, "--summary", "Valkey 8", "--set", "owner=ops").out
    assert out.endswith("  summary  Redis 7 -> Valkey 8\n  owner    - -> ops\n")
    assert "owner  ops" in cli("knowledge", "show", "redis").out


def test_of_a_known_node_all_that_is_not_given_stays(known: Path, cli: Run, as_json: Json) -> None:
    before = as_json("knowledge", "show", "session-store")
    found = as_json("knowledge", "add", "node:session-store", "--tag", "web", *BY)
    assert found["changes"] == {"tags": {"old": ["auth"], "new": ["auth", "web"]}}
    cli("knowledge", "add", "session-store", "--summary", "Sessions", "--set", "level=", *BY)
    assert as_json("knowledge", "show", "session-store") == {
        **before,
        "summary": "Sessions",
        "tags": ["auth", "web"],
        "attributes": {"description": "For an hour"},
    }
    whole = ("--type", "insight", "--summary", "Gone", "--replace", *BY)
    assert "description  For an hour -> -\n" in cli("knowledge", "add", "session-store", *whole).out
    now = as_json("knowledge", "show", "session-store")
    assert (now["type"], "tags" in now, "attributes" in now) == ("insight", False, False)
    assert "nodes[0].type" in cli("knowledge", "add", "new", "--summary", "x", code=1).err
    assert "not both" in cli("knowledge", "add", "--file", "x", "--replace", code=2).err


def test_the_word_that_an_edge_came_with_is_shown(known: Path, cli: Run) -> None:
    graph = {
        "nodes": [{"id": "ann", "type": "insight", "summary": "Ann"}],
        "edges": [
            {
                "source": "ann",
                "relation": "relates_to",
                "target": "redis",
                "attributes": {"name": "owns"},
            }
        ],
    }
    (known / "more.json").write_text(json.dumps(graph), "utf-8")
    cli("knowledge", "add", "--file", "more.json", *BY)
    arrow = "ann -> relates_to (owns) -> redis\n"
    assert arrow in cli("knowledge", "show", "ann").out
    assert arrow in cli("graph", "near", "ann").out
    assert "redis <- relates_to (owns) <- ann\n" in cli("graph", "near", "redis").out
    assert arrow in cli("graph", "show").out
    assert ">relates_to (owns)<" in cli("graph", "show", "--format", "svg").out
    assert "relates#95;to #40;owns#41;" in cli("graph", "show", "--format", "mermaid").out


def test_a_picture_says_what_it_shows(known: Path, cli: Run) -> None:
    drawn = cli("graph", "show", "--task", "T-1", "--depth", "2", "--format", "svg").out
    assert '<title id="title">Knowledge graph: --task T-1 --depth 2</title>' in drawn
    assert '<title id="title">What is known</title>' in cli("graph", "show", "--format", "svg").out


@pytest.mark.parametrize("argv", [("graph", "near"), ("knowledge", "show")])
def test_a_name_without_its_kind_is_hinted_at(known: Path, cli: Run, argv: tuple[str, ...]) -> None:
    assert "Did you mean task:T-1?" in cli(*argv, "T-1", code=1).err
    assert "Did you mean agent:planner?" in cli(*argv, "planner", code=1).err
    assert "Name an item" in cli(*argv, "nobody", code=1).err


def test_tags_are_cut_and_the_most_used_come_first(known: Path, cli: Run, as_json: Json) -> None:
    for number in range(6):
        cli(
            *("knowledge", "add", f"part-{number}", "--type", "component"),
            *("--summary", "A part", "--tag", "parts", *BY),
        )
    out = cli("graph", "tags", "--limit", "1").out.splitlines()
    assert out[1].split() == [
        *("parts", "6", "part-0,", "part-1,", "part-2,", "part-3,", "part-4"),
        *("and", "1", "more"),
    ]
    assert out[2].endswith(" more tags (--limit)")
    assert next(iter(as_json("graph", "tags"))) == "parts"
    assert len(as_json("graph", "tags")["parts"]) == 6
    assert len(as_json("graph", "tags", "--limit", "2")) == 2


@pytest.mark.parametrize(
    ("argv", "defaults"),
    [
        (("recall",), ["5"]),
        (("journal",), ["200"]),
        (("audit",), ["20"]),
        (("graph", "near"), ["1", "both"]),
        (("graph", "tagged"), ["10"]),
        (("graph", "tags"), ["50"]),
        (("knowledge", "pack"), ["20", "1", "1500", "dot"]),
    ],
)
def test_the_help_names_defaults(
    known: Path, cli: Run, argv: tuple[str, ...], defaults: list[str]
) -> None:
    told = " ".join(cli(*argv, "--help", code=0).out.split())
    for default in defaults:
        assert re.search(rf"default: {default}\b", told), default


def test_forget_takes_an_edge_or_a_node(known: Path, cli: Run, as_json: Json) -> None:
    out = cli("knowledge", "forget", "session-store", "--edge", "uses:redis", *BY).out
    assert out.endswith("  forgotten: session-store -> uses -> redis\n")
    edges = as_json("knowledge", "show", "session-store")["edges"]
    assert [edge["relation"] for edge in edges] == ["must_follow"]
    assert "there is no edge" in (
        cli("knowledge", "forget", "session-store", "--edge", "uses:redis", code=1).err
    )
    gone = as_json("knowledge", "forget", "session-store", *BY)["forgotten_edges"]
    assert [edge["target"] for edge in gone] == ["T-1#d1"]
    cli("knowledge", "show", "session-store", code=1)
    assert "unknown_node" in cli("knowledge", "forget", "session-store", code=1).err
    told = [entry["summary"] for entry in as_json("log", "workspace")]
    assert told[:3] == [
        "without session-store",
        "without session-store -> uses -> redis",
        "session-store: Keeps sessions and 2 more",
    ]


@pytest.mark.promise("S4-30")
def test_a_file_brings_nodes_and_edges_to_what_is_known(known: Path, cli: Run) -> None:
    (known / "more.dot").write_text(
        'digraph { "queue" [type="component", summary="Holds mail"];'
        ' "queue" -> "redis" [relation="uses"]; "queue" -> "task:T-1" [relation="relates_to"]; }',
        "utf-8",
    )
    cli("knowledge", "add", "--file", "more.dot", "--task", "T-1", *BY)
    out = cli("knowledge", "show", "queue").out
    assert "queue -> uses -> redis" in out
    assert "queue -> relates_to -> task:T-1" in out
    (known / "bad.json").write_text('{"nodes": [{"id": "a"}], "edges": []}', "utf-8")
    assert "nodes[0]" in cli("knowledge", "add", "--file", "bad.json", code=1).err
    (known / "bytes").write_bytes(b"\xff")
    assert "invalid_utf8" in cli("knowledge", "add", "--file", "bytes", code=1).err


@pytest.mark.promise("S4-29")
def test_sync_goes_both_ways(known: Path, cli: Run, as_json: Json) -> None:
    assert "2 nodes, 2 edges" in cli("knowledge", "sync", *BY).out
    file = known / "knowledge.dot"
    assert cli("knowledge", "sync", *BY).out.startswith("nothing changed, ")
    file.write_text(file.read_text("utf-8").replace("Redis 7", "Redis 8"), "utf-8")
    found = as_json("knowledge", "sync", *BY)
    assert found["taken"] == ["redis"]
    assert (found["is_changed"], found["is_graph_changed"]) == (False, True)
    assert cli("knowledge", "show", "redis").out.startswith("redis  Redis 8\n")
    edge = '  "redis" -> "session-store" [relation="relates_to"];\n}'
    file.write_text(file.read_text("utf-8").replace("}", edge), "utf-8")
    out = cli("knowledge", "sync", *BY).out
    assert "graph updated, " in out
    cli("knowledge", "forget", "redis", "--edge", "relates_to:session-store", *BY)


def test_sync_makes_no_file_where_nothing_is_written_down(
    project: Path, cli: Run, as_json: Json
) -> None:
    cli("task", "new", "T-1", "--title", "x", *BY)
    assert cli("knowledge", "sync", *BY).out.startswith("nothing to sync: ")
    assert as_json("knowledge", "sync", *BY)["nodes"] == 0
    assert not (project / "knowledge.dot").exists()


@pytest.mark.promise("S4-29")
def test_sync_says_with_1_that_someone_should_look(known: Path, cli: Run, as_json: Json) -> None:
    cli("knowledge", "sync", *BY)
    file = known / "knowledge.dot"
    file.write_text(file.read_text("utf-8").replace("Redis 7", "Redis 8"), "utf-8")
    cli("knowledge", "add", "redis", "--type", "datastore", "--summary", "Redis 9", *BY)
    out = cli("knowledge", "sync", *BY, code=1).out
    assert "[conflict]" in out
    assert "the old file is kept as " in out
    file.write_text("not a graph", "utf-8")
    found = as_json("knowledge", "sync", *BY, code=1)
    assert found["reports"][0]["code"] == "unreadable"
    assert file.read_text("utf-8").startswith("digraph")


@pytest.mark.promise("S4-31")
def test_a_pack_is_what_has_to_do_with_the_task(known: Path, cli: Run, as_json: Json) -> None:
    answer = cli("knowledge", "pack", "T-1")
    assert read_graph(answer.out)
    assert '"session-store"' in answer.out
    assert answer.err.rstrip().endswith(" tokens")
    small = as_json("knowledge", "pack", "T-1", "--nodes", "1")
    assert (len(small["nodes"]), small["left_out"] > 0) == (1, True)
    assert small["terms"][0] in ("session", "store")
    tight = as_json("knowledge", "pack", "T-1", "--budget", "60", "--counter", "chars4")
    assert tight["tokens"] <= 60
    assert read_graph(cli("knowledge", "pack", "T-1", "--format", "json").out)
    assert "T-9" in cli("knowledge", "pack", "T-9", code=1).err


def test_what_was_written_down_is_found(known: Path, as_json: Json) -> None:
    found = as_json("recall", "keeps sessions", "--words", "--kind", "knowledge", "--limit", "1")
    assert found["results"][0]["address"] == "node:session-store"


@pytest.mark.promise("S3-23", "S3-24")
def test_what_a_handoff_found_hangs_on_its_task(known: Path, cli: Run, as_json: Json) -> None:
    (known / "handoff.yaml").write_text(
        "task: T-1\nfrom_agent: planner\nto_agent: coder\noutcome: completed\n"
        "patterns_discovered:\n  - {pattern: retry with jitter, location: src/net.py,"
        " applies_to: [network]}\n"
        "gotchas:\n  - {issue: the proxy drops headers, discovered_in: staging,"
        " mitigation: repeat them, severity: high}\n",
        "utf-8",
    )
    cli("handoff", "handoff.yaml")
    pattern, gotcha = (as_json("knowledge", "show", name) for name in ("T-1#p2", "T-1#g1"))
    assert (pattern["type"], pattern["tags"]) == ("pattern", ["network"])
    assert (gotcha["type"], gotcha["attributes"]["severity"]) == ("gotcha", "high")
    for node in (pattern, gotcha):
        link = {"source": node["id"], "relation": "discovered_in", "target": "task:T-1"}
        assert link in node["edges"]


@pytest.mark.promise("S3-38")
@pytest.mark.parametrize("form", ["svg", "mermaid"])
def test_a_picture_has_what_it_was_asked_for_and_the_nearest(
    project: Path, cli: Run, form: str
) -> None:
    """A hundred others are as near to the hub, and better sorted."""
    nodes = [{"id": "hub", "type": "component", "summary": "Hub"}]
    names = [f"leaf{number:03}" for number in range(100)]
    nodes += [{"id": name, "type": "component", "summary": f"No {name}."} for name in names]
    edges = [{"source": name, "relation": "uses", "target": "hub"} for name in names]
    (project / "hub.json").write_text(json.dumps({"nodes": nodes, "edges": edges}))
    cli("knowledge", "add", "--file", "hub.json", *BY)
    shown = cli("graph", "show", "--around", "leaf099", "--depth", "2", "--format", form).out
    for name in ("hub", "leaf099", "leaf000"):
        assert re.search(rf"\b{name}\b", shown)
    assert "leaf098" not in shown
    assert "shown are the nearest" in shown
    best = cli("graph", "show", "--format", form).out
    assert "leaf099" not in best
    assert "shown are the best connected" in best


@pytest.mark.promise("S3-38")
def test_a_long_chain_is_folded_into_a_picture_that_fits_a_screen(project: Path, cli: Run) -> None:
    names = [f"step{number:03}" for number in range(300)]
    nodes = [{"id": name, "type": "component", "summary": name} for name in names]
    edges = [
        {"source": later, "relation": "supersedes", "target": name}
        for name, later in pairwise(names)
    ]
    (project / "chain.json").write_text(json.dumps({"nodes": nodes, "edges": edges}))
    cli("knowledge", "add", "--file", "chain.json", *BY)
    text = cli("graph", "show", "--around", "step150", "--depth", "299", "--format", "svg").out
    picture = ElementTree.fromstring(text)
    assert float(picture.attrib["width"]) <= 2_500
    assert float(picture.attrib["height"]) <= 1_500
    space = "{http://www.w3.org/2000/svg}"
    shown = {group.findtext(f"{space}title") for group in picture.iter(f"{space}g")} - {None}
    assert shown == set(names[120:180])
    assert len(re.findall(r'<path class="line"', text)) == 59


def test_sync_stays_in_the_project_unless_an_absolute_path_says_otherwise(
    known: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "leads out of the project" in cli("knowledge", "sync", "../x.dot", *BY, code=1).err
    assert not (known.parent / "x.dot").exists()
    below = known / "docs" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    cli("knowledge", "sync", "../x.dot", *BY)
    assert '"redis"' in (known / "docs" / "x.dot").read_text()
    assert "leads out" in cli("knowledge", "sync", "../../../x.dot", *BY, code=1).err
    assert not (known.parent / "x.dot").exists()
    cli("knowledge", "sync", str(known.parent / "x.dot"), *BY)
    assert (known.parent / "x.dot").exists()


@pytest.mark.promise("S4-30")
@pytest.mark.parametrize("form", ["json", "dot"])
def test_what_graph_show_writes_can_be_added_again(
    known: Path, cli: Run, as_json: Json, form: str
) -> None:
    """It holds items, tasks, agents and files, and which decision supersedes which."""
    cli(
        "decide",
        "Sessions in a table",
        "--why",
        "x",
        "--task",
        "T-1",
        "--supersedes",
        "T-1#d1",
        *BY,
    )
    before = as_json("graph", "show")
    derived = [node for node in before["nodes"] if node["id"] not in ("redis", "session-store")]
    cli("graph", "show", "--format", form, "--output", "whole")
    out = cli("knowledge", "add", "--file", "whole", *BY).out
    assert out.startswith("was recorded already")
    assert f"records say the same: {len(derived)} nodes and 1 edge\n" in out
    cli("knowledge", "forget", "redis", *BY)
    told = as_json("knowledge", "add", "--file", "whole", *BY)
    assert told["left_out"] == {"nodes": len(derived), "edges": 1}
    assert as_json("graph", "show") == before
    cli("graph", "show", "--format", form, "--type", "decision", "--output", "decisions")
    said = "nothing to write; left out, since records say the same: 2 nodes and 1 edge\n"
    assert cli("knowledge", "add", "--file", "decisions", *BY).out == said
    whole = known / "whole"
    whole.write_text(whole.read_text().replace("Sessions in Redis", "Sessions in Memcached"))
    assert "'T-1#d1' is reserved" in cli("knowledge", "add", "--file", "whole", *BY, code=1).err


def test_a_file_of_the_graph_may_be_as_large_as_one_that_is_synced(project: Path, cli: Run) -> None:
    nodes = [
        {"id": f"n{i:05}", "type": "component", "summary": f"Node {i}", "description": "x" * 300}
        for i in range(4_000)
    ]
    text = json.dumps({"nodes": nodes, "edges": []})
    assert len(text) > 1_200_000
    (project / "large.json").write_text(text)
    cli("knowledge", "add", "--file", "large.json", *BY)
    assert "4000 nodes" in cli("knowledge", "sync", "k.json", *BY).out
    (project / "huge.json").write_text(text + " " * 8_388_608)
    assert "at most 8,388,608" in cli("knowledge", "add", "--file", "huge.json", *BY, code=1).err


@pytest.mark.promise("S0-13")
@pytest.mark.parametrize("way", ["decide", "handoff"])
def test_a_decision_leads_to_whatever_its_artifacts_name(
    project: Path, cli: Run, as_json: Callable[..., Any], way: str
) -> None:
    """A task, a file, an agent, an item, a memory; what no relationship leads to is named."""
    cli("task", "new", "T-1", "--title", "One")
    cli("task", "new", "T-2", "--title", "Two")
    cli("decide", "First", "--why", "because", "--task", "T-2")
    names = ["task:T-2", "file:a.py", "b.py", "agent:ana", "T-2#d1", "mem:1", "node:x y"]
    if way == "decide":
        flags = [part for name in names for part in ("--artifact", name)]
        done = cli("decide", "Second", "--why", "because", "--task", "T-1", *flags)
    else:
        decision = {"summary": "Second", "rationale": "because", "artifacts": names}
        given = {"task": "T-1", "outcome": "completed", "decisions": [decision]}
        (project / "h.json").write_text(json.dumps(given), "utf-8")
        done = cli("handoff", "h.json", "--from", "ana")
    near = {row["node"] for row in as_json("graph", "near", "T-1#d1") if row["depth"] == 1}
    ends = {"task:T-2", "file:a.py", "file:b.py", "agent:ana", "T-2#d1", "memory:mem:1"}
    assert ends <= near
    said = done.out + done.err
    assert "'node:x y' is kept as text, without a relationship" in said
    assert said.count("without a relationship") == 1
    assert as_json("verify")["ok"]
