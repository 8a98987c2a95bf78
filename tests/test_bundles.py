"""Bundles: records taken elsewhere, verified, all of them or none."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.core.record import Head, Record, canonical_bytes, chained
from passdown.errors import InvalidInput, NotFound
from passdown.testing import fixed_clock, full_handoff, write_files
from tests.folders import new_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from passdown import Workspace
    from tests.postgres import KeepIn

Document = dict[str, Any]
Lines = list[Document]


def make(folder: Path) -> Workspace:
    write_files(str(folder))
    settings = Settings(durability="normal")
    return passdown.open(str(folder), settings=settings, clock=fixed_clock())


@pytest.fixture
def here(tmp_path: Path, keep_in: KeepIn) -> Iterator[Workspace]:
    keep_in(tmp_path / "here")
    with make(tmp_path / "here") as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.create_task("T-2", title="Pay", agent="planner")
        ws.hand_off(full_handoff())
        ws.decide(task="T-2", agent="coder", summary="line\u2028sep", rationale="r")
        yield ws


@pytest.fixture
def there(tmp_path: Path, keep_in: KeepIn) -> Iterator[Workspace]:
    keep_in(tmp_path / "there")
    with make(tmp_path / "there") as ws:
        yield ws


@pytest.fixture
def bundle(here: Workspace, tmp_path: Path) -> Path:
    target = tmp_path / "all.zip"
    assert here.maintenance.export(str(target)) == 2
    return target


def content(bundle: Path) -> tuple[Document, Lines]:
    with zipfile.ZipFile(bundle) as archive:
        lines = archive.read("records.jsonl").split(b"\n")[:-1]
        return json.loads(archive.read("manifest.json")), [json.loads(line) for line in lines]


def of_tasks(ws: Workspace) -> Document:
    """The heads of all tasks."""
    heads: Document = ws.maintenance.heads().heads
    return {stream: head for stream, head in heads.items() if stream.startswith("task/")}


def pack(target: Path, manifest: Document, lines: Lines, *, mend: bool = False) -> Path:
    """A bundle of some records; with `mend`, a manifest that fits them."""
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    if mend:
        heads = {line["stream"]: [line["position"], line["digest"]] for line in lines}
        digest = hashlib.sha256(data).hexdigest()
        manifest = {**manifest, "heads": heads, "records": len(lines), "sha256": digest}
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("records.jsonl", data)
    return target


def rechained(lines: Lines) -> Lines:
    """The same lines with digests that fit their content again."""
    heads: dict[str, Head] = {}
    result: Lines = []
    for line in lines:
        record = Record(**{**line, "body": line["body"].encode()})
        record = chained(record, heads.get(record.stream))
        heads[record.stream] = Head(record.stream, record.position, record.digest)
        fields = {name: getattr(record, name) for name in line if name != "body"}
        result.append({**fields, "body": record.body.decode()})
    return result


def refused(ws: Workspace, path: Path, **options: Any) -> list[tuple[str, str]]:
    """Path and code of every reason; nothing may have changed."""
    before = (ws.maintenance.heads().heads, ws.tasks())
    with pytest.raises(InvalidInput) as caught:
        ws.maintenance.import_bundle(str(path), **options)
    assert (ws.maintenance.heads().heads, ws.tasks()) == before
    return [(problem.path, problem.code) for problem in caught.value.problems]


@pytest.mark.promise("P-4", "S1-18")
def test_a_bundle_brings_everything_along(
    here: Workspace, there: Workspace, bundle: Path, tmp_path: Path
) -> None:
    """Records, states and history are the same on the other side; again changes nothing."""
    result = there.maintenance.import_bundle(str(bundle))
    assert result.added == {"task/T-1": 2, "task/T-2": 2}
    assert (result.unchanged, result.forked) == ((), {})
    assert of_tasks(there) == of_tasks(here)
    for task in ("T-1", "T-2"):
        for version in (1, 2):
            assert there.files.state_document(task, version) == here.files.state_document(
                task, version
            )
        path = there.root + "/" + there.files.state_file(task)
        with open(path, encoding="utf-8") as file:
            assert passdown.read_state_file(file.read())["digest"] == here.state(task).digest
    assert there.verify(here.maintenance.heads()).ok
    assert there.maintenance.reindex().differing == ()
    again = there.maintenance.import_bundle(str(bundle))
    assert (again.added, again.unchanged) == ({}, ("task/T-1", "task/T-2"))
    copy = tmp_path / "copy.zip"
    there.maintenance.export(str(copy))
    assert copy.read_bytes() == bundle.read_bytes()


@pytest.mark.promise("P-4")
def test_a_newer_copy_adds_what_is_missing(
    here: Workspace, there: Workspace, bundle: Path, tmp_path: Path
) -> None:
    """Only the records after the ones that are there already are taken in."""
    there.maintenance.import_bundle(str(bundle))
    here.warn("T-1", agent="coder", text="w")
    newer = tmp_path / "newer.zip"
    assert here.maintenance.export(str(newer), task="T-1") == 1
    assert there.maintenance.import_bundle(str(newer)).added == {"task/T-1": 1}
    assert there.files.state_document("T-1") == here.files.state_document("T-1")


@pytest.mark.promise("P-7", "P-4")
def test_an_older_or_different_copy_is_refused_or_forked(
    here: Workspace, there: Workspace, bundle: Path, tmp_path: Path
) -> None:
    """Neither takes the place of what is there; a fork keeps both."""
    there.maintenance.import_bundle(str(bundle))
    there.warn("T-1", agent="coder", text="only there")
    assert refused(there, bundle) == [("task/T-1@2", "rollback_refused")]
    here.warn("T-1", agent="coder", text="only here")
    other = tmp_path / "other.zip"
    here.maintenance.export(str(other))
    assert refused(there, other) == [("task/T-1@3", "diverged")]
    assert refused(there, other, fork="../x") == [("fork", "invalid_id")]
    result = there.maintenance.import_bundle(str(other), fork="theirs")
    assert result.forked == {"task/T-1": "task/T-1.theirs"}
    assert [task.task for task in there.tasks()] == ["T-1", "T-2", "T-1.theirs"]
    assert there.state("T-1").warnings[-1] == "only there"
    assert there.state("T-1.theirs").warnings[-1] == "only here"
    origin = there.files.state_document("T-1.theirs")["metadata"]["forked_from"]
    assert (origin["task"], origin["digest"]) == ("T-1", here.state("T-1").digest)
    assert there.verify().ok
    assert there.maintenance.reindex().differing == ()
    assert refused(there, other, fork="theirs") == [("fork", "exists")]


@pytest.mark.promise("P-4")
def test_a_fork_keeps_to_itself(here: Workspace, there: Workspace, tmp_path: Path) -> None:
    """What a fork closed and overruled are its own items, not those of the task it came from."""
    there.create_task("T-1", title="Another", agent="a")
    there.hand_off(full_handoff(summary="there"))
    here.decide(task="T-1", agent="a", summary="s", rationale="r", supersedes=["T-1#d1"])
    here.set_status("T-1#q1", "answered", agent="a")
    here.hand_off({"task": "T-1", "to": "b", "outcome": "completed", "resolves": ["T-1#n1"]})
    here.hand_off({"task": "T-1", "to": "a", "outcome": "completed", "blockers": []})
    target = tmp_path / "one.zip"
    here.maintenance.export(str(target), task="T-1")
    before = there.files.state_document("T-1")
    there.maintenance.import_bundle(str(target), fork="theirs")
    assert there.files.state_document("T-1") == before
    fork, origin = there.files.state_document("T-1.theirs"), here.files.state_document("T-1")
    for name in ("decisions", "questions", "next_steps", "blockers"):
        assert [e["status"] for e in fork[name]] == [e["status"] for e in origin[name]]
    assert fork["decisions"][0]["superseded_by"] == "T-1.theirs#d2"
    assert there.verify().ok


@pytest.mark.promise("P-7")
def test_an_edited_record_is_named(there: Workspace, bundle: Path, tmp_path: Path) -> None:
    """Whatever was changed in a record, its task and version are in the refusal."""
    manifest, lines = content(bundle)
    place = next(
        i for i, line in enumerate(lines) if (line["stream"], line["position"]) == ("task/T-1", 2)
    )
    for name, value in [("body", "{}"), ("author", "eve"), ("at", "2020"), ("key", "k"),
                        ("kind", "warned"), ("previous", "sha256:" + "0" * 64)]:  # fmt: skip
        edited = [dict(line) for line in lines]
        edited[place][name] = value
        for mend in (False, True):
            target = pack(tmp_path / f"{name}-{mend}.zip", manifest, edited, mend=mend)
            assert ("task/T-1@2", "chain_broken") in refused(there, target)
    swapped = lines[::-1]
    assert ("task/T-1@2", "chain_broken") in refused(
        there, pack(tmp_path / "swapped.zip", manifest, swapped, mend=True)
    )


@pytest.mark.promise("P-7")
@pytest.mark.parametrize("cut", ["first", "last", "stream", "all"])
def test_a_bundle_that_lacks_records_is_refused(
    there: Workspace, bundle: Path, tmp_path: Path, cut: str
) -> None:
    """A missing start, end or task is noticed by the manifest; nothing is imported."""
    manifest, lines = content(bundle)
    kept = {
        "first": lines[1:],
        "last": lines[:-1],
        "stream": [line for line in lines if line["stream"] == "task/T-1"],
        "all": [],
    }[cut]
    assert refused(there, pack(tmp_path / "cut.zip", manifest, kept)) != []
    heads = {**manifest, "sha256": hashlib.sha256(
        b"".join(json.dumps(line).encode() + b"\n" for line in kept)).hexdigest()}  # fmt: skip
    assert refused(there, pack(tmp_path / "lying.zip", heads, kept)) != []


def _change_body(lines: Lines, kind: str, change: Callable[[Document], Any]) -> Lines:
    changed = [dict(line) for line in lines]
    for line in changed:
        if line["kind"] == kind:
            body = json.loads(line["body"])
            change(body)
            line["body"] = canonical_bytes(body).decode()
    return rechained(changed)


ODD: list[tuple[str, Callable[[Document], Any]]] = [
    ("handoff", lambda body: body.update(outcome="great")),
    ("handoff", lambda body: body.update(phase="Shipping it")),
    ("handoff", lambda body: body["gotchas"][0].update(severity=[1])),
    ("handoff", lambda body: body["artifacts"][0].update(type="binary")),
    ("handoff", lambda body: body["decisions"][0].pop("rationale")),
    ("handoff", lambda body: body.update(blockers=5)),
    ("handoff", lambda body: body.update(blockers=["text"])),
    ("task_created", lambda body: body.update(title=None)),
    ("task_created", lambda body: body.pop("phase")),
    ("task_created", lambda body: body.update(holder="mallory")),
    ("task_created", lambda body: body.update(status="cancelled")),
    ("decided", lambda body: body["decisions"][0].update(address="T-2#d9")),
]


@pytest.mark.promise("P-7", "S0-34")
@pytest.mark.parametrize(("kind", "change"), ODD)
def test_a_well_sealed_bundle_with_odd_content_is_refused(
    there: Workspace, bundle: Path, tmp_path: Path, kind: str, change: Callable[[Document], Any]
) -> None:
    """Digests only prove that nothing changed; what the records say is checked as well."""
    manifest, lines = content(bundle)
    target = pack(tmp_path / "odd.zip", manifest, _change_body(lines, kind, change), mend=True)
    assert refused(there, target) != []


HOLDERS: list[Any] = [[], {}, 0, False, None, "a b", "a\u202eb", {"a": 1}]
STATUSES: list[Any] = [None, [], "completed"]
ODD_CHANGES: list[Document] = [
    *({"holder": value} for value in HOLDERS),
    *({"status": value} for value in STATUSES),
    *({"phase": "completed"}, {"claimed_by": "x"}, {"task": "T-9"}, {"agent": "x"}),
    *({"metadata": {"a": 1}}, {"title": ""}, {}),
]


@pytest.mark.promise("P-7", "S0-34")
@pytest.mark.parametrize("odd", ODD_CHANGES)
def test_an_odd_change_of_a_task_is_refused(
    here: Workspace, there: Workspace, tmp_path: Path, odd: Document
) -> None:
    """A change has what a task has, its status and who works on it, and nothing else."""
    here.update_task("T-1", agent="planner", holder="planner")
    here.maintenance.export(str(tmp_path / "b.zip"))
    manifest, lines = content(tmp_path / "b.zip")

    def change(body: Document) -> None:
        body.pop("holder")
        body.update(odd)

    target = pack(
        tmp_path / "odd.zip", manifest, _change_body(lines, "task_changed", change), mend=True
    )
    assert refused(there, target) != []
    good = _change_body(lines, "task_changed", lambda body: body.update(holder="", status="open"))
    there.maintenance.import_bundle(str(pack(tmp_path / "good.zip", manifest, good, mend=True)))
    assert there.task("T-1").status == "open"
    assert "T-1" in [each.task for each in there.tasks(status="ready")]


@pytest.mark.promise("P-7", "S0-34")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "erased"),
        ("stream", "task/../../x"),
        ("stream", "access"),
        ("stream", "origin/T-2"),
        ("stream", "task/a b"),
        ("at", "yesterday"),
        ("author", "system of a down"),
    ],
)
def test_a_well_sealed_record_with_an_odd_envelope_is_refused(
    there: Workspace, bundle: Path, tmp_path: Path, field: str, value: str
) -> None:
    """Streams, kinds, times and authors keep to the rules, however good the digest."""
    manifest, lines = content(bundle)
    odd = rechained([{**line, field: value} for line in lines if line["stream"] == "task/T-2"])
    assert refused(there, pack(tmp_path / "odd.zip", manifest, odd, mend=True)) != []


def _zip(target: Path, members: list[tuple[str, bytes]]) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return target


@pytest.mark.promise("P-7", "P-6")
@pytest.mark.parametrize(
    "names",
    [
        ["../../../home/u/.bashrc"],
        ["/abs/x"],
        ["manifest.json", "records.jsonl", "../evil"],
        ["manifest.json"],
        ["manifest.json", "records.json"],
        [],
    ],
)
def test_odd_members_are_refused_and_nothing_is_unpacked(
    there: Workspace, tmp_path: Path, names: list[str]
) -> None:
    """An archive holds the two members and nothing else; no file is written from it."""
    target = _zip(tmp_path / "odd.zip", [(name, b"{}") for name in names])
    before = sorted(path for path in tmp_path.rglob("*") if "-shm" not in path.name)
    assert [code for _, code in refused(there, target)] == ["bad_archive"]
    assert sorted(path for path in tmp_path.rglob("*") if "-shm" not in path.name) == before


@pytest.mark.promise("P-7")
def test_a_member_twice_is_refused(there: Workspace, bundle: Path, tmp_path: Path) -> None:
    """Two readers of such an archive could see different records."""
    manifest, lines = content(bundle)
    target = pack(tmp_path / "twice.zip", manifest, lines)
    with zipfile.ZipFile(target, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("records.jsonl", b"")
    assert [code for _, code in refused(there, target)] == ["bad_archive"]


@pytest.mark.promise("P-7")
def test_bombs_are_refused_before_they_go_off(there: Workspace, tmp_path: Path) -> None:
    """A member that unpacks to too much is refused by what it says and by what it does."""
    large = _zip(
        tmp_path / "large.zip", [("manifest.json", b" " * (1 << 25)), ("records.jsonl", b"")]
    )
    assert large.stat().st_size < 100_000
    assert [code for _, code in refused(there, large)] == ["too_large"]
    lying = tmp_path / "lying.zip"
    with zipfile.ZipFile(lying, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b"{}")
        archive.writestr("records.jsonl", b"\n" * 1_000)
        archive.getinfo("records.jsonl").file_size = 4 << 30
    assert [code for _, code in refused(there, lying)] == ["too_large"]


@pytest.mark.promise("P-7")
def test_other_files_are_no_bundles(there: Workspace, bundle: Path, tmp_path: Path) -> None:
    """Tar, text, damaged zips, other manifests and missing files are each refused in words."""
    tar = tmp_path / "x.tar"
    with tarfile.open(tar, "w") as archive:
        link = tarfile.TarInfo("manifest.json")
        link.type, link.linkname = tarfile.LNKTYPE, "a/../../b"
        archive.addfile(link)
    text = tmp_path / "x.txt"
    text.write_text("not a zip", "utf-8")
    damaged = tmp_path / "damaged.zip"
    data = bytearray(bundle.read_bytes())
    start = data.index(b"records.jsonl") + 40
    data[start : start + 8] = bytes(8)
    damaged.write_bytes(bytes(data))
    cut = tmp_path / "cut.zip"
    cut.write_bytes(bundle.read_bytes()[:-30])
    packed = tmp_path / "lzma.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("manifest.json", b"{}")
        archive.writestr("records.jsonl", b"")
    for path in (tar, text, damaged, cut, packed, tmp_path):
        assert {code for _, code in refused(there, path)} == {"bad_archive"}, path
    assert refused(there, tmp_path / "none.zip") == [("path", "missing_file")]
    for manifest in (b"{}", b"[]", b'{"schema": "passdown/bundle/99"}', b"\xff", b"{"):
        odd = _zip(tmp_path / "odd.zip", [("manifest.json", manifest), ("records.jsonl", b"")])
        assert refused(there, odd) != []
    for line in (b"{}\n", b"[1]\n", b"{\n", b'{"stream": 1}\n', b"\xff\n"):
        digest = hashlib.sha256(line).hexdigest()
        listing: Document = {"schema": "passdown/bundle/1", "sha256": digest, "heads": {}}
        members = [("manifest.json", json.dumps(listing).encode()), ("records.jsonl", line)]
        assert refused(there, _zip(tmp_path / "odd.zip", members)) != []


@pytest.mark.promise("P-7")
def test_all_or_nothing(here: Workspace, there: Workspace, bundle: Path, tmp_path: Path) -> None:
    """One task that can't be taken keeps the others out as well."""
    there.create_task("T-2", title="Another", agent="a")
    assert refused(there, bundle) == [("task/T-2@2", "diverged")]
    assert there.files.load("T-1") is None
    del here, tmp_path


