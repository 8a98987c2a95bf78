"""`passdown init --host` and `passdown plugin` as a person uses them; what the doctor finds."""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from passdown.hosts.definitions import HOSTS
from passdown.hosts.host_entries import PLUGIN_HOSTS, plugin_files, template
from tests.interfaces.host_trees import install, odd_project, tree
from tests.interfaces.hosting import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interfaces.running import Run

ALL = ",".join(HOSTS)


@pytest.mark.promise("H-1")
def test_one_command_sets_every_host_up_and_one_undoes_it(project: Path, cli: Run) -> None:
    odd_project(project, 7)
    before = tree(project)
    shown = cli("init", "--host", ALL, "--print").out
    assert tree(project) == before, "--print writes nothing"
    assert "passdown hook claude session-start" in shown
    assert cli("init", "--host", ALL, "--check", code=1).out.count("passdown init") == 1
    assert tree(project) == before, "--check writes nothing"
    done = cli("init", "--host", ALL).out
    assert "you trust" in done, "what is left for the user to do is said"
    assert cli("init", "--check").out == "everything is up to date\n"
    assert "everything is up to date" in cli("init", "--host", ALL).out
    cli("init", "--remove")
    assert tree(project) == before
    assert "no host setup found; nothing to remove" in cli("init", "--remove").out
    assert (project / ".passdown/ledger.db").exists(), "records stay"


@pytest.mark.promise("H-1")
def test_hosts_are_set_up_for_the_store_that_is_named(project: Path, cli: Run) -> None:
    """One call does both; what only looks doesn't take a store."""
    folder = project / "shop"
    folder.mkdir()
    store = f"sqlite:///{project}/elsewhere.db"
    cli("init", str(folder), "--host", "claude", "--store", store)
    assert (project / "elsewhere.db").exists()
    assert not (folder / ".passdown" / "ledger.db").exists()
    assert (folder / ".claude" / "settings.json").exists()
    for option in ("--check", "--print", "--remove"):
        refused = cli("init", str(folder), "--host", "claude", option, "--store", store, code=2)
        assert f"{option} doesn't go with --store" in refused.err
    assert "--repoint goes with" in cli("init", "--host", "claude", "--repoint", code=2).err


