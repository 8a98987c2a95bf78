"""Adapters for agent frameworks; each is loaded only when it is imported.

`memory` is a memory store on a workspace and `chroma` the same on ChromaDB. `states` is shared
agent state in plain Python. `a2a` and `ag_ui` carry handoffs and gates over those protocols; the
others adapt the framework that they are named after.
"""

from __future__ import annotations
