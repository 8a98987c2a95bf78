"""Agents of each framework, played by scripts, in the environment that the framework needs."""
