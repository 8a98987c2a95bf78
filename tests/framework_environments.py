"""Environments for frameworks that can't share the project's: made once, in the user's cache.

`python -m tests.framework_environments` makes them all but the large ones. Without pip or the
network such tests are skipped; in CI they fail.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).resolve().parent.parent
SEPARATE = ("google-adk",)
"""The extras that need an environment of their own."""
LARGE = ("crewai",)
"""Those that take minutes and a gigabyte: only long test runs make them."""


class NotMade(Exception):
    """The environment can't be made here."""


def python_of(extra: str) -> str:
    """The Python of the environment that an extra is installed in. Raises NotMade."""
    if extra not in (*SEPARATE, *LARGE):
        return sys.executable
    constraints = ROOT / f"constraints-{extra}.txt"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"][extra]]
    pins = f"{sys.version}\n{constraints.read_text('utf-8')}\n{needed}".encode()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "passdown-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{extra}-{hashlib.sha256(pins).hexdigest()[:12]}"
    python = folder / "bin" / "python"
    with FileLock(f"{folder}.lock"):
        if not ((folder / "installed").exists() and python.exists()):
            _make(folder, ["-c", str(constraints), *needed])
    return str(python)


def _make(folder: Path, requirements: list[str]) -> None:
    """Make it from nothing; the file `installed` says that it is whole."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [*pip, "--disable-pip-version-check", *requirements],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            raise NotMade(f"{folder.name} can't be made: {done.stderr[-500:]}")
    (folder / "installed").touch()


if __name__ == "__main__":
    for each in SEPARATE:
        python_of(each)
