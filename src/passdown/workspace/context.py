"""Context: the parts of an open workspace (location, settings, store, ledger, files), created
when first used.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from passdown.core.settings import DEFAULTS, Settings, checked_settings, parse_settings
from passdown.errors import Damaged, InvalidInput, PassdownError, Problem, StoreUnavailable
from passdown.store import SQLITE_PREFIX, open_store, url_without_password

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from passdown.core.record import Head
    from passdown.core.rows import TaskRow
    from passdown.history.profiles import Profiles
    from passdown.history.state_files import StateFiles
    from passdown.ledger.project_files import Project
    from passdown.ledger.writer import Clock, Ledger, Written
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader
    from passdown.workspace import Workspace
    from passdown.workspace.files import CallerFiles
    from passdown.workspace.location import Location
    from passdown.workspace.search import Embeddings


class Context:
    """The parts of a workspace: place, settings, store, ledger and state files."""

    def __init__(
        self,
        place: Location,
        settings: Settings | None,
        clock: Clock | None,
        *,
        create: bool = True,
    ) -> None:
        self.place = place
        self.root = place.root
        self.settings = checked_settings(settings) if settings else read_settings(place.config)
        self._clock = clock
        self._is_closed = False
        self.warned: set[str] = set()
        self.store: Store = open_store(
            place.url,
            timeout_s=self.settings.lock_timeout_s,
            durability=self.settings.durability,
            create=create,
        )
        with self.store.reading() as reader:
            is_rebuild_due = reader.is_rebuild_due()
            is_empty = False
            with suppress(TypeError, ValueError):  # a damaged row is for `verify` to find
                is_empty = not reader.tasks(limit=1)
        self.refusal = self.lost_ledger() if is_empty else None
        if is_rebuild_due:
            self.ledger.rebuild()

    @property
    def state_folder(self) -> str:
        """Where the state files are."""
        return os.path.join(self.place.folder, "state")

    def lost_ledger(self) -> PassdownError | None:
        """Why a ledger without tasks isn't used: state files show that there was another."""
        lost = self.lost_histories()
        with self.store.reading() as reader:
            return lost if lost and not reader.tasks(limit=1) else None

    def lost_history(self, task: str, result: object = None) -> Damaged | None:
        """What state files show of a task that the ledger lacks, as an error.

        A `result` with the version and the digest that the file shows needs no look at the ledger.
        """
        from passdown.history.lost_history import evidence, ledger_behind, shown_by

        head = (getattr(result, "version", None), getattr(result, "digest", None))
        shown = shown_by(os.path.join(self.state_folder, f"{task}.json"))
        if shown and head == (shown.version, shown.digest):
            return None
        with self.store.reading() as reader:
            lost = evidence(self.state_folder, reader, task)
            return ledger_behind(reader, {task: lost}) if lost else None

    def lost_histories(self, among: Collection[str] | None = None) -> Damaged | None:
        """The same of several tasks, and of those that the ledger doesn't have at all; of all tasks
        where none are named.
        """
        if not os.path.isdir(self.state_folder):
            return None
        from passdown.history.lost_history import ledger_behind, lost_tasks

        with self.store.reading() as reader:
            lost = lost_tasks(self.state_folder, reader, among)
            return ledger_behind(reader, lost) if lost else None

    def logged_warning(self, task: object) -> str:
        """The warnings that were logged when this task was read, or tasks were listed (None), while
        they hold; else empty.
        """
        tasks = self.warned if task is None else self.warned & {str(task)}
        found = (self.lost_history(each) for each in sorted(tasks))
        lines = (lost.problems[0]._replace(level="warning").line() for lost in found if lost)
        return "; ".join(lines)

    @property
    def store_file(self) -> str:
        """The file that holds the store; empty where a database server does."""
        is_file = self.place.url.startswith(SQLITE_PREFIX)
        return self.place.url.removeprefix(SQLITE_PREFIX) if is_file else ""

    @property
    def store_label(self) -> str:
        """The address of the store as it may be printed."""
        return url_without_password(self.store.url)

    # What reads don't need is made, and imported, when a write first asks for it.

    @cached_property
    def clock(self) -> Clock:
        """What gives records their time."""
        from passdown.ledger.writer import system_clock

        return self._clock or system_clock

    def timer(self) -> float:
        """Seconds since any moment, to tell how long something takes; with a clock of its own, a
        workspace has no other time.
        """
        return time.monotonic() if self._clock is None else 0.0

    @cached_property
    def ledger(self) -> Ledger:
        """The only writer."""
        from passdown.ledger.writer import Ledger

        return Ledger(self.store, self.clock, self._refuse_if_ahead)

    def _refuse_if_ahead(self, reader: Reader, task: str, head: Head | None) -> None:
        from passdown.history.lost_history import refuse_if_lost

        refuse_if_lost(self.state_folder, reader, task, head)

    @cached_property
    def project(self) -> Project:
        """The files that artifacts refer to."""
        from passdown.ledger.project_files import Project

        return Project(self.root, self.store_file)

    @property
    def files(self) -> CallerFiles:
        """The files that a write refers to: the client's, if it sent them with its request, else
        those of the project.
        """
        from passdown.workspace.files import CallerFiles

        return CallerFiles(self.project)

    @cached_property
    def state_files(self) -> StateFiles:
        """The state files of this workspace."""
        from passdown.history.state_files import StateFiles

        if not os.path.isdir(self.place.folder):
            from passdown.workspace.location import make_folder

            with suppress(StoreUnavailable):  # as on a read-only disk; each write says so
                make_folder(self.place)
        return StateFiles(
            self.state_folder,
            kept_versions=self.settings.kept_versions,
            max_bytes=self.settings.state_bytes,
            is_synced=self.settings.state_sync,
        )

    @cached_property
    def embeddings(self) -> Embeddings:
        """The vectors of this workspace."""
        from passdown.workspace.search import Embeddings

        return Embeddings(self)

    def close(self) -> None:
        """Close the store after background embedding ends."""
        self._is_closed = True
        if "embeddings" in self.__dict__:
            self.embeddings.close()
        self.store.close()

    def impatient(self, timeout_s: float) -> Context:
        """The same workspace opened once more, waiting for other writers so long at most."""
        timeout_s = min(timeout_s, self.settings.lock_timeout_s)
        settings = self.settings._replace(lock_timeout_s=timeout_s)
        return Context(self.place, settings, self._clock, create=False)

    def check_open(self) -> None:
        """Raise StoreUnavailable once the workspace was closed."""
        if self._is_closed:
            raise StoreUnavailable(
                "the workspace is closed", next_step="Open it again with passdown.open."
            )

    def needs_of(self, agent: str) -> dict[str, list[str]]:
        """What an agent declares that it needs: in the settings, else in its profile."""
        if agent in self.settings.needs:
            return self.settings.needs[agent]
        if not self.has_profiles:
            return {}
        profile = self.profiles().get(agent)
        return profile.needs if profile else {}

    @cached_property
    def has_profiles(self) -> bool:
        """Whether there is any folder of profiles: asked before anything is imported for them."""
        folders = (self.settings.agents_folder, "agents", ".claude/agents", ".passdown/agents")
        return any(os.path.isdir(os.path.join(self.root, name)) for name in folders if name)

    def profiles(self, folder: str = "") -> Profiles:
        """The agents' profiles: of the folder that is named, set or usual."""
        from passdown.history.profiles import Profiles

        folder = os.path.abspath(folder) if folder else self.settings.agents_folder
        return Profiles(self.root, folder, self.settings.registry)

    def with_hashes(self, body: dict[str, Any], except_paths: Iterable[str] = ()) -> dict[str, Any]:
        """A record's body with the hashes of the files that its items cite and that are there, and
        whether the files that it is about are on another machine.
        """
        from passdown.core.items import cited_paths_of_body
        from passdown.core.names import normal_path, path_problems
        from passdown.ledger.channel import REMOTE_FILES_FIELD

        files = self.files
        named = {p: normal_path(p) for p in cited_paths_of_body(body) if not path_problems(p, "")}
        found = {path: files.measure(normal).sha256 for path, normal in named.items()}
        cited = {path: found[path] for path in found.keys() - set(except_paths) if found[path]}
        body = {**body, "cited": cited} if cited else body
        body = {**body, **self._named_by_decisions(body)}
        artifacts = (artifact["path"] for artifact in body.get("artifacts", ()))
        is_remote = files.are_elsewhere([*artifacts, *named.values()])
        return {**body, REMOTE_FILES_FIELD: True} if is_remote else body

    def _named_by_decisions(self, body: dict[str, Any]) -> dict[str, list[str]]:
        """The artifacts of a body's decisions that are no files: references to tasks, items, agents
        and files, and keys of memories; those too that can't be files, before their memory is
        there.
        """
        from passdown.core.graph import is_reference
        from passdown.core.index_entries import is_key_only
        from passdown.core.rows import MEMORY_PREFIX

        decisions: list[dict[str, Any]] = body.get("decisions", [])
        names = {name for each in decisions for name in each.get("artifacts", ())}
        if not names:
            return {}
        with self.store.reading() as reader:
            memories = {n for n in names if is_key_only(n) or reader.known_node(MEMORY_PREFIX + n)}
        found = {
            "memories": sorted(memories),
            "references": sorted(n for n in names - memories if is_reference(n)),
        }
        return {field: names for field, names in found.items() if names}

    def state_path(self, task: str) -> str:
        """A task's state file, relative to the project root where it is inside."""
        return self._state_files_shown + f"{task}.json"

    def state_location(self, task: str, row: TaskRow | None = None) -> str:
        """Path of the task's full state, or for a remote client the URL that gives it.

        With the task's row, a file that a power cut left torn or old is written again first.
        """
        from passdown.workspace.files import is_served

        if is_served():
            return f"/api/tasks/{task}/state"
        if row is not None:
            from passdown.history.lost_history import is_current

            with suppress(StoreUnavailable, Damaged):
                if not is_current(self.state_folder, row):
                    self.restore_state_file(task)
        return self.state_path(task)

    def restore_state_file(self, task: str) -> None:
        """Write a task's state file again, and every archive file that is missing."""
        import logging

        for problem in self.state_files.write(self.store, task, with_archive=True):
            logging.getLogger("passdown.state_files").warning("%s", problem.line())

    @cached_property
    def _state_files_shown(self) -> str:
        """The folder of the state files, with a slash, as their paths are shown."""
        relative = os.path.relpath(self.state_folder, self.root)
        if relative.startswith(".."):
            return os.path.join(self.state_folder, "")
        return relative.replace(os.sep, "/") + "/"

    def mirror(self, written: Written) -> list[Problem]:
        """Bring state files up to date after a commit.

        What was recorded stays recorded if a file can't be written: that is a warning.
        """
        if written.is_replay:
            return []
        problems: list[Problem] = []
        for name in written.touched:
            try:
                problems += self.state_files.write(self.store, name, written=written)
            except (StoreUnavailable, Damaged) as error:
                said = (error.message, "", error.next_step)
                problems.append(Problem("state_file", "handle_not_written", *said, "warning"))
        return [*problems, *self._knowledge_at_completion(written)]

    def _knowledge_at_completion(self, written: Written) -> list[Problem]:
        """Write the knowledge file when a record completes a task."""
        said = {written.body.get(name) for name in ("outcome", "phase", "status")}
        if written.status != "completed" or "completed" not in said:
            return []
        from passdown.knowledge.sync import sync_after_completion

        return sync_after_completion(self)


def read_settings(path: str) -> Settings:
    """The settings in a configuration file; the defaults where there is none or all is
    commented.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return DEFAULTS
    except (OSError, UnicodeDecodeError) as error:
        problem = Problem("", "unreadable", f"{path}: {error}", "a readable text file")
        raise InvalidInput("the configuration can't be read", [problem]) from error
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return DEFAULTS
    import tomllib

    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problem = Problem("", "invalid_toml", str(error), "TOML", f"fix {path}")
        raise InvalidInput("the configuration can't be read", [problem]) from error
    return parse_settings(document)


def context_of(workspace: Workspace) -> Context:
    """The context of an open workspace; raises PassdownError for one on a server."""
    return workspace._context  # pyright: ignore[reportPrivateUsage]
