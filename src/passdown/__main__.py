"""`python -m passdown` is the command line."""

from __future__ import annotations

from passdown.cli.main import run

run()
