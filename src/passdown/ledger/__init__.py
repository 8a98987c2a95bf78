"""The ledger: the only writer. Check, chain, append, derive; gates, verification, bundles."""

from __future__ import annotations
