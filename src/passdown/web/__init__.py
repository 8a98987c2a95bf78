"""HTTP server: the API, events and MCP behind one gateway.

`gateway` is plain ASGI and checks every request first. The routes say what there is; `app` makes
them a Starlette application and `server` runs it under uvicorn.
"""

from __future__ import annotations
