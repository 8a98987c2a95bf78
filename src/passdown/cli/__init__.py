"""The command line: parse, call an operation, print."""

from __future__ import annotations
