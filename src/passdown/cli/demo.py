"""`demo`: scripted agents build a small program, offline, in a folder of their own.

The story is a list of commands, each run as a person would type it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from passdown.cli.output import heading, line
from passdown.cli.parsing import command
from passdown.errors import InvalidInput, PassdownError, Problem

if TYPE_CHECKING:
    from passdown.cli.session import Session

_COMMAND_TIMEOUT_S = 120.0
_DEMO_FILES = os.path.join(os.path.dirname(__file__), "demo_files")
_OTHER_FILES = {".gitignore": ".passdown/\ncopy-*.db\nheads.json\n", "shop/__init__.py": ""}
# Set while git runs a hook; they would point it at another repository.
_GIT_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_OWN_VARIABLES = ("PASSDOWN_STORE", "PASSDOWN_AGENT", "PASSDOWN_RELAY_URL", "PASSDOWN_PR_COMMAND")
_CHANGED_TEXT = b"binary fractions can't hold a tenth, and sums drift"


class Step(NamedTuple):
    """A command; `code` is the exit code that it has to end with, `said` comes before it."""

    command: str
    code: int = 0
    said: str = ""


_PREPARATION = """\
git init -q
git symbolic-ref HEAD refs/heads/main
git add -A
git commit -q -m 'Start the shop'
passdown init"""
_STORY: dict[str, tuple[Step, ...]] = {
    "A task, and a relay of four agents": (
        Step(
            "passdown task new T-1 --title 'Prices with tax' --agent planner "
            "--description 'A function that adds tax to a price.' "
            "--criterion '19 % on 1.50 is 1.79' --criterion 'no floating point anywhere'"
        ),
        Step("cat relay.yaml"),
    ),
    "The relay runs: real files, real commits, one round of changes, until a person is needed": (
        Step("passdown run relay.yaml --task T-1 --by kim --no-wait", 1),
    ),
    "A person answers and sends a small job that jumps the queue; the relay continues": (
        Step("passdown express knowledge learned.json --by kim --reason 'Say where prices are'"),
        Step(
            "passdown gate approve T-1#k1 --by kim "
            "--reason 'Yes, half up; checked with the tax office'"
        ),
        Step("passdown run --resume R-1 --by kim"),
    ),
    "What is in git: the agents' commits, and the express update on its branch": (
        Step("git log --all --graph --format='%h %an: %s'"),
    ),
    "A faulty handoff is refused with every reason at once": (
        Step("cat faulty.yaml"),
        Step("passdown handoff faulty.yaml --dry-run", 1),
    ),
    "What the next agent gets: a brief, within a budget": (
        Step("passdown brief T-1 --agent reviewer --budget 400"),
    ),
    "Ask the past": (
        Step(
            "passdown recall 'how is half a cent rounded?' --kind gotcha --kind decision "
            "--words --limit 2"
        ),
    ),
    "12 switches of agents: the context stays as long as one profile": (
        Step(
            "passdown measure --personas agents --chain planner,coder,reviewer,releaser "
            "--switches 12 --svg growth.svg"
        ),
    ),
    "Changes show: a byte changed behind its back, an old copy put back": (
        Step("passdown backup copy-old.db"),
        Step("passdown warn T-1 'Invoices need the tax rate of the day of sale' --agent planner"),
        Step("passdown heads export heads.json"),
        Step("passdown backup copy-changed.db"),
        Step(
            "passdown verify --chain-only --store copy-changed.db",
            1,
            "One byte of a decision's reason is changed in a copy of the database:",
        ),
        Step(
            "passdown verify --store copy-old.db --against heads.json",
            1,
            "An older copy looks whole by itself; heads that were saved before show the rollback:",
        ),
    ),
}
_NEXT_COMMANDS = (
    "ui",
    "runs R-1",
    "log T-1",
    "brief T-1 --agent coder",
    "recall 'how is money counted?'",
    "agents --mermaid coder",
    "graph show --task T-1 --format svg --output graph.svg",
)


@command(
    "demo",
    "",
    "--keep ./passdown-demo",
    has_store=False,
    has_json=False,
    help={"keep": "DIR: keep the result in this new folder"},
)
def demo(_session: Session, *, keep: str | None = None) -> None:
    """Watch four agents build a small program, offline."""
    import tempfile

    if shutil.which("git") is None:
        raise PassdownError(
            "the demo builds a small git repository, and git is not installed",
            next_step="Install git, then run it again.",
            code="missing_program",
        )
    import passdown.relay.worker  # noqa: F401  # pyright: ignore[reportUnusedImport]

    if keep:
        if os.path.exists(keep):
            problem = Problem("keep", "exists", f"{keep} exists already", "a new folder")
            raise InvalidInput("the demo was not started", [problem])
        _play(os.path.abspath(keep))
        line(f"Kept in {keep}. Look further; passdown ui shows it in the browser:")
        for text in (f"cd {keep}", *(f"{_own_name()} {each}" for each in _NEXT_COMMANDS)):
            line(text, 2)
        return
    with tempfile.TemporaryDirectory(prefix="passdown-demo-") as folder:
        _play(os.path.join(folder, "shop"))
    line("Look further: passdown demo --keep DIR keeps everything; docs/relay.md says how to write")
    line("a relay of your own agents. Without a relay:")
    for text in ("passdown init", "passdown help handoff", "passdown template"):
        line(text, 2)


def _own_name() -> str:
    """How this program is called from any folder: by its name if the shell finds it."""
    if shutil.which("passdown"):
        return "passdown"
    own = os.path.abspath(sys.argv[0])
    return own if os.path.basename(own) == "passdown" else f"{sys.executable} -m passdown"


def _play(root: str) -> None:
    shutil.copytree(_DEMO_FILES, root)
    os.mkdir(os.path.join(root, "shop"))
    for path, text in _OTHER_FILES.items():
        Path(root, path).write_text(text, "utf-8")
    for text in _PREPARATION.splitlines():
        _run(root, Step(text), is_shown=False)
    for number, (title, steps) in enumerate(_STORY.items(), 1):
        heading(f"{number}. {title}")
        for step in steps:
            _run(root, step)
        line()


def _run(root: str, step: Step, *, is_shown: bool = True) -> None:
    """Run one step and print it with its output; raises PassdownError where it fails."""
    if step.said:
        line(step.said)
    if "copy-changed.db" in step.command and step.code:
        copy = Path(root, "copy-changed.db")
        # Everywhere: pages that are no longer in use may hold the text as well.
        copy.write_bytes(copy.read_bytes().replace(_CHANGED_TEXT, b"B" + _CHANGED_TEXT[1:]))
    if is_shown:
        line(f"$ {step.command}")
    sys.stdout.flush()
    program, *words = shlex.split(step.command)
    if program == "cat":
        print(Path(root, words[0]).read_text("utf-8"), end="")
        return
    start = [sys.executable, "-m", "passdown"] if program == "passdown" else ["git"]
    done = subprocess.run(
        [*start, *words],
        cwd=root,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=None if is_shown else subprocess.DEVNULL,
        timeout=_COMMAND_TIMEOUT_S,
        check=False,
    )
    if done.returncode != step.code:
        raise PassdownError(f"{step.command}: exit code {done.returncode}", code="demo_failed")


def _environment() -> dict[str, str]:
    """The user's environment without settings of git and of ours that would change the story."""
    removed = (*_GIT_VARIABLES, *_OWN_VARIABLES)
    kept = {name: text for name, text in os.environ.items() if name not in removed}
    person = {"NAME": "planner", "EMAIL": "planner@passdown.invalid"}
    names = {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in person.items()}
    settings = {"commit.gpgsign": "false", "core.hooksPath": os.devnull, "core.pager": "cat"}
    for index, (key, value) in enumerate(settings.items()):
        names |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    names["GIT_CONFIG_COUNT"] = str(len(settings))
    return {**kept, **names, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
