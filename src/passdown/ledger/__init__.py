"""The ledger: the only writer. Check, chain, append, derive; gates, verification, bundles."""

from __future__ import annotations

from passdown.ledger.writer import Entry, Ledger, Written

__all__ = ["Entry", "Ledger", "Written"]
