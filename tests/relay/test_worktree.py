"""A commit is made on a branch of its own, and nothing of the user's is touched."""

from __future__ import annotations

import os
import stat
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from passdown.errors import GitError, StoreBusy
from passdown.relay.git import VARIABLE, PullRequestSpec, Worktree, locked, open_pull_request
from tests.processes import run_python
from tests.relay.repositories import ALONE, git, leftovers, make_repository, users_view

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def project(
    tmp_path: Path, need_program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    need_program("git")
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)
    return make_repository(tmp_path / "project")


def commit(project: Path, branch: str = "passdown/express-1", **files: str) -> str:
    with Worktree(str(project), branch) as tree:
        for path, text in (files or {"new.txt": "new\n"}).items():
            tree.write(path, text.encode())
        return tree.commit("A message\n", author="coder", at=AT).id


def attempt(
    project: Path, branch: str, base: str = "HEAD", *, patch: str = "", **files: str
) -> GitError:
    """The error of a commit that is refused."""
    try:
        with Worktree(str(project), branch, base) as tree:
            for path, text in files.items():
                tree.write(path, text.encode())
            if patch:
                tree.apply(patch)
            tree.commit("A message\n", author="coder", at=AT)
    except GitError as error:
        return error
    pytest.fail("it was committed")


def refused(project: Path, branch: str = "passdown/express-1", base: str = "HEAD") -> GitError:
    return attempt(project, branch, base, **{"new.txt": "new\n"})


@pytest.mark.promise("S4-22")
def test_a_commit_leaves_the_users_branch_index_and_files_alone(project: Path) -> None:
    (project / "a.txt").write_text("changed by the user\n")
    (project / "staged.txt").write_text("staged\n")
    git(project, "add", "staged.txt")
    before = users_view(project)
    made = commit(project, **{"deep/er/new.txt": "new\n", "src/run.sh": "#!/bin/sh\n"})
    assert users_view(project) == before
    assert leftovers(project) == []
    assert git(project, "rev-parse", "passdown/express-1").strip() == made
    assert git(project, "rev-parse", f"{made}^") == git(project, "rev-parse", "main")
    shown = git(project, "diff", "--raw", "--abbrev=4", "main", made).splitlines()
    assert [line.split("\t")[1] for line in shown] == ["deep/er/new.txt", "src/run.sh"]
    assert shown[1].startswith(":100755 100755 ")
    assert git(project, "show", f"{made}:deep/er/new.txt") == "new\n"


def test_the_same_again_is_the_same_commit(project: Path) -> None:
    first = commit(project, "passdown/express-1")
    assert commit(project, "passdown/express-2") == first


def test_the_author_is_the_agent(project: Path) -> None:
    made = commit(project)
    who = git(project, "log", "-1", "--format=%an <%ae> %aI", made).strip()
    assert who == "coder <coder@noreply.passdown.invalid> 2026-01-02T03:04:05+00:00"
    git(project, "config", "user.email", "team@example.com")
    made = commit(project, "passdown/express-2")
    assert git(project, "log", "-1", "--format=%an <%ae>", made).strip() == (
        "coder <team@example.com>"
    )


def test_every_refusal_says_what_to_do(project: Path, tmp_path: Path) -> None:
    commit(project)
    assert refused(project).code == "branch_exists"
    unknown = refused(project, "passdown/express-2", "no-such-branch")
    assert unknown.code == "unknown_base"
    assert "no-such-branch" in unknown.message
    assert refused(project, "passdown/express-3", "--all").code == "unknown_base"
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    assert refused(tmp_path / "empty").code == "no_commits"
    (tmp_path / "plain").mkdir()
    nowhere = refused(tmp_path / "plain")
    assert nowhere.code == "not_a_repository"
    assert "git init" in nowhere.next_step


def test_without_git_that_is_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    assert refused(project).code == "no_git"


def test_nothing_to_commit_leaves_no_branch(project: Path) -> None:
    same = {"a.txt": (project / "a.txt").read_text()}
    assert attempt(project, "passdown/express-1", **same).code == "nothing_to_commit"
    assert git(project, "branch", "--list", "passdown/*") == ""
    assert leftovers(project) == []


