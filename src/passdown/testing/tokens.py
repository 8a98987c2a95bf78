"""Write the table of tokens that short texts are counted by; see `core.tokens`."""

from __future__ import annotations

from passdown.core.tokens import FILE, SLOTS

LAST_TOKEN = 199_997
"""The last token of o200k_base; what follows is special."""


def made_table() -> bytes:
    """The table of the vocabulary in the installed tokenizer."""
    import zlib

    import splintr

    decode = splintr.Tokenizer.from_pretrained("o200k_base").decode_token_bytes
    slots = [0] * SLOTS
    blob = bytearray(SLOTS * 4)
    for token in (bytes(decode(number)) for number in range(LAST_TOKEN + 1)):
        if len(token) > 1:  # those of one byte aren't looked up
            slot = zlib.crc32(token) % SLOTS
            while slots[slot]:
                slot = (slot + 1) % SLOTS
            slots[slot] = len(blob)
            blob += bytes([len(token)]) + token
    blob[: SLOTS * 4] = b"".join(place.to_bytes(4, "little") for place in slots)
    return bytes(blob)


if __name__ == "__main__":
    with open(FILE, "wb") as file:
        file.write(made_table())
