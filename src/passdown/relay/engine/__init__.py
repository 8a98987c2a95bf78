"""The engine: legs and express items as durable workflows, on SQLite or PostgreSQL.

The ledger says what is to be done and what was done; the engine only sees to it that somebody does
it. So a workflow may be lost or run twice without harm: its effect is a record with a key of its
own, and what is open in the ledger is queued again. This is the only package that knows `dbos`.
"""
