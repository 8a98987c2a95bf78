"""The serializer of checkpoints where no other is given: it revives known types and no others."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from passdown.errors import Damaged, Problem

_TAGS = ("null", "bytes", "bytearray", "msgpack")


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer with its allow-list on, whatever the environment says, and without
    the tags that it only reads for old data: one of them constructs objects by name.
    """

    def __init__(self) -> None:
        """Allowed are plain data, LangChain's messages and LangGraph's own types; compiling a
        graph in LangGraph's strict mode adds the types of its state.
        """
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The object; raises Damaged for a tag that this serializer never writes."""
        if data[0] not in _TAGS:
            problem = Problem("", "unknown_tag", repr(data[0]), f"one of {', '.join(_TAGS)}")
            raise Damaged("a stored value is of no kind that is written here", [problem])
        return super().loads_typed(data)
