"""The files in deploy/: what they name is there, and what they run is run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from psycopg.pq import Conninfo

import passdown
from passdown.cli.main import VERBS, parser_of
from passdown.cli.server import PORT
from passdown.web.server_state import checked_names
from tests.interfaces.web.test_process import running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Document = dict[str, Any]
EXTRAS = re.compile(r"'(?:\.|passdown)\[([a-z,-]+)\]'")


@pytest.fixture
def deploy(project_root: Path) -> Path:
    return project_root / "deploy"


@pytest.fixture
def docker(deploy: Path) -> list[tuple[str, str]]:
    """The Dockerfile's instructions: (word, rest), with continued lines joined."""
    text = (deploy / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


@pytest.fixture
def compose(deploy: Path) -> Document:
    return yaml.safe_load((deploy / "compose.yaml").read_text("utf-8"))


@pytest.fixture
def unit(deploy: Path) -> dict[str, str]:
    text = (deploy / "passdown.service").read_text("utf-8")
    return dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Za-z]+=", line))


def check_command(words: list[str]) -> None:
    """A command line of passdown's own parses, and names hosts that a server would take."""
    verb, *rest = words
    assert verb in VERBS, words
    _, args = parser_of(verb).parse(rest)
    if verb == "serve":
        assert args.get("port", PORT) == PORT
        assert checked_names(args["allowed_hosts"])


def only(docker: list[tuple[str, str]], word: str) -> str:
    (rest,) = [rest for each, rest in docker if each == word]
    return rest


def test_what_the_image_copies_is_there_and_sent(
    docker: list[tuple[str, str]], deploy: Path, project_root: Path
) -> None:
    """The ignore file lets through what is copied, and nothing else."""
    copied = {name for word, rest in docker if word == "COPY" for name in rest.split()[:-1]}
    assert copied
    assert [name for name in copied if not (project_root / name).exists()] == []
    lines = (deploy / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert {line[1:] for line in lines if line.startswith("!")} == copied
    project = tomllib.loads((project_root / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {project["readme"], *(name.split("/")[0] for name in project["license-files"])}
    assert needed <= copied


def test_the_extras_that_are_installed_exist(deploy: Path, project_root: Path) -> None:
    """The same in the image, in both of its stages, and beside systemd."""
    project = tomllib.loads((project_root / "pyproject.toml").read_text("utf-8"))["project"]
    found = [
        EXTRAS.findall((deploy / name).read_text("utf-8"))
        for name in ("Dockerfile", "passdown.service")
    ]
    assert [len(each) for each in found] == [2, 1]
    (extras,) = {each for both in found for each in both}
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    assert {"web", "mcp", "postgres"} <= set(extras.split(","))


def test_every_command_line_parses(
    docker: list[tuple[str, str]], compose: Document, unit: dict[str, str], deploy: Path
) -> None:
    assert json.loads(only(docker, "ENTRYPOINT")) == ["passdown"]
    check_command(json.loads(only(docker, "CMD")))
    named = re.sub(r"\$\{[^}]*\}", "passdown.example.org", json.dumps(compose["services"]))
    check_command(json.loads(named)["passdown"]["command"])
    program, *words = shlex.split(unit["ExecStart"])
    assert program.endswith("/bin/passdown")
    check_command(words)
    comments = [
        match[1]
        for path in deploy.iterdir()
        for match in re.finditer(r"^#.*?passdown (init|token .*)$", path.read_text("utf-8"), re.M)
    ]
    assert len(comments) == 4
    for line in comments:
        check_command(shlex.split(line))


def test_ports_names_and_variables_agree(
    docker: list[tuple[str, str]], compose: Document, project_root: Path
) -> None:
    """A variable that is set means something to the server, to OpenTelemetry or to libpq."""
    assert only(docker, "EXPOSE") == str(PORT)
    services = compose["services"]
    assert f"passdown:{PORT}" in services["proxy"]["command"]
    for service in services.values():
        kept = {volume.split(":")[0] for volume in service["volumes"]}
        assert kept <= compose["volumes"].keys()
        assert set(service["networks"]) <= compose["networks"].keys()
    sources = [path.read_text("utf-8") for path in (project_root / "src").rglob("*.py")]
    libpq = {option.envvar for option in Conninfo.get_defaults()}
    for name in services["passdown"].get("environment", {}):
        known = any(f'"{name}"' in source for source in sources)
        assert known or name.encode() in libpq, name


def test_large_files_are_put_together_on_the_volume(
    docker: list[tuple[str, str]], compose: Document
) -> None:
    """A backup is as large as the workspace; what is in memory would run out of room."""
    variables = dict(pair.split("=") for pair in only(docker, "ENV").split())
    service = compose["services"]["passdown"]
    volumes = {volume.split(":")[1] for volume in service["volumes"]}
    in_memory = {mount.split(":")[0] for mount in service["tmpfs"]}
    assert variables["TMPDIR"] in volumes
    assert variables["TMPDIR"] not in in_memory
    assert "TMPDIR" not in service["environment"]


def test_nobody_runs_as_root(
    docker: list[tuple[str, str]], compose: Document, unit: dict[str, str]
) -> None:
    assert only(docker, "USER") == "10001"
    assert only(docker, "VOLUME") == "/data"
    assert any("install -d -o passdown -g passdown -m 0700 /data" in rest for _, rest in docker)
    for service in compose["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    assert "ports" not in compose["services"]["passdown"]
    hardened = {"User": "passdown", "NoNewPrivileges": "yes", "ProtectSystem": "strict"}
    assert hardened.items() <= unit.items()
    assert unit["WorkingDirectory"] == f"/var/lib/{unit['StateDirectory']}"
    # Without it, a library that asks for what is not allowed would be killed instead of told.
    assert unit["SystemCallErrorNumber"] == "EPERM"


def test_the_health_check_tells_a_server_that_works_from_one_that_does_not(
    docker: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Its command as it stands, but for the program's and the port's name."""
    _, _, command = only(docker, "HEALTHCHECK").partition("CMD ")
    program, *words = json.loads(command)
    assert program == "python"
    passdown.init(str(tmp_path)).close()
    with running(tmp_path) as server:
        asked = [word.replace(f":{PORT}/", f":{server.port}/") for word in words]
        assert asked != words
        assert subprocess.run([sys.executable, *asked], check=False).returncode == 0
    done = subprocess.run([sys.executable, *asked], check=False, stderr=subprocess.DEVNULL)
    assert done.returncode == 1


def test_systemd_understands_the_unit(
    deploy: Path, tmp_path: Path, need_program: Callable[[str], str]
) -> None:
    """In a tree of its own, where the program that it names is."""
    need_program("systemd-analyze")
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    shutil.copy(deploy / "passdown.service", units)
    for name in ("sysinit", "basic", "shutdown", "network", "multi-user"):
        (units / f"{name}.target").write_text("[Unit]\n")
    program = tmp_path / "opt/passdown/bin/passdown"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", f"--root={tmp_path}", "passdown.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if "passdown.service" in line] == []
