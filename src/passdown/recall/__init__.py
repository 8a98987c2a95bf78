"""Reading back: state, history, single items, files; all derived from the ledger."""
