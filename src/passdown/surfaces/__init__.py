"""Surfaces: the ways in for people and programs. Each opens on the workspace, nothing below it."""
