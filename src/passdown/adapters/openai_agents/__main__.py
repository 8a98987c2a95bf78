"""`python -m passdown.adapters.openai_agents SESSION [ITEMS]`: print the items of a session."""

from __future__ import annotations

import argparse
import sys

import passdown
from passdown.adapters.openai_agents.sessions import MODULE
from passdown.errors import PassdownError
from passdown.tools.history import ItemLog, history_lines, numbered_line, select_lines


def main(arguments: list[str] | None = None) -> int:
    """Print the items of a session; 1 with a message where that can't be."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("session", help="the session's id, such as T-1.handed")
    parser.add_argument("items", nargs="?", default="", help="4 or 4-9,12; without: a list")
    parser.add_argument("--at", default=".", help="the workspace's folder")
    given = parser.parse_args(arguments)
    try:
        with passdown.open(given.at, create=False) as workspace:
            found = history_lines(ItemLog(workspace, given.session))
            lines = select_lines(found, given.items)
    except PassdownError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    text = "".join(f"{numbered_line(line)}\n" for line in lines) or "\n"
    sys.stdout.buffer.write(text.encode(errors="backslashreplace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
