"""The HTTP door: an API for tasks and everything around them, events, and MCP, behind one front.

`front` lets nobody in who shouldn't be: it is plain ASGI and comes before all else. `operations`
and its neighbours say what there is, as rows of a table; `app` and `serving` alone know FastAPI and
uvicorn. A dashboard would be one more module of rows beside them, behind the same front.
"""