@pytest.mark.promise("P-9")
def test_an_import_renews_the_files_of_tasks_that_it_touches(
    here: Workspace, there: Workspace, tmp_path: Path
) -> None:
    """A task that was there already and is blocked by an imported one says so in its file."""
    there.create_task("T-2", title="Local", agent="a")
    only = tmp_path / "one.zip"
    here.maintenance.export(str(only), task="T-1")
    result = there.maintenance.import_bundle(str(only))
    assert result.touched == ("T-1", "T-2")
    with open(there.root + "/.passdown/state/T-2.json", encoding="utf-8") as file:
        handle = passdown.read_state_file(file.read())
    assert (handle["status"], handle["blocked_by"]) == ("blocked", ["T-1#b1"])


def test_an_export_never_overwrites(here: Workspace, bundle: Path, tmp_path: Path) -> None:
    """The target is a new file, private to its owner; an unknown task is not found."""
    assert bundle.stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidInput, match="unwritable"):
        here.maintenance.export(str(bundle))
    with pytest.raises(InvalidInput, match="unwritable"):
        here.maintenance.export(str(tmp_path / "no" / "folder.zip"))
    with pytest.raises(NotFound):
        here.maintenance.export(str(tmp_path / "new.zip"), task="T-9")
    with zipfile.ZipFile(io.BytesIO(bundle.read_bytes())) as archive:
        assert archive.testzip() is None


