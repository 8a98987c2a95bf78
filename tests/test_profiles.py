"""Agents' profiles, whole and from one folder only, and the registry that may come with them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.history.profiles import MAX_BYTES, Profiles, Registry, Tool, load_registry, tools_text
from tests.sizes import example_count

if TYPE_CHECKING:
    from pathlib import Path

REGISTRY = """\
version: 1.0.0
tools:
  Read: {tier: 1, layer: L1, defer: false, tokenCost: 200, category: files}
  Bash: {tier: 1, layer: L1, tokens: 300}
  git: {tier: 2, layer: L2, defer: true, token_cost: 100, category: versions}
  search: {tier: 3, layer: L4, defer: yes, estimated_tokens: 500}
profiles:
  dev:
    always_loaded: [Read, git]
    frequently_used: [Bash]
    deferred: [search, Read]
  qa:
    always_loaded: [Read]
task_bindings:
  review: qa
  build: {executor: dev, required: [Bash]}
  write: {agent: dev}
  unbound: {required: [Read]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "agents"
    path.mkdir()
    return path


def put(folder: Path, name: str, text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    (folder / f"{name}.md").write_bytes(data)


@pytest.mark.promise("S2-8")
@pytest.mark.parametrize(
    "data",
    [
        b"# Dev\r\n\r\ntext\rmore\n\n",
        "\ufeff---\nname: dev\n---\nüñí 👍\u2028x".encode(),
        b"",
        b"---\nname: [broken\n---\nbody",
        b"no newline at the end",
        b"x" * MAX_BYTES,
    ],
)
def test_a_profile_is_the_whole_file_byte_for_byte(folder: Path, data: bytes) -> None:
    put(folder, "dev", data)
    profile = Profiles(str(folder.parent)).get("dev")
    assert profile is not None
    assert profile.text.encode() == data
    assert profile.path == str(folder / "dev.md")
    assert [p for p in profile.problems if p.level == "error"] == []


def test_the_first_usual_folder_counts(tmp_path: Path) -> None:
    assert Profiles(str(tmp_path)).names() == ()
    assert Profiles(str(tmp_path)).get("dev") is None
    for place in (".passdown/agents", ".claude/agents", "agents"):
        path = tmp_path / place
        path.mkdir(parents=True)
        put(path, "dev", place)
        profile = Profiles(str(tmp_path)).get("dev")
        assert profile is not None
        assert profile.text == place
    named = tmp_path / "elsewhere"
    named.mkdir()
    put(named, "qa", "Q")
    assert Profiles(str(tmp_path), "elsewhere").names() == ("qa",)
    assert Profiles(str(tmp_path), str(named)).names() == ("qa",)
    assert Profiles(str(tmp_path), "nowhere").names() == ()
    assert Profiles(str(tmp_path), "nul\0").names() == ()
    assert Profiles(str(tmp_path), "nowhere").get("dev") is None


def test_a_usual_folder_that_leads_out_is_passed_over(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    project = tmp_path / "project"
    outside.mkdir()
    project.mkdir()
    put(outside, "dev", "secret")
    (project / "agents").symlink_to(outside)
    assert Profiles(str(project)).get("dev") is None
    put_in = project / ".claude" / "agents"
    put_in.mkdir(parents=True)
    put(put_in, "dev", "own")
    profile = Profiles(str(project)).get("dev")
    assert profile is not None
    assert profile.text == "own"


def test_only_agents_have_profiles(folder: Path) -> None:
    for name in ("dev", "qa-lead", "README", "a b", ".hidden", "human", "nul"):
        put(folder, name, "x")
    (folder / "notes.txt").write_text("x")
    (folder / "sub.md").mkdir()
    (folder / "gone.md").symlink_to(folder / "nothing.md")
    (folder / "alias.md").symlink_to("dev.md")
    assert Profiles(str(folder.parent)).names() == ("alias", "dev", "qa-lead")


@pytest.mark.parametrize(
    "name",
    ["../dev", "/etc/passwd", "a/dev", "a\\dev", "..", ".", "", "dev\0", "dev.md/..", "x" * 300],
)
def test_a_name_cannot_lead_elsewhere(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder.parent, "dev", "outside")
    put(folder, "dev", "inside")
    profiles = Profiles(str(folder.parent))

    def touched(*_: Any, **__: Any) -> int:
        raise AssertionError("the disk was touched")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", touched)
        assert profiles.get(name) is None


def test_a_link_may_lead_to_a_neighbour_and_no_further(folder: Path) -> None:
    put(folder, "dev", "D")
    put(folder.parent, "secret", "S")
    (folder / "alias.md").symlink_to("dev.md")
    (folder / "out.md").symlink_to(folder.parent / "secret.md")
    (folder / "loop.md").symlink_to("loop.md")
    profiles = Profiles(str(folder.parent))
    alias = profiles.get("alias")
    assert alias is not None
    assert alias.text == "D"
    out = profiles.get("out")
    assert out is not None
    assert (out.text, out.problems[0].code) == ("", "path_escapes_root")
    loop = profiles.get("loop")
    assert loop is None or (loop.text == "" and loop.problems)


def test_what_is_no_readable_text_says_so(folder: Path) -> None:
    put(folder, "large", b"x" * (MAX_BYTES + 1))
    put(folder, "latin", "Grüße".encode("latin-1"))
    (folder / "folder.md").mkdir()
    os.mkfifo(folder / "pipe.md")
    profiles = Profiles(str(folder.parent))
    for name, code in {
        "large": "too_large",
        "latin": "invalid_utf8",
        "folder": "not_regular_file",
        "pipe": "not_regular_file",
    }.items():
        profile = profiles.get(name)
        assert profile is not None
        assert profile.text == ""
        assert [p.code for p in profile.problems] == [code]


def test_front_matter_declares_needs(folder: Path) -> None:
    put(
        folder,
        "qa",
        "---\nname: qa\ndescription: tests\nneeds:\n  files: [source, 'tests/**']\n"
        "  decisions: storage\n  plan: true\n---\n# QA\n",
    )
    profile = Profiles(str(folder.parent)).get("qa")
    assert profile is not None
    assert profile.needs == {
        "files": ["source", "tests/**"],
        "decisions": ["storage"],
        "gates": ["plan"],
    }
    assert profile.problems == ()


@pytest.mark.parametrize(
    ("front", "code"),
    [
        ("needs: [", "invalid_yaml"),
        ("needs: 3", "wrong_type"),
        ("needs: {colours: [red]}", "unknown_setting"),
        ("a: &x 1\nb: *x", "yaml_alias"),
        ("- a", "wrong_type"),
        ("name: someone", "name_differs"),
    ],
)
def test_broken_front_matter_is_a_warning(folder: Path, front: str, code: str) -> None:
    text = f"---\n{front}\n---\nbody\n"
    put(folder, "dev", text)
    profile = Profiles(str(folder.parent)).get("dev")
    assert profile is not None
    assert profile.text == text
    assert profile.needs == {}
    assert [(p.code, p.level) for p in profile.problems] == [(code, "warning")]


def test_a_rule_in_the_text_is_no_front_matter(folder: Path) -> None:
    for text in ("---\nneeds: {files: [a]}\n", "# Dev\n---\nneeds: {files: [a]}\n---\n"):
        put(folder, "dev", text)
        profile = Profiles(str(folder.parent)).get("dev")
        assert profile is not None
        assert (profile.needs, profile.problems) == ({}, ())


# The registry


def written(tmp_path: Path, text: str | bytes) -> Registry:
    path = tmp_path / "registry.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_registry(str(path))


@pytest.mark.promise("S2-23")
def test_an_agent_gets_its_tools_from_the_registry(tmp_path: Path) -> None:
    registry = written(tmp_path, REGISTRY)
    assert registry.problems == ()
    assert registry.tools_for("dev") == (
        Tool("Read", 1, "L1", False, 200, "files"),
        Tool("git", 2, "L2", False, 100, "versions"),
        Tool("Bash", 1, "L1", False, 300, ""),
        Tool("search", 3, "L4", True, 500, ""),
    )
    assert [tool.name for tool in registry.tools_for("qa")] == ["Read"]
    assert [tool.name for tool in registry.tools_for("stranger")] == ["Read", "Bash"]
    assert tools_text(registry.tools_for("dev")) == "Tools: Read, git, Bash\nOn request: search"
    assert tools_text(()) == ""


@pytest.mark.promise("S2-23")
def test_a_profile_comes_with_its_tools(folder: Path) -> None:
    put(folder, "qa", "Q")
    (folder.parent / "tools.yaml").write_text(REGISTRY)
    profile = Profiles(str(folder.parent), registry="tools.yaml").get("qa")
    assert profile is not None
    assert [tool.name for tool in profile.tools] == ["Read"]
    assert profile.problems == ()


@pytest.mark.promise("S2-23")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("tools: [", "invalid_yaml"),
        (b"\xff\xfe", "invalid_utf8"),
        ("tools: &a {}\nprofiles: *a", "yaml_alias"),
        ("just words", "wrong_type"),
        ("tools: words", "wrong_type"),
        ("tools: {Read: [1]}", "wrong_type"),
        ("tools: {Read: {tier: 9}}", "out_of_range"),
        ("tools: {Read: {tier: one}}", "wrong_type"),
        ("tools: {Read: {defer: perhaps}}", "wrong_type"),
        ("tools: {Read: {layer: [L1]}}", "wrong_type"),
        ("tools: [{tier: 1}]", "wrong_type"),
        ("profiles: {qa: {always_loaded: [Missing]}}", "unknown_tool"),
        ("profiles: {qa: {always_loaded: Read}}", "wrong_type"),
        ("profiles: {qa: {always_loaded: [[Read]]}}", "wrong_type"),
        ("profiles: {qa: words}", "wrong_type"),
        ("task_bindings: {review: [qa]}", "wrong_type"),
    ],
)
def test_a_broken_registry_is_done_without(folder: Path, text: str | bytes, code: str) -> None:
    put(folder, "qa", "Q")
    data = text if isinstance(text, bytes) else text.encode()
    (folder.parent / "tools.yaml").write_bytes(data)
    profile = Profiles(str(folder.parent), registry="tools.yaml").get("qa")
    assert profile is not None
    assert profile.text == "Q"
    assert [(p.code, p.level) for p in profile.problems] == [(code, "warning")]
    assert "tools.yaml" in profile.problems[0].line()


@pytest.mark.promise("S2-23")
def test_a_missing_registry_is_done_without(folder: Path) -> None:
    put(folder, "qa", "Q")
    for registry in ("nowhere.yaml", "agents", "a\0b"):
        profile = Profiles(str(folder.parent), registry=registry).get("qa")
        assert profile is not None
        assert (profile.text, profile.tools) == ("Q", ())
        assert [p.level for p in profile.problems] == ["warning"]
    assert load_registry("") == Registry()
    profile = Profiles(str(folder.parent), registry="reg.yaml").get("qa")
    assert profile is not None
    assert profile.problems[0].line().startswith("registry: reg.yaml isn't there")


def test_a_fault_in_the_front_matter_names_its_file(folder: Path) -> None:
    put(folder, "qa", "---\nname: other\nneeds: {colours: [red]}\n---\nQ")
    profile = Profiles(str(folder.parent)).get("qa")
    assert profile is not None
    paths = [problem.path.replace(os.sep, "/") for problem in profile.problems]
    assert paths == ["agents/qa.md: needs.colours", "agents/qa.md: name"]


def test_half_a_registry_gives_its_good_half(tmp_path: Path) -> None:
    registry = written(
        tmp_path,
        "tools: [Read, {name: Bash, tier: 2}, 3: x]\n"
        "profiles: {dev: {deferred: [Bash, Nope]}, qa: }\n",
    )
    assert [t.name for t in registry.tools_for("dev")] == ["Bash"]
    assert registry.tools_for("dev")[0].defer is True
    assert [t.name for t in registry.tools_for("qa")] == ["Read"]
    assert {p.level for p in registry.problems} == {"warning"}


trees = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "tools",
                    "profiles",
                    "task_bindings",
                    "dev",
                    "Read",
                    "tier",
                    "defer",
                    "tokens",
                    "name",
                    "always_loaded",
                    "executor",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.promise("S2-23")
@settings(max_examples=example_count(20))
@given(tree=trees)
def test_no_registry_raises(tree: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "registry.yaml"
    path.write_text(yaml.safe_dump(tree, allow_unicode=True), "utf-8")
    registry = load_registry(str(path))
    assert all(isinstance(tool.tier, int) for tool in registry.tools_for("dev"))
    assert isinstance(tools_text(registry.tools_for("dev")), str)
    assert isinstance(registry.executors.get("dev", ""), str)
    assert {p.level for p in registry.problems} <= {"warning"}
