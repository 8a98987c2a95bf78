"""The strict type check over sources and tests, once for each state of them.

    python -m tests.type_check

`make check` runs this, and so does a test: what was clean is not checked again until a file, or a
setting of the check, is another.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLEAN = ROOT / ".pytest_cache" / "types-are-clean"


def type_errors() -> str:
    """What pyright finds in sources and tests; empty where nothing is wrong."""
    state = _state()
    if CLEAN.exists() and CLEAN.read_text("ascii") == state:
        return ""
    found = subprocess.run(
        [sys.executable, "-m", "pyright"],
        cwd=ROOT,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        return found.stdout + found.stderr
    CLEAN.parent.mkdir(exist_ok=True)
    CLEAN.write_text(state, "ascii")
    return ""


def _state() -> str:
    """A digest of every file that the check reads."""
    names = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    names += [path for name in ("src", "tests", "bench", "docs") for path in _sources(ROOT / name)]
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(names):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(ROOT)} {content}\n".encode())
    return digest.hexdigest()


def _sources(folder: Path) -> list[Path]:
    return [*folder.rglob("*.py"), *folder.rglob("*.pyi")]


if __name__ == "__main__":
    errors = type_errors()
    sys.stdout.write(errors or "0 errors\n")
    sys.exit(1 if errors else 0)
