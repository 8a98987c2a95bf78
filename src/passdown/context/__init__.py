"""Text for the next agent within a budget. Pure: facts in, text out."""

from __future__ import annotations