def test_a_bundle_with_a_secret_or_a_cycle_is_refused(
    there: Workspace, bundle: Path, tmp_path: Path
) -> None:
    """Secrets and cycles are kept out on every way in, also when everything else is well sealed."""
    manifest, lines = content(bundle)
    secret = "AKIA" + "IOSFODNN7" + "EXAMPLE"

    def with_title(title: str) -> Lines:
        return _change_body(lines, "task_created", lambda body: body.update(title=title))

    odd = pack(tmp_path / "secret.zip", manifest, with_title(secret), mend=True)
    assert "secret" in [code for _, code in refused(there, odd)]
    there.create_task("T-1", title="Here", agent="a", depends_on=["T-2"])
    made = there.root + "/../cycle.zip"
    with passdown.open(new_folder(tmp_path / "elsewhere")) as other:
        other.create_task("T-2", title="There", agent="a", depends_on=["T-1"])
        other.maintenance.export(made)
    with pytest.raises(InvalidInput, match="cycle"):
        there.maintenance.import_bundle(made)
    assert "task/T-2" not in there.maintenance.heads().heads


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with passdown.open(new_folder(tmp_path / "project")) as workspace:
        with pytest.raises(InvalidInput) as refused:
            workspace.maintenance.import_bundle(str(pipe))
        assert [problem.code for problem in refused.value.problems] == ["not_regular_file"]
