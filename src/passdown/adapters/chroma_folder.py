"""One folder of ChromaDB, and the turns in which tasks and processes use it.

ChromaDB keeps its index in the memory of a process and doesn't notice what others write. So every
use of the folder is a turn that others wait for, and each writer leaves a mark: who finds another
mark than the last that it saw opens the folder anew.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from passdown.adapters.memory_values import REFUSED
from passdown.errors import InvalidInput, MissingExtra, Problem, StoreUnavailable
from passdown.workspace.memories import named_lock

if TYPE_CHECKING:
    from collections.abc import Generator

_LOCK = "passdown.lock"
_MARK = "passdown.mark"


class ChromaFolder:
    """A folder that is open once in this process, whoever uses it; get it from `folder_at`."""

    def __init__(self, path: str) -> None:
        """Nothing is made or opened before the first turn."""
        self.path = path
        self._turns = threading.RLock()
        self._client: Any = None
        self._collections: dict[str, Any] = {}
        self._seen = ""
        self._users = 0

    def join(self) -> None:
        """Count one more user."""
        with self._turns:
            self._users += 1

    def leave(self) -> None:
        """Count one user less; the last one closes the folder."""
        with self._turns:
            self._users -= 1
            if self._users <= 0:
                self._close()

    @contextmanager
    def turn(self, name: str, *, writes: bool) -> Generator[Any]:
        """A collection, made if it isn't there, as it is after the last write of anybody.

        Raises InvalidInput for what ChromaDB refuses, StoreUnavailable where it fails.
        """
        with self._turns, named_lock(self.path, _LOCK), _translated():
            collection = self._current(name)
            if not writes:
                yield collection
                return
            self._mark()  # before as well: a writer that is killed has perhaps written
            yield collection
            self._mark()

    def _current(self, name: str) -> Any:
        mark = self._read_mark()
        if mark != self._seen:
            self._close()
        if self._client is None:
            database = chromadb()
            settings = database.config.Settings(anonymized_telemetry=False)
            self._client = database.PersistentClient(path=self.path, settings=settings)
            self._seen = mark
        if name not in self._collections:
            self._collections[name] = self._client.get_or_create_collection(
                name, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
            )
        return self._collections[name]

    def _close(self) -> None:
        client, self._client = self._client, None
        self._collections.clear()
        if hasattr(client, "close"):  # earlier releases let go of their files by themselves
            client.close()

    def _read_mark(self) -> str:
        try:
            with open(os.path.join(self.path, _MARK), encoding="ascii") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def _mark(self) -> None:
        mark = os.urandom(8).hex()
        with open(os.path.join(self.path, _MARK), "w", encoding="ascii") as file:
            file.write(mark)
        self._seen = mark


_folders: WeakValueDictionary[str, ChromaFolder] = WeakValueDictionary()
_looking = threading.Lock()


def folder_at(path: str) -> ChromaFolder:
    """The folder at a path: the same one for everybody in this process."""
    real = os.path.realpath(path)
    with _looking:
        found = _folders.get(real)
        if found is None:
            found = _folders[real] = ChromaFolder(real)
        return found


def chromadb() -> Any:
    """The package; raises MissingExtra with the line that installs it."""
    try:
        import chromadb
    except ImportError as error:
        raise MissingExtra(
            "the package chromadb is not installed",
            next_step="Install it: pip install passdown[chroma]",
        ) from error
    return chromadb


@contextmanager
def _translated() -> Generator[None]:
    """Turn ChromaDB's exceptions into the ones that users know."""
    from chromadb.errors import ChromaError, InvalidArgumentError

    try:
        yield
    except InvalidArgumentError as error:
        expected = "vectors as long as those that the project has: the same embedder as before"
        problem = Problem("", "refused", str(error)[:300], expected)
        raise InvalidInput(REFUSED, [problem]) from error
    except (ChromaError, RuntimeError) as error:
        raise StoreUnavailable(f"ChromaDB refused: {error}") from error
