"""What a verb works with: the workspace, the author, input files and tracing."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from passdown import tracing
from passdown.core.results import View
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from passdown.workspace import Workspace


MAX_INPUT_BYTES = 1_048_576


class UsageError(Exception):
    """The arguments are wrong; exit code 2. `prog` is the command that was meant, if known."""

    def __init__(self, message: str, prog: str = "") -> None:
        super().__init__(message)
        self.prog = prog


class Session:
    """One call of the command line: which store it is about, and how its result is printed."""

    def __init__(self, store: str | None, *, as_json: bool = False) -> None:
        self.named_store = store or ""
        self.store = store or os.environ.get("PASSDOWN_STORE") or "."
        self.as_json = as_json

    @property
    def is_remote(self) -> bool:
        """Whether the store is that of a server, which has its own files and processes."""
        return is_server_url(self.store)

    def open(self) -> Workspace:
        """Open the workspace of --store, PASSDOWN_STORE or the nearest .passdown/ folder."""
        from passdown.workspace import open as open_workspace

        return open_workspace(self.store, create=False)

    def author(self, named: str | None) -> str:
        """Who writes: who is named, else PASSDOWN_AGENT, else the user's name as an agent's name;
        with a server, the name of the token.
        """
        if named or os.environ.get("PASSDOWN_AGENT") or not self.is_remote:
            from passdown.workspace.defaults import default_agent

            return named or default_agent()
        from passdown.remote import token_holder

        return token_holder(self.store)

    def only_task(self, agent: str | None = None, *, to_hand_off: bool = False) -> str:
        """The task that is meant where none is named, for the agent that is; see `choose_task`."""
        if task := self.task_if_open(agent, to_hand_off=to_hand_off):
            return task
        raise UsageError("no task is open; name one")

    def task_if_open(self, agent: str | None = None, *, to_hand_off: bool = False) -> str:
        """Like `only_task`, but empty where no task is open: then records are for all work."""
        from passdown.workspace.defaults import choose_task
        from passdown.workspace.location import branch_and_commit

        branch = branch_and_commit(os.getcwd())[0]
        with self.open() as workspace:
            choice = choose_task(
                workspace, agent=self.author(agent), branch=branch, to_hand_off=to_hand_off
            )
        if choice.task or not choice.tasks:
            return choice.task
        raise UsageError(f"{choice.listed()}; name the one that is meant with --task")

    def show(self, result: Any, print_text: Callable[[Any], object]) -> None:
        """Print a result: as JSON where that is asked for, else with `print_text`, which gets the
        JSON of a view, or of a list of them.
        """
        if self.as_json:
            from passdown.cli.output import print_json

            print_json(plain(result))
        else:
            first: object = result[0] if isinstance(result, list) and result else result  # pyright: ignore[reportUnknownVariableType]
            print_text(plain(result) if isinstance(first, View) else result)

    def show_text(self, text: str) -> None:
        """Print a text as it is; as JSON, under `text`."""
        self.show({"text": text}, lambda found: print(found["text"], end=""))


def plain(result: Any) -> Any:
    """A result as plain data: values, alone or in lists, become their documents."""
    if hasattr(result, "to_dict"):
        return result.to_dict()
    if hasattr(result, "_asdict"):
        return {name: plain(value) for name, value in result._asdict().items()}
    return [plain(each) for each in result] if isinstance(result, list | tuple) else result  # pyright: ignore[reportUnknownVariableType]


@contextmanager
def named_by_flags(**flags: str) -> Generator[None]:
    """Let problems with an argument name the flag that gave it; `__` stands for a dot."""
    try:
        yield
    except InvalidInput as error:
        known = {name.replace("__", "."): flag for name, flag in flags.items()}
        error.problems = tuple(
            each._replace(path=known.get(each.path, each.path)) for each in error.problems
        )
        raise


def is_server_url(store: str) -> bool:
    """Whether an address is that of a server."""
    return store.startswith(("http://", "https://"))


def read_input(path: str, limit: int = MAX_INPUT_BYTES) -> bytes:
    """A regular file's bytes, or standard input's for `-`; too large or unreadable is refused."""
    from passdown.workspace.files import bytes_at

    if path != "-":
        data = bytes_at(path, limit)
    else:
        try:
            data = sys.stdin.buffer.read(limit + 1)
        except OSError as error:
            data = Problem("-", "unreadable", error.strerror or str(error), "text that can be read")
        else:
            if len(data) > limit:
                data = Problem("-", "too_large", "has too many bytes", f"at most {limit:,}")
    if isinstance(data, bytes):
        return data
    if data.code == "not_regular_file":
        data = data._replace(fix="use - to read standard input")
    said = "is too large" if data.code == "too_large" else "can't be read"
    raise InvalidInput(f"the input {said}", [data])


def read_text(path: str, limit: int = MAX_INPUT_BYTES) -> str:
    """The text of a file, or of standard input for `-`; anything but UTF-8 is refused."""
    try:
        return read_input(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = Problem(path, "invalid_utf8", f"byte {error.start} is not UTF-8", "UTF-8 text")
        raise InvalidInput("the input can't be read", [problem]) from error


def start_tracing() -> None:
    """Begin to send spans if OTEL_* variables say so; what is in the way is told, and no more: the
    variables may be meant for every program of a machine.
    """
    if problem := tracing.start():
        print(f"passdown: {problem}", file=sys.stderr, flush=True)