def test_a_command_that_hosts_will_not_find_is_warned_about(
    project: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment's folder is on the PATH of one shell, not on that of a host."""
    inside = Path(sys.prefix) / "bin"
    assert (inside / "passdown").exists()
    monkeypatch.setenv("PATH", str(inside))
    said = cli("init", "--host", "claude").out
    assert "isn't on the PATH that hosts get" in said
    assert "passdown init --host claude --absolute" in said
    usual = project / "bin"
    usual.mkdir()
    (usual / "passdown").symlink_to(inside / "passdown")
    monkeypatch.setenv("PATH", str(usual))
    assert "PATH" not in cli("init", "--host", "codex").out


@pytest.mark.parametrize("folder", ["bin", "with a space"])
def test_hosts_can_be_given_the_absolute_command(
    project: Path, cli: Run, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = project.parent / folder / "passdown"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    before = tree(project)
    said = cli("init", "--host", ALL, "--absolute").out
    assert "PATH" not in said
    settings = json.loads((project / ".claude/settings.json").read_text("utf-8"))
    (group,) = settings["hooks"]["Stop"]
    assert shlex.split(group["hooks"][0]["command"]) == [str(program), "hook", "claude", "stop"]
    assert json.loads((project / ".mcp.json").read_text("utf-8"))["mcpServers"]["passdown"] == {
        "command": str(program),
        "args": ["mcp"],
    }
    for file in (".codex/config.toml", ".opencode/plugins/passdown.js", "opencode.json"):
        assert json.dumps(str(program)) in (project / file).read_text("utf-8")
    written = tree(project)
    assert cli("init", "--check").out == "everything is up to date\n"
    monkeypatch.setenv("PATH", "")
    assert "not_on_path" not in cli("doctor", "--no-start", code=None).out
    program.rename(program.with_name("gone"))
    said = cli("doctor", "--no-start", code=None).out
    assert f"hosts run {program}, which isn't there any more" in said
    program.with_name("gone").rename(program)
    monkeypatch.setenv("PATH", str(program.parent))
    cli("init", "--host", ALL)
    assert tree(project) == written, "what was chosen stays"
    cli("init", "--remove")
    assert tree(project) == before
    cli("init", "--host", ALL)
    cli("init", "--host", ALL, "--absolute")
    assert tree(project) == written, "the usual command is replaced"
    (project / ".passdown/hosts.json").unlink()
    cli("init", "--remove")
    assert tree(project) == before, "known without being remembered"


@pytest.mark.promise("H-1")
def test_the_printed_change_is_a_patch_that_gives_the_same(project: Path, cli: Run) -> None:
    (project / ".claude").mkdir()
    (project / ".claude/settings.json").write_text('{\n    "model": "x"\n}', "utf-8")
    (project / "CLAUDE.md").write_text("# Mine\r\n", "utf-8", newline="")
    diff = cli("init", "--host", "codex,cursor,opencode", "--print").out
    done = subprocess.run(["patch", "-p1", "-s"], cwd=project, input=diff, text=True, check=False)
    assert done.returncode == 0
    patched = tree(project)
    cli("init", "--host", "codex,cursor,opencode")
    assert tree(project) == patched


@pytest.mark.promise("H-1")
def test_auto_finds_hosts_by_their_files_and_programs(
    project: Path, cli: Run, as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(project / "bin"))
    said = cli("init", "--host", "auto", code=2).err
    assert "no host was found: neither its program nor its files here (.claude, .codex," in said
    (project / ".cursor").mkdir()
    (project / "bin").mkdir()
    (project / "bin/codex").write_text("#!/bin/sh\n", "utf-8")
    (project / "bin/codex").chmod(0o755)
    found = as_json("init", "--host", "auto")
    assert found["hosts"] == ["codex", "cursor"]
    assert as_json("init", "--check")["same"] is True
    assert "there is no host 'vim'" in cli("init", "--host", "vim", code=2).err


@pytest.mark.soak
@pytest.mark.promise("H-1")
@pytest.mark.parametrize("part", range(10))
def test_hundreds_of_odd_projects_are_restored_to_the_byte(
    tmp_path: Path, cli: Run, part: int
) -> None:
    for seed in range(1_000 + part * 60, 1_060 + part * 60):
        root = tmp_path / str(seed)
        root.mkdir()
        odd_project(root, seed)
        before = tree(root)
        dice = random.Random(seed)
        some = dice.sample(list(HOSTS), dice.randint(1, len(HOSTS)))
        cli("init", str(root), "--host", ",".join(some))
        cli("init", str(root), "--host", ALL)
        cli("init", str(root), "--host", ",".join(some), "--remove")
        cli("init", str(root), "--remove")
        assert tree(root) == before, seed


@pytest.mark.promise("H-10")
def test_nothing_of_git_codex_or_agents_is_written_while_agents_work(
    project: Path, cli: Run
) -> None:
    """Sandboxes make these three read-only."""
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    (project / ".agents/skills").mkdir(parents=True)
    cli("init", "--host", "codex")
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    guarded = (".git", ".codex", ".agents")

    def stamps() -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for name in guarded:
            for path in [project / name, *(project / name).rglob("*")]:
                found[str(path)] = (path.stat().st_mtime_ns, path.stat().st_size)
        return found

    before = stamps()
    host = Host(project, "codex")
    (project / "a.py").write_text("1\n", "utf-8")
    for event in HOSTS["codex"].events:
        assert host.fires(event, source="startup", prompt="go").code == 0
    cli(*("handoff", "--task", "T-1", "--from", "a", "--to", "b", "--outcome", "completed"))
    assert stamps() == before


@pytest.mark.promise("H-11")
@pytest.mark.parametrize("name", PLUGIN_HOSTS)
def test_a_plugin_is_written_whole_and_the_same_every_time(
    project: Path, cli: Run, as_json: Callable[..., Any], name: str
) -> None:
    assert "differs" in cli("plugin", "p", "--host", name, "--check", code=1).out
    assert not (project / "p").exists()
    cli("plugin", "p", "--host", name)
    first = tree(project / "p")
    cli("plugin", "q", "--host", name)
    assert tree(project / "q") == first
    assert cli("plugin", "p", "--host", name, "--check").out == "everything is up to date\n"
    assert as_json("plugin", "p", "--host", name)["written"] == []
    (project / "p/hooks/hooks.json").write_text("{}", "utf-8")
    assert "hooks/hooks.json" in cli("plugin", "p", "--host", name, "--check", code=1).out
    cli("plugin", "p", "--host", name)
    assert tree(project / "p") == first


@pytest.mark.promise("H-11")
@pytest.mark.parametrize("name", PLUGIN_HOSTS)
def test_a_plugin_keeps_its_hosts_rules(name: str) -> None:
    files = plugin_files(HOSTS[name], "1.2.3")
    manifest = json.loads(files[f".{name}-plugin/plugin.json"])
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", manifest["name"])
    known = {"name", "version", "description", "author", "keywords"}
    assert set(manifest) <= known | {"skills", "mcpServers", "hooks"}
    hooks = json.loads(files["hooks/hooks.json"])
    assert set(hooks) == {"description", "hooks"}, "Codex rejects any other key"
    assert list(hooks["hooks"]) == list(HOSTS[name].events.values())
    commands = [each[0]["hooks"][0]["command"] for each in hooks["hooks"].values()]
    assert commands == [f"passdown hook {name} {event}" for event in HOSTS[name].events]
    assert json.loads(files[".mcp.json"])["mcpServers"]["passdown"]["command"] == "passdown"
    for path in manifest.values():
        if isinstance(path, str) and path.startswith("./"):
            assert any(f"./{each}".startswith(path) for each in files)


@pytest.mark.promise("H-11")
def test_the_skill_has_only_fields_of_the_open_format(project: Path, cli: Run) -> None:
    text = plugin_files(HOSTS["claude"], "1")["skills/hand-off/SKILL.md"]
    assert text == plugin_files(HOSTS["codex"], "2")["skills/hand-off/SKILL.md"]
    _, front, body = text.split("---\n", 2)
    fields = yaml.safe_load(front)
    spec = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert set(fields) <= spec
    assert fields["name"] == "hand-off", "as its folder"
    assert len(fields["description"]) <= 1_024
    assert len(fields["compatibility"]) <= 500
    for verb in re.findall(r"`passdown (\w+)", body):
        cli("help", verb)


@pytest.mark.promise("H-11")
@pytest.mark.parametrize("other", ['{"name": "other"}', "rubbish", "[]"])
def test_another_plugin_is_left_alone(project: Path, cli: Run, other: str) -> None:
    (project / "p/.claude-plugin").mkdir(parents=True)
    (project / "p/.claude-plugin/plugin.json").write_text(other, "utf-8")
    assert "nothing was written" in cli("plugin", "p", "--host", "claude", code=1).err
    assert len(tree(project / "p")) == 2


@pytest.mark.promise("H-12")
def test_the_doctor_says_which_hosts_are_here_and_what_to_do(
    project: Path, cli: Run, as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (project / ".gemini").mkdir()
    (project / ".claude").mkdir()
    facts = as_json("doctor")["facts"]
    assert facts["hosts"] == {"claude": "found", "gemini": "found"}
    assert facts["permissions"] == "private"
    assert facts["clock"].startswith("20")
    assert facts["sqlite_version"]
    assert "hooks" not in facts, "nothing is looked at where nothing is set up"
    cli("init", "--host", "claude")
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    found = as_json("doctor", "--no-start")
    codes = {each["code"] for each in found["findings"]}
    assert codes == {"not_wired", "never_fired", "not_on_path"}
    assert all(each["fix"] for each in found["findings"])

    host = Host(project)
    host.fires("session-start", source="startup")
    host.fires("stop", b"not json")
    (project / ".mcp.json").write_text("{}", "utf-8")
    found = as_json("doctor", "--no-start")
    assert found["ok"] is True, "hooks never make a store unsafe"
    session = found["facts"]["hooks"]["claude session-start"]
    assert session["about"] == "brief of T-1 at version 1"
    assert session["told"] > 100
    codes = [each["code"] for each in found["findings"]]
    assert codes == ["not_wired", "differs", "hook_failed", "not_on_path"]
    text = cli("doctor", "--no-start").out
    assert "brief of T-1 at version 1" in text
    assert "malformed input" in text
    host.fires("stop")
    codes = [each["code"] for each in as_json("doctor", "--no-start")["findings"]]
    assert "hook_failed" not in codes, "it went well since"


@pytest.mark.promise("H-12")
def test_the_doctor_shows_hooks_that_a_plugin_brought(
    project: Path, as_json: Callable[..., Any]
) -> None:
    """Nothing of the project names them; setting the host up as well would tell all twice."""
    (project / ".claude").mkdir()
    Host(project).fires("session-start", b"not json")
    found = as_json("doctor", "--no-start")
    assert found["facts"]["hosts"]["claude"] == "set up by a plugin or user settings"
    assert "claude session-start" in found["facts"]["hooks"]
    codes = {each["code"] for each in found["findings"] if "claude" in each["path"]}
    assert codes == {"hook_failed"}


@pytest.mark.promise("H-12")
def test_the_doctor_times_the_mcp_server(project: Path, as_json: Callable[..., Any]) -> None:
    install(project, ["claude"])
    found = as_json("doctor")
    assert 5 < found["facts"]["mcp_start_ms"] < 20_000
    assert "no_answer" not in {each["code"] for each in found["findings"]}


def test_what_windows_lacks_says_so(
    project: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    said = cli("serve", code=1).err
    assert "doesn't run on Windows" in said
    assert "Use WSL" in said


def test_the_commands_of_the_skill_work_as_they_are_written(project: Path, cli: Run) -> None:
    """But for the files that they name."""
    cli("task", "new", "TASK", "--title", "Login", "--agent", "a")
    text = template("SKILL.md")
    found = [shlex.split(each)[1:] for each in re.findall(r"`(passdown [^`]*)`", text)]
    assert len(found) >= 8
    for argv in found:
        if argv[0] != "handoff":
            cli(*argv)
    said = cli("show", "TASK#g1").out
    assert "medium" in said
