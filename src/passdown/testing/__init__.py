"""For tests, of Passdown and of what is built on it: a clock, full examples, the store's promises.

A store of your own is held to the promises of `passdown.store.protocol` by one class:

    class TestMyStore(StoreConformance):
        def make_store(self, place):
            return MyStore(place / "my.db")
"""

from passdown.testing.clocks import fixed_clock
from passdown.testing.conformance import StoreConformance
from passdown.testing.examples import full_handoff, write_files

__all__ = ["StoreConformance", "fixed_clock", "full_handoff", "write_files"]
