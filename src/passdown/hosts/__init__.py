"""Coding agents (hosts): their definitions, the files set up for them, their hooks."""

from __future__ import annotations
