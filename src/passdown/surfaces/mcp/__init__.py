"""A Model Context Protocol server over standard input and output: what agents need, as tools.

Only `server` and `stdio` import the `mcp` package; everything else is plain values and texts.
"""
