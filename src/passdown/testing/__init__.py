"""Test helpers, also for what is built on Passdown: a clock, examples, store conformance.

One class tests a store of your own against `passdown.store.protocol`:

    class TestMyStore(StoreConformance):
        def make_store(self, place):
            return MyStore(place / "my.db")
"""

from __future__ import annotations

from passdown.testing.conformance import StoreConformance
from passdown.testing.examples import fixed_clock, full_handoff, write_files

__all__ = ["StoreConformance", "fixed_clock", "full_handoff", "write_files"]
