"""The knowledge graph: queries, files, pictures, audit and journal; all derived from the ledger."""
