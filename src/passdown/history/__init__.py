"""Reads of the past: state, log, deliveries, files. Derived from the ledger."""
