"""The truth: the only writer. Validate, chain, append; read and verify."""

from passdown.ledger.writing import Entry, Ledger, Written

__all__ = ["Entry", "Ledger", "Written"]
