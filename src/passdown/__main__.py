"""`python -m passdown` is the command line."""

from passdown.surfaces.cli.main import run

run()
