"""Passdown in the shapes that other programs expect: each stands alone, and is loaded by who asks.

`memory` has a memory store on a workspace; `chroma` has the same on ChromaDB. `states` is the state
that agents share, in plain Python; `langgraph` and `openai_agents` bring those frameworks.
"""
