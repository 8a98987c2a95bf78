"""Hosts' files: what is put in is exactly taken out, and nothing else is touched."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passdown.errors import InvalidInput, StoreUnavailable
from passdown.hosts import setup as applying
from passdown.hosts.definitions import HOSTS
from passdown.hosts.host_entries import (
    HOOK,
    MARKDOWN_MARKS,
    EditedText,
    HostEntry,
    JsonError,
    add_entry,
    drop_node,
    drop_region,
    find_node,
    find_region,
    has_entry,
    parse_json,
    put_element,
    put_member,
    put_region,
    remove_cuts,
    remove_entry,
)
from passdown.hosts.setup import SetupState, plan_setup
from tests.interfaces.host_trees import ALL, install, odd_json, odd_project, remove, tree
from tests.sizes import example_count

if TYPE_CHECKING:
    from pathlib import Path

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=4)


@pytest.mark.parametrize("seed", range(24))
def test_an_odd_project_is_restored_to_the_byte(tmp_path: Path, seed: int) -> None:
    """Formatting, comments, line ends, marks, order, missing files and folders: all as before."""
    odd_project(tmp_path, seed)
    before = tree(tmp_path)
    assert install(tmp_path) > 0
    after = tree(tmp_path)
    assert install(tmp_path) == 0
    assert tree(tmp_path) == after
    remove(tmp_path)
    assert tree(tmp_path) == before
    assert not (tmp_path / applying.STATE_FILE).exists()


@pytest.mark.parametrize("seed", range(24))
def test_what_was_there_still_means_the_same(tmp_path: Path, seed: int) -> None:
    """Every setting of an odd project is still there, in its order, and ours beside it."""
    odd_project(tmp_path, seed)
    before = tree(tmp_path)
    install(tmp_path)
    for name, (kind, data) in before.items():
        if kind == "file" and isinstance(data, bytes) and name.endswith((".json", ".jsonc")):
            now = _value((tmp_path / name).read_bytes())
            assert _contains(now, _value(data)), name
    servers = tomllib.loads((tmp_path / ".codex/config.toml").read_bytes().decode("utf-8-sig"))
    assert servers["mcp_servers"]["passdown"] == {"command": "passdown", "args": ["mcp"]}


def _value(data: bytes) -> Any:
    node = parse_json(data.decode())
    return {} if node is None else node.value


def _contains(now: Any, before: Any) -> bool:
    if isinstance(before, dict):
        members = cast("dict[str, Any]", before)
        kept = [key for key in now if key in members]
        return kept == list(members) and all(_contains(now[k], v) for k, v in members.items())
    if isinstance(before, list):
        return now[: len(cast("list[Any]", before))] == before
    return now == before


@settings(deadline=None, max_examples=example_count(30), suppress_health_check=SLOW)
@given(value=OBJECTS, seed=st.integers(0, 2**32))
def test_any_object_takes_a_member_and_an_element_and_gives_them_back(
    value: dict[str, Any], seed: int
) -> None:
    """Whatever stands in a file, in whatever style: cut out of it, ours leaves no trace."""
    value = {key: each for key, each in value.items() if key not in ("hooks", "servers")}
    text = odd_json(random.Random(seed), value).decode()
    draft = EditedText(text)
    put_element(draft, ("hooks", "Stop"), {"command": "a"})
    put_element(draft, ("hooks", "Stop"), {"command": "b"})
    put_member(draft, ("servers",), "ours", {"x": [1, {"y": 2}]})
    node = parse_json(draft.text)
    assert node is not None
    assert node.value == {
        **value,
        "hooks": {"Stop": [{"command": "a"}, {"command": "b"}]},
        "servers": {"ours": {"x": [1, {"y": 2}]}},
    }
    assert remove_cuts(draft.text, draft.cuts) == text
    taken = drop_node(drop_node(draft.text, ("servers", "ours")), ("hooks", "Stop", 0))
    assert find_node(taken, ("hooks", "Stop")) is not None
    assert _value(drop_node(taken, ("hooks", "Stop", 0)).encode()) == value


@settings(deadline=None, max_examples=example_count(40))
@given(text=st.text(alphabet="ab\n#", max_size=30), crlf=st.booleans())
def test_a_region_is_taken_out_exactly_even_by_who_never_put_it_in(text: str, crlf: bool) -> None:
    """How the text ended before can be told from the region alone."""
    text = text.replace("\n", "\r\n") if crlf else text
    draft = EditedText(text)
    put_region(draft, MARKDOWN_MARKS, "one\ntwo")
    region = find_region(draft.text, MARKDOWN_MARKS)
    assert region is not None
    assert drop_region(draft.text, region) == text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('{"a": 1,, "b": 2}', "line 1, column 9"),
        ('{\n  "a": \n}', "line 3, column 1"),
        ("[]", "no object"),
        ('{"hooks": []}', "hooks is not an object"),
        ('{"hooks": {"SessionStart": {}}}', "is not a list"),
        ('{"hooks": {}, "hooks": {}}', "occurs twice"),
        ('{"a": "\ttab"}', "no value is here"),
        ("{" * 5000, "a name in quotes"),
        ('{"a":' * 200 + "1" + "}" * 200, "nested too deeply"),
        ("{} x", "something follows"),
        ("{/*", "isn't closed"),
    ],
)
def test_a_file_that_cannot_be_edited_is_named_and_nothing_is_written(
    tmp_path: Path, data: str, said: str
) -> None:
    """The reason has line and column; the other hosts' files aren't written either."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text(data, "utf-8")
    before = tree(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        install(tmp_path)
    assert any(said in problem.message for problem in caught.value.problems), str(caught.value)
    assert tree(tmp_path) == before
    assert not (tmp_path / ".passdown").exists()


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{", "utf-8")
    (tmp_path / ".codex").write_text("a file", "utf-8")
    (tmp_path / ".opencode/plugins").mkdir(parents=True)
    (tmp_path / ".opencode/plugins/passdown.js").write_text("mine()", "utf-8")
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini/settings.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InvalidInput) as caught:
        install(tmp_path)
    codes = {problem.path: problem.code for problem in caught.value.problems}
    assert codes == {
        ".mcp.json": "invalid_file",
        ".codex/hooks.json": "not_a_folder",
        ".codex/config.toml": "not_a_folder",
        ".gemini/settings.json": "not_utf8",
        ".opencode/plugins/passdown.js": "taken",
    }


def test_links_stay_links_and_never_lead_out(tmp_path: Path) -> None:
    """A link inside the project is followed; one that leads out of it or nowhere is refused."""
    root, outside = tmp_path / "project", tmp_path / "dotfiles"
    (root / "docs").mkdir(parents=True)
    outside.mkdir()
    (root / "docs/agents.md").write_text("# Agents", "utf-8")
    (root / "AGENTS.md").symlink_to("docs/agents.md")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    before = tree(root)
    install(root)
    assert (root / "AGENTS.md").is_symlink()
    assert (root / "docs/agents.md").read_text("utf-8").count("passdown:begin") == 1
    remove(root)
    assert tree(root) == before

    (root / ".claude").symlink_to(outside)
    (root / ".mcp.json").symlink_to("gone.json")
    with pytest.raises(InvalidInput) as caught:
        install(root)
    codes = [(problem.path, problem.code) for problem in caught.value.problems]
    assert codes == [(".claude/settings.json", "linked_out"), (".mcp.json", "broken_link")]
    assert list(outside.iterdir()) == []


@pytest.mark.promise("H-14")
def test_what_a_repository_says_was_made_is_removed_only_below_it(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / ".passdown").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    memory: dict[str, Any] = {"schema": 1, "hosts": ["claude"], "files": {}}
    memory["folders"] = ["../outside", str(outside), "link"]
    (root / "link").symlink_to(outside)
    (root / applying.STATE_FILE).write_text(json.dumps(memory), "utf-8")
    install(root)
    remove(root)
    assert outside.is_dir()


def test_rights_are_kept(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text("{}", "utf-8")
    path.chmod(0o640)
    install(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("blocked", ["AGENTS.md", ".codex/config.toml", "opencode.json"])
def test_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocked: str) -> None:
    """A file that can't be written in the middle leaves everything as it was."""
    odd_project(tmp_path, 3)
    for folder in (".codex", ".claude"):
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "opencode.json").write_text("{}", "utf-8")
    target = os.path.realpath(tmp_path / blocked)
    before, replace = tree(tmp_path), os.replace

    def full(source: str, path: str) -> None:
        if path == target:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        replace(source, path)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StoreUnavailable, match="everything is as it was"):
        install(tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("writes", [1, 2, 5, 9])
def test_a_kill_in_the_middle_is_undone_by_remove_and_mended_by_init(
    tmp_path: Path, writes: int
) -> None:
    """What is needed for the way back is on disk before the first file is."""
    odd_project(tmp_path, 5)
    before = tree(tmp_path)
    source = (
        "import os, sys\nfrom pathlib import Path\nfrom passdown.hosts import setup as applying\n"
        "put, left = applying._replace_file, [int(sys.argv[2])]\n"
        "def dying(*args):\n"
        "    put(*args)\n    left[0] -= 1\n    left[0] < 0 and os._exit(9)\n"
        "applying._replace_file = dying\n"
        "from tests.interfaces.host_trees import install\ninstall(Path(sys.argv[1]))\n"
    )
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    env = {**os.environ, "PYTHONPATH": f"{root}/src{os.pathsep}{root}"}
    command = [sys.executable, "-c", source, str(tmp_path), str(writes)]
    assert subprocess.run(command, env=env, check=False).returncode == 9
    copy = tmp_path.parent / f"{tmp_path.name}-copy"
    shutil.copytree(tmp_path, copy, symlinks=True)
    remove(copy)
    assert tree(copy) == before
    install(tmp_path)
    assert install(tmp_path) == 0
    remove(tmp_path)
    assert tree(tmp_path) == before


def test_what_is_changed_afterwards_stays(tmp_path: Path) -> None:
    """Edits of the user's own, around ours and inside our group, survive the removal."""
    path = tmp_path / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text('{\n  "model": "x"\n}\n', "utf-8")
    (tmp_path / "AGENTS.md").write_text("# Mine\n", "utf-8")
    install(tmp_path)
    settings = json.loads(path.read_text("utf-8"))
    settings["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say done"})
    settings["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 99
    settings["model"] = "y"
    path.write_text(json.dumps(settings), "utf-8")
    with (tmp_path / "AGENTS.md").open("a", encoding="utf-8") as file:
        file.write("\nMore of mine\n")
    assert install(tmp_path) == 0
    remove(tmp_path)
    kept = {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}
    assert json.loads(path.read_text("utf-8")) == {"model": "y", "hooks": kept}
    assert (tmp_path / "AGENTS.md").read_text("utf-8") == "# Mine\n\nMore of mine\n"
    assert not (tmp_path / ".mcp.json").exists()


def test_a_server_of_our_name_that_is_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    text = '{"mcpServers": {"passdown": {"command": "uvx", "args": ["passdown", "mcp"]}}}'
    (tmp_path / ".mcp.json").write_text(text, "utf-8")
    install(tmp_path, ["claude"])
    remove(tmp_path)
    assert (tmp_path / ".mcp.json").read_text("utf-8") == text


@pytest.mark.parametrize("seed", range(6))
def test_a_copy_that_remembers_nothing_is_cleaned_as_well(tmp_path: Path, seed: int) -> None:
    """In a clone, without what init remembered, every setting and every page is as it was."""
    dice = random.Random(seed)
    files: dict[str, dict[str, Any]] = {
        ".claude/settings.json": {"permissions": {"allow": [1, 2]}, "z": {}},
        ".codex/hooks.json": {"hooks": {"Stop": [{"hooks": []}]}},
    }
    for name, value in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = json.dumps(value, indent=dice.choice((2, 4, "\t")))
        (tmp_path / name).write_text(text + dice.choice(("", "\n")), "utf-8")
    (tmp_path / "AGENTS.md").write_text("# A" + dice.choice(("", "\n")), "utf-8")
    before = tree(tmp_path)
    install(tmp_path)
    (tmp_path / applying.STATE_FILE).unlink()
    assert install(tmp_path) == 0
    remove(tmp_path)
    assert tree(tmp_path) == before


def test_one_host_can_go_while_the_others_stay(tmp_path: Path) -> None:
    """The shared page keeps its block as long as a host reads it."""
    install(tmp_path, ["claude", "codex"])
    remove(tmp_path, ["codex"])
    assert not (tmp_path / ".codex").exists()
    assert "passdown:begin" in (tmp_path / "AGENTS.md").read_text("utf-8")
    assert plan_setup(str(tmp_path), SetupState(), add_hosts=["claude"], drop=()).changes == ()
    remove(tmp_path)
    assert tree(tmp_path) == {}


def test_an_old_block_is_replaced_where_it_stands_in_the_way(tmp_path: Path) -> None:
    page = "# A\n\n<!-- passdown:begin -->\nold words\n<!-- passdown:end -->\n"
    (tmp_path / "AGENTS.md").write_text(page, "utf-8")
    install(tmp_path, ["codex"])
    text = (tmp_path / "AGENTS.md").read_text("utf-8")
    assert "old words" not in text
    assert text.count("passdown:begin") == 1
    (tmp_path / "AGENTS.md").write_text(text.replace("<!-- passdown:end -->", ""), "utf-8")
    with pytest.raises(InvalidInput, match="no pair"):
        install(tmp_path, ["codex"])


@pytest.mark.parametrize(
    ("files", "page"),
    [
        ({"CLAUDE.md": "# C\n"}, "CLAUDE.md"),
        ({".claude/CLAUDE.md": "# C\n"}, ".claude/CLAUDE.md"),
        ({"CLAUDE.md": "see\n@AGENTS.md\n", "AGENTS.md": "# A\n"}, "AGENTS.md"),
    ],
)
def test_the_block_is_in_the_page_that_claude_reads(
    tmp_path: Path, files: dict[str, str], page: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    install(tmp_path, ["claude"])
    marked = [
        name for name, (kind, data) in tree(tmp_path).items() if b"passdown:begin" in _b(kind, data)
    ]
    assert marked == [page]


@pytest.mark.parametrize("page", ["", "# A\n", "# A"])
def test_claude_imports_the_page_that_other_hosts_read(tmp_path: Path, page: str) -> None:
    """It reads AGENTS.md by itself only in some versions, and only where there is no CLAUDE.md."""
    if page:
        (tmp_path / "AGENTS.md").write_text(page, "utf-8")
    before = tree(tmp_path)
    install(tmp_path, ["claude", "codex"])
    marked = "<!-- passdown:begin -->\n@AGENTS.md\n<!-- passdown:end -->\n"
    assert (tmp_path / "CLAUDE.md").read_text("utf-8") == marked
    assert "passdown:begin" in (tmp_path / "AGENTS.md").read_text("utf-8")
    assert install(tmp_path, ["claude", "codex"]) == 0
    (tmp_path / "CLAUDE.md").write_text(f"# Mine\n\n{marked}", "utf-8")
    assert install(tmp_path, ["claude"]) == 0, "it is still imported"
    (tmp_path / "CLAUDE.md").write_text(marked, "utf-8")
    remove(tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("passdown", "passdown hook claude stop"),
        ("/opt/my tools/passdown", "'/opt/my tools/passdown' hook claude stop"),
        (r"C:\Users\me\passdown.exe", "C:/Users/me/passdown.exe hook claude stop"),
        (r"C:\My Tools\passdown.exe", '"C:/My Tools/passdown.exe" hook claude stop'),
    ],
)
def test_a_program_is_quoted_as_the_shells_of_its_system_take_it(
    program: str, command: str
) -> None:
    """On Windows hosts run hooks with Git Bash or cmd: both take slashes and double quotes."""
    entry = HostEntry(HOOK, HOSTS["claude"], "stop")
    draft = EditedText("{}\r\n")
    add_entry(draft, entry._replace(program=program))
    assert json.loads(draft.text)["hooks"]["Stop"][0]["hooks"][0]["command"] == command
    assert draft.text.count("\n") == draft.text.count("\r\n")
    assert has_entry(draft.text, entry)
    assert json.loads(remove_entry(draft.text, entry)) == {}


def _b(kind: str, data: bytes | str) -> bytes:
    return data if kind == "file" and isinstance(data, bytes) else b""


def test_gemini_is_served_where_it_looks(tmp_path: Path) -> None:
    path = tmp_path / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text('{"context": {"fileName": ["AGENTS.md"]}}', "utf-8")
    install(tmp_path, ["gemini"])
    assert not (tmp_path / "GEMINI.md").exists()
    hooks = json.loads(path.read_text("utf-8"))["hooks"]
    assert hooks["AfterAgent"][0]["hooks"][0]["timeout"] == 10_000, "milliseconds"


def test_commands_are_what_they_have_always_been(tmp_path: Path) -> None:
    """A host that remembers a trusted command must never see another one."""
    events = {name: sorted(host.events) for name, host in HOSTS.items()}
    most = ["pre-compact", "prompt-submit", "session-end", "session-start", "stop"]
    life = sorted([*most, "subagent-start", "subagent-stop"])
    assert events == {
        "claude": life,
        "codex": life,
        "gemini": most,
        "cursor": sorted([*most, "subagent-stop"]),
        "opencode": ["pre-compact", "prompt-submit", "session-start", "stop"],
    }
    install(tmp_path)
    written = "".join(
        data.decode() for _, data in tree(tmp_path).values() if isinstance(data, bytes)
    )
    for name in ("claude", "codex", "gemini", "cursor"):
        for event in events[name]:
            assert f'"command": "passdown hook {name} {event}"' in written
    assert set(json.loads((tmp_path / ".codex/hooks.json").read_text("utf-8"))) == {"hooks"}


def test_nothing_is_written_where_a_sandbox_forbids_it_at_run_time() -> None:
    """What changes while agents work lies in `.passdown`, never in `.git`, `.codex`, `.agents`."""
    assert applying.STATE_FILE.startswith(".passdown")


def test_a_page_that_is_not_ours_may_hold_anything(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\xff\xfe latin\xe9")
    before = tree(tmp_path)
    install(tmp_path, ["codex"])
    remove(tmp_path)
    assert tree(tmp_path) == before


def test_a_fault_has_its_place() -> None:
    with pytest.raises(JsonError, match="line 2, column 3"):
        parse_json('{"a": 1,\n  b: 2}')


def test_every_host_is_in_the_table() -> None:
    assert ALL == ("claude", "codex", "gemini", "cursor", "opencode")
