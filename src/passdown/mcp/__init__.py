"""Model Context Protocol server: the tools that agents call.

Only `server` imports the `mcp` package; everything else is plain values and texts.
"""

from __future__ import annotations
