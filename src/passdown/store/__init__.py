"""Where the bytes are kept. `opening.open_store` is the only place that chooses a database."""
