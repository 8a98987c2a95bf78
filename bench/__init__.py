"""Benchmarks: `python -m bench` measures everything side by side in one run."""
