"""`demo`: a relay of four scripted agents builds a small thing, offline, in a folder of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from passdown.surfaces.cli.printing import heading, labelled, line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

_COLUMN = 10
_FURTHER = (
    "runs R-1",
    "log T-1",
    "brief T-1 --agent coder",
    "recall 'how is money counted?'",
    "agents --mermaid coder",
    "graph show --task T-1 --format svg --output graph.svg",
)


def demo(parser: Parser) -> None:
    """The arguments of `demo`."""
    parser.show("passdown demo", "passdown demo --keep ./passdown-demo")
    parser.add_argument("--keep", metavar="DIR", help="a new folder; what was made stays there")
    parser.set_defaults(run=_demo)


def _demo(args: Namespace) -> int:
    import tempfile

    from passdown.surfaces.cli.demo_relay import RELAY_CHAPTERS, check_programs
    from passdown.surfaces.cli.demo_story import STORY_CHAPTERS

    check_programs()
    if args.keep:
        _refuse_existing(args.keep)
        Stage(os.path.abspath(args.keep)).play((*RELAY_CHAPTERS, *STORY_CHAPTERS))
        line(f"Kept in {args.keep}. Look further:")
        line(f"cd {args.keep}", 2)
        for command in _FURTHER:
            line(f"passdown {command}", 2)
        return 0
    with tempfile.TemporaryDirectory(prefix="passdown-demo-") as folder:
        Stage(os.path.join(folder, "shop")).play((*RELAY_CHAPTERS, *STORY_CHAPTERS))
    line("Look further: passdown demo --keep DIR leaves everything to explore; docs/relay.md says")
    line("how to write a relay of your own agents. Without a relay:")
    for command in ("passdown init", "passdown help handoff", "passdown template"):
        line(command, 2)
    return 0


def _refuse_existing(folder: str) -> None:
    from passdown.errors import InvalidInput, Problem

    if os.path.exists(folder):
        problem = Problem("keep", "exists", f"{folder} exists already", "a new folder")
        raise InvalidInput("the demonstration was not started", [problem])


class Stage:
    """Where the story is played: a project folder, its workspace, and a narrator."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.notes: dict[str, Any] = {}
        self._step = 0
        self._workspace: Workspace | None = None

    @property
    def workspace(self) -> Workspace:
        """The workspace; made when it is first needed."""
        if self._workspace is None:
            from passdown.workspace import init

            os.makedirs(self.root, exist_ok=True)
            self._workspace = init(self.root)
        return self._workspace

    def play(self, chapters: tuple[Callable[[Stage], None], ...]) -> None:
        """Play the chapters in order and let go of the workspace."""
        try:
            for chapter in chapters:
                chapter(self)
                line()
        finally:
            if self._workspace is not None:
                self._workspace.close()
                self._workspace = None

    def write(self, path: str, text: str) -> None:
        """Put a file into the project."""
        target = os.path.join(self.root, *path.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)

    def chapter(self, title: str) -> None:
        """Begin a numbered chapter."""
        self._step += 1
        heading(f"{self._step}. {title}")

    def types(self, command: str) -> None:
        """A command as a person would type it."""
        line(f"$ {command}", 2)

    def says(self, who: str, text: str) -> None:
        """What an agent does."""
        labelled(who, "cyan", text, 2, _COLUMN)

    def good(self, text: str) -> None:
        """What came of it, when it is good."""
        labelled("ok", "green", text, 2, _COLUMN)

    def found(self, text: str) -> None:
        """What verify found."""
        labelled("found", "red", text, 2, _COLUMN)

    def tells(self, text: str) -> None:
        """Something to look at."""
        line(text, 2 + _COLUMN)