@pytest.mark.parametrize(
    "path",
    [
        "../out.txt",
        "/etc/out.txt",
        ".git/config",
        "sub/.GIT/config",
        ".passdown/ledger.db",
        ".Passdown/config.toml",
        "link/out.txt",
        "link",
        "a.txt/below",
        "src",
    ],
)
def test_no_path_leads_out(project: Path, tmp_path: Path, path: str) -> None:
    (project / "link").symlink_to(tmp_path)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "a link")
    with pytest.raises(GitError) as caught, Worktree(str(project), "passdown/express-1") as tree:
        tree.write(path, b"out")
    assert caught.value.code == "unsafe_path"
    assert not (tmp_path / "out.txt").exists()


PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"


def test_a_patch_is_applied_whole_or_not_at_all(project: Path) -> None:
    with Worktree(str(project), "passdown/express-1") as tree:
        tree.apply(PATCH)
        made = tree.commit("A message\n", author="coder", at=AT)
    assert made.files == ("a.txt",)
    assert git(project, "show", f"{made.id}:a.txt") == "one\n2\nthree\n"
    with pytest.raises(GitError) as caught, Worktree(str(project), "passdown/express-2") as tree:
        tree.apply(PATCH.replace("-two", "-deux"))
    assert caught.value.code == "patch_failed"
    assert "a.txt" in caught.value.message


def test_a_patch_makes_no_link_and_reaches_no_own_file(project: Path) -> None:
    """What its heads hide, git's own list of changes shows."""
    link = (
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n"
    )
    own = "--- /dev/null\n+++ b/.passdown/config.toml\n@@ -0,0 +1 @@\n+x = 1\n"
    for patch in (link, own):
        assert attempt(project, "passdown/express-1", patch=patch).code == "unsafe_path"
    assert git(project, "branch", "--list", "passdown/*") == ""


def test_no_hook_filter_or_signing_program_is_started(project: Path, tmp_path: Path) -> None:
    """Each could be the very text that is committed."""
    witness = tmp_path / "started"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {witness}\ncat\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for hook in ("pre-commit", "post-checkout", "post-commit", "reference-transaction"):
        (project / ".git/hooks" / hook).symlink_to(program)
    git(project, "config", "commit.gpgSign", "true")
    git(project, "config", "gpg.program", str(program))
    git(project, "config", "core.fsmonitor", str(program))
    git(project, "config", "filter.f.clean", str(program))
    made = commit(project)
    with pytest.raises(GitError) as caught:
        commit(project, "passdown/express-2", **{".gitattributes": "*.x filter=f\n", "a.x": "x"})
    assert caught.value.code == "filtered"
    assert git(project, "cat-file", "-t", made).strip() == "commit"
    assert not witness.exists()


