"""Frozen values and pure rules: no files, no clock, no database."""

from __future__ import annotations
