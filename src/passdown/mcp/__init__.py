"""Model Context Protocol server: the tools that agents call."""

from __future__ import annotations
