"""Adapters for agent frameworks; each is loaded only when it is imported.

`memory` is a memory store on a workspace and `chroma` the same on ChromaDB. `states` is shared
agent state in plain Python; `langgraph` and `openai_agents` adapt those frameworks.
"""

from __future__ import annotations
