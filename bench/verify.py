"""How long it takes to verify a large store, and whether that grows in step with its records."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import apsw

from bench import large
from bench.figures import Measured, Row, Target, interleaved, median, ms, spread
from passdown.store.sqlite.schema import rows

if TYPE_CHECKING:
    import passdown
    from bench.run import Run

LINEAR = Target("at most", 2.6)
HASHED = Target("at most", 8, is_goal=True)


def measure(run: Run) -> Measured:
    found = Measured("verify", "Verifying a large store")
    half = large.open_at(large.make(run.folder / "half", run.records // 2, run))
    whole = large.open_at(run.large)
    run.say("verify")
    calls = {
        "chain, half": lambda: _verified(half, chain_only=True),
        "chain": lambda: _verified(whole, chain_only=True),
        "full, half": lambda: _verified(half, chain_only=False),
        "full": lambda: _verified(whole, chain_only=False),
        "hashed": lambda: _hashed(whole),
    }
    times = interleaved(calls, 3)
    count = whole.verify(chain_only=True).records
    hashed = median(times["hashed"])
    half.close()
    whole.close()
    for name, words in (("full", "everything"), ("chain", "the chain only")):
        a, b = median(times[name]), median(times[f"{name}, half"])
        what = f"{words}, {count:,} records: {count / a:,.0f} a second"
        found.rows.append(Row(what, ms(a), f"{ms(b)} for half of them", a / b, LINEAR))
        beside = f"{ms(hashed)} reading and SHA-256 alone"
        found.rows.append(Row(words, ms(a), beside, a / hashed, HASHED))
    found.figures = {name: spread(samples) for name, samples in times.items()}
    found.figures["records"] = count
    found.notes.append(
        "Everything: SQLite's own page check, every record's digest and place, and every derived "
        "row against a replay of the records."
    )
    return found


def _hashed(workspace: passdown.Workspace) -> None:
    """Read every record's body and take its SHA-256, with nothing compared."""
    with apsw.Connection(workspace._context.store_file) as connection:
        for (body,) in rows(connection, "SELECT body FROM records ORDER BY seq"):
            hashlib.sha256(body).hexdigest()


def _verified(workspace: passdown.Workspace, *, chain_only: bool) -> None:
    result = workspace.verify(chain_only=chain_only)
    if not result.ok:
        raise AssertionError(result.findings[:3])
