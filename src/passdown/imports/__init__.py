"""Importers: readers of ADRs, beads, MCP memory and notes. Pure: text in, values out."""

from __future__ import annotations