def test_variables_of_a_hook_do_not_lead_elsewhere(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    commit(project)
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert git(other, "branch", "--list", "passdown/*") == ""
    assert "passdown/express-1" in git(project, "branch", "--list", "passdown/*")


def test_from_another_worktree_and_from_a_folder_in_the_repository(
    project: Path, tmp_path: Path
) -> None:
    git(project, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = tmp_path / "side"
    (side / "a.txt").write_text("side\n")
    git(side, "commit", "-q", "-am", "on the side")
    made = commit(side)
    assert git(project, "rev-parse", f"{made}^") == git(project, "rev-parse", "side")
    made = commit(project / "src", "passdown/express-2", **{"new.sh": "new\n"})
    assert git(project, "diff", "--name-only", "main", made) == "src/new.sh\n"
    with Worktree(str(project / "src"), "passdown/express-3") as tree:
        tree.apply("--- run.sh\n+++ run.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-exit 1\n+exit 0\n")
        assert tree.commit("A message\n", author="coder", at=AT).files == ("run.sh",)


def test_several_at_once(project: Path) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            commit(project, f"passdown/express-{number}", **{f"{number}.txt": "x\n"})
        except BaseException as error:  # noqa: BLE001 - it is told below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(git(project, "branch", "--list", "passdown/*").split()) == 8
    assert leftovers(project) == []


def test_two_of_one_branch_are_one_after_the_other(project: Path) -> None:
    with (
        Worktree(str(project), "passdown/express-1") as tree,
        pytest.raises(StoreBusy, match="locked by another"),
        locked(tree.lock, timeout_s=0.1),
    ):
        pass
    assert git(project, "branch", "--list", "passdown/*") == ""


LEAVE = """
import os, signal, sys
from passdown.relay.git import Worktree
tree = Worktree(sys.argv[1], "passdown/express-dead").__enter__()
tree.write("half.txt", b"half")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_taken_away(project: Path) -> None:
    git(project, "worktree", "add", "-q", "--detach", str(project.parent / "mine"))
    before = git(project, "worktree", "list")
    died = run_python([sys.executable, "-c", LEAVE, str(project)], check=False)
    assert died.returncode < 0
    assert any("express-dead" in path for path in leftovers(project))
    (project / ".git/refs/heads/passdown").mkdir()
    (project / ".git/refs/heads/passdown/express-dead.lock").touch()
    commit(project, "passdown/express-dead")
    assert os.listdir(project / ".git/passdown") == []
    assert git(project, "worktree", "list") == before


LINGER = """
import os, signal, sys, threading, time
from passdown.relay.git import Worktree
tree = Worktree(sys.argv[1], "passdown/express-1").__enter__()
slow = ("-c", "alias.slow=!touch started; sleep 2", "slow")
threading.Thread(target=tree.repository.run, args=slow, daemon=True).start()
while not os.path.exists(os.path.join(sys.argv[1], "started")):
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_git_that_outlives_its_process_is_waited_for(project: Path) -> None:
    """What it was about to write could come after we looked."""
    died = run_python([sys.executable, "-c", LINGER, str(project)], check=False)
    assert died.returncode < 0
    lock = project / ".git/passdown/passdown-express-1.lock"
    with pytest.raises(StoreBusy), locked(str(lock), timeout_s=0):
        pass
    with locked(str(lock), timeout_s=30):
        pass


BODY = PullRequestSpec("passdown/express-1", "main", "--evil {body_file}", "Why\n")


def asked(project: Path, command: str, **options: Any) -> tuple[bool, str, str]:
    done = open_pull_request(str(project), BODY, environment={VARIABLE: command}, **options)
    return done.is_open, done.said, done.problem


def test_the_command_gets_each_value_as_one_argument(project: Path) -> None:
    script = (
        "import sys; print(sys.argv[1:4]); print(open(sys.argv[4]).read()); print('https://x/1')"
    )
    command = f'{sys.executable} -c "{script}" {{branch}} {{title}} {{base}} {{body_file}}'
    done = open_pull_request(str(project), BODY, environment={VARIABLE: command})
    assert done.is_open
    assert done.url == "https://x/1"
    assert done.said.splitlines()[:2] == [
        "['passdown/express-1', 'evil {body_file}', 'main']",
        "Why",
    ]


def test_without_a_command_the_branch_stays_and_the_way_on_is_told(project: Path) -> None:
    done = open_pull_request(str(project), BODY, environment={})
    assert not done.is_open
    assert VARIABLE in done.problem
    assert done.suggestion == f"git -C {project} merge passdown/express-1"
    git(project, "remote", "add", "upstream", "https://example.com/x.git")
    done = open_pull_request(str(project), BODY, environment={})
    assert done.suggestion == f"git -C {project} push upstream passdown/express-1"


def test_a_command_that_fails_talks_or_lingers_is_a_problem_no_error(project: Path) -> None:
    assert asked(project, "no-such-program-anywhere")[2].count("can't be started")
    assert asked(project, "'unclosed")[2].count("is invalid")
    assert asked(project, "sh -c 'echo why; exit 3'") == (False, "why", f"{VARIABLE}: ended with 3")
    assert asked(project, "yes")[2].count("printed more than")
    assert asked(project, "sh -c 'sleep 60 & sleep 60'", timeout_s=0.3)[2].count("too long")
