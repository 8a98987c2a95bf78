"""The relay: agents that run, talk, and hand on; one part of it per module.

Nothing is imported here: what a caller needs, it imports from its module, and the engine's library
(`dbos`) is loaded by `relay.engine` alone.
"""
