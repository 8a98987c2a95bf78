"""Who brought a record: an import is recorded beside each task, and the log shows it, here and
through a server. What a brought record says of its own door is a claim.
"""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.core.record import Head, Record, canonical_bytes, chained
from tests.folders import new_folder
from tests.interfaces.repositories import run
from tests.interfaces.running import data_of

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace
    from tests.serving import Served

QUICK = Settings(durability="normal", embedder="none")


@pytest.fixture
def forged(tmp_path: Path) -> Path:
    """A bundle whose second record says that it came with a person's token of the server."""
    import hashlib

    (tmp_path / "maker").mkdir()
    plain, target = tmp_path / "plain.passdown", tmp_path / "forged.passdown"
    with passdown.open(new_folder(tmp_path / "maker"), settings=QUICK) as ws:
        ws.create_task("T-9", title="Pay", agent="planner")
        ws.decide(task="T-9", agent="boss", summary="Ship it", rationale="I said so")
        ws.maintenance.export(str(plain))
    with zipfile.ZipFile(plain) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        lines = [json.loads(line) for line in archive.read("records.jsonl").splitlines()]
    first, second = lines
    body = canonical_bytes({**json.loads(second["body"]), "via": "token:boss1"}).decode()
    fields: dict[str, Any] = {**second, "body": body.encode()}
    record = Record(**fields)
    sealed = chained(record, Head("task/T-9", 1, first["digest"]))
    lines[1] = {**second, "body": body, "digest": sealed.digest}
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    manifest |= {"heads": {"task/T-9": [2, sealed.digest]}}
    manifest |= {"sha256": hashlib.sha256(data).hexdigest()}
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("records.jsonl", data)
    return target


def lines_of(ws: Workspace) -> list[dict[str, Any]]:
    return [line.to_dict() for line in ws.log("T-9")]


@pytest.mark.promise("M-11", "W-2")
def test_an_import_over_http_is_its_tokens(server: Served, ws: Workspace, forged: Path) -> None:
    """Whatever the request and the records claim, the log names the token's holder and its id."""
    token = server.token("kim", "read", "write", "admin", is_person=True)
    with passdown.open(server.url, token=token) as remote:
        remote.maintenance.import_bundle(str(forged), agent="boss")
        remote.warn("T-9", agent="kim", text="written here")
        told = lines_of(remote)
        shown = remote.show("T-9#d1").source
        changes = remote.changes().changes
    door = f"token:{token.split('_')[1]}"
    written, decided, created = told
    assert (written["via"], "imported" in written) == (door, False)
    for line in (decided, created, shown):
        assert "via" not in line
        assert (line["imported"]["by"], line["imported"]["via"]) == ("kim", door)
        assert line["imported"]["bundle"].startswith("sha256:")
    assert decided["imported"]["claimed_via"] == "token:boss1"
    assert "claimed_via" not in created["imported"]
    assert lines_of(ws) == told
    assert [line.to_dict() for line in changes if line.task == "T-9"] == told[::-1]
    assert ws.verify().ok


@pytest.mark.promise("M-11")
def test_an_import_beside_the_store_names_who_did_it(tmp_path: Path, forged: Path) -> None:
    """The command line says who brought a task, in its log and with each of its items."""
    there = tmp_path / "there"
    there.mkdir()
    assert run(there, "init").code == 0
    assert run(there, "import", str(forged), agent="lee").code == 0
    assert "boss, by lee's bundle" in run(there, "log", "T-9").out
    shown = run(there, "show", "T-9#d1").out
    assert "imported by" in shown
    assert "token:boss1" in shown.partition("claims via")[2]
    assert run(there, "import", str(forged), agent="mia").code == 0
    (decided, _) = data_of(run(there, "log", "T-9", "--json").out)
    assert (decided["imported"]["by"], "via" in decided) == ("lee", False)


@pytest.mark.promise("M-11")
def test_what_is_brought_later_names_who_brought_that(tmp_path: Path, forged: Path) -> None:
    """A newer copy of a task names its own bringer for what it adds, and no more; forks too."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        passdown.open(new_folder(tmp_path / "a"), settings=QUICK) as here,
        passdown.open(new_folder(tmp_path / "b"), settings=QUICK) as there,
    ):
        here.maintenance.import_bundle(str(forged), agent="lee")
        there.maintenance.import_bundle(str(forged), agent="mia")
        here.warn("T-9", agent="coder", text="more")
        here.maintenance.export(str(tmp_path / "more"))
        there.maintenance.import_bundle(str(tmp_path / "more"), agent="noa")
        assert [line["imported"]["by"] for line in lines_of(there)] == ["noa", "mia", "mia"]
        there.warn("T-9", agent="coder", text="only there")
        here.warn("T-9", agent="coder", text="only here")
        here.maintenance.export(str(tmp_path / "other"))
        there.maintenance.import_bundle(str(tmp_path / "other"), agent="pat", fork="x")
        assert {(line.imported or {}).get("by") for line in there.log("T-9.x")} == {"pat"}
        assert "imported" not in lines_of(there)[0]
        assert there.verify().ok
        with pytest.raises(passdown.errors.InvalidInput, match="agent"):
            there.maintenance.import_bundle(str(forged), agent="no such name")
