"""Write the table of tokens that short texts are counted by; see `core.token_table`."""

from __future__ import annotations

from passdown.core.token_table import FILE, table_bytes

LAST_TOKEN = 199_997
"""The last token of o200k_base; what follows is special."""


def made_table() -> bytes:
    """The table of the vocabulary in the installed tokenizer."""
    import splintr

    decode = splintr.Tokenizer.from_pretrained("o200k_base").decode_token_bytes
    return table_bytes([bytes(decode(token)) for token in range(LAST_TOKEN + 1)])


if __name__ == "__main__":
    with open(FILE, "wb") as file:
        file.write(made_table())
