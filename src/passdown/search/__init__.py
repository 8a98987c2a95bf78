"""Search over recorded entries: words, vectors, ranking. Derived from the ledger."""

from __future__ import annotations
