"""Real git repositories for the tests, apart from the user's settings."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ALONE = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
FILES = {
    "a.txt": "one\ntwo\nthree\n",
    "src/run.sh": "#!/bin/sh\nexit 1\n",
    "knowledge.dot": 'digraph knowledge {\n  "Old" [type="component", summary="Was there"];\n}\n',
    ".gitignore": "*.log\n.passdown/\n",
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.com", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (folder / "src/run.sh").chmod(0o755)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def users_view(folder: Path) -> dict[str, object]:
    """All that belongs to the user: what is checked out, the index, the files."""
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in (".git", ".passdown")
    }
    index = folder / ".git/index"
    return {
        "head": (folder / ".git/HEAD").read_text(),
        "index": index.read_bytes() if index.exists() else b"",
        "main": git(folder, "rev-parse", "HEAD"),
        "status": git(folder, "status", "--porcelain"),
        "files": files,
    }


def leftovers(folder: Path) -> list[str]:
    """What a worktree left behind."""
    places = [folder / ".git/worktrees", folder / ".git/passdown"]
    found = [str(path) for place in places if place.exists() for path in place.iterdir()]
    return found + git(folder, "worktree", "list").splitlines()[1:]
