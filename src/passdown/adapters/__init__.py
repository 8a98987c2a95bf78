"""Passdown in the shapes that other programs expect: one module for each, none imported by others.

`memory` has a memory store on a workspace; `chroma` has the same on ChromaDB.
"""
