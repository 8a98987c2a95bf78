"""Environments for frameworks that can't share the project's: made once, in the user's cache.

`python -m tests.framework_environments` makes them all. Without pip or the network such tests are
skipped; in CI they fail.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEPARATE = ("google-adk",)
"""The extras that need an environment of their own."""


class NotMade(Exception):
    """The environment can't be made here."""


def python_of(extra: str) -> str:
    """The Python of the environment that an extra is installed in. Raises NotMade."""
    if extra not in SEPARATE:
        return sys.executable
    constraints = ROOT / f"constraints-{extra}.txt"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"][extra]]
    pins = constraints.read_bytes() + "\n".join(needed).encode()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "passdown-tests"
    folder = cache / f"{extra}-{hashlib.sha256(pins).hexdigest()[:12]}"
    if not folder.is_dir():
        _make(extra, constraints, folder)
    return str(folder / "bin" / "python")


def _make(extra: str, constraints: Path, folder: Path) -> None:
    """Make it in a folder beside and link it into place whole: an environment can't be moved."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent)
    install = [f"{fresh}/bin/python", "-m", "pip", "install", "--quiet", "-c", str(constraints)]
    for command in (
        [sys.executable, "-m", "venv", fresh],
        [*install, "--disable-pip-version-check", "-e", f"{ROOT}[{extra}]"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            shutil.rmtree(fresh, ignore_errors=True)
            raise NotMade(f"no environment for {extra}: {done.stderr[-500:]}")
    try:
        folder.symlink_to(fresh)
    except FileExistsError:
        shutil.rmtree(fresh, ignore_errors=True)


if __name__ == "__main__":
    for each in SEPARATE:
        python_of(each)
