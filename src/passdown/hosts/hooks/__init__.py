"""Hooks of hosts: give the agent its context, keep what it did, never block it."""

from __future__ import annotations
