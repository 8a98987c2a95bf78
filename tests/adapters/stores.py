"""Both memory stores, opened alike, with an embedder that needs nothing."""

from __future__ import annotations

import hashlib
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from passdown import Decision
from passdown.adapters.chroma import ChromaMemory
from passdown.adapters.memory import LedgerMemory
from tests.serving import over_http

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

Memory = LedgerMemory | ChromaMemory

KINDS = ("ledger", "chroma")
START = datetime(2026, 1, 9, 10, tzinfo=UTC)


def trigrams(texts: Sequence[str]) -> list[list[float]]:
    """Vectors of the letters that stand together: alike for texts that are worded alike."""
    return [_vector(f"  {text.lower()}  ") for text in texts]


def _vector(text: str) -> list[float]:
    found = [0.0] * 256
    for at in range(len(text) - 2):
        found[hashlib.blake2b(text[at : at + 3].encode(), digest_size=1).digest()[0]] += 1.0
    return found


@asynccontextmanager
async def opened(kind: str, folder: Path, project: str = "shop") -> AsyncGenerator[Memory]:
    """The memory of a project, closed at the end; behind a server, with the ledger's there."""
    if kind == "server":
        async with opened("ledger", folder, project) as there:
            assert isinstance(there, LedgerMemory)
            with over_http(there.workspace) as remote:
                yield LedgerMemory(remote)
        return
    memory: Memory
    if kind == "ledger":
        memory = await LedgerMemory.open(folder, project)
        memory.workspace.embeddings.use("trigrams", trigrams)
    else:
        memory = ChromaMemory(folder, project, embed=trigrams)
    async with memory:
        yield memory


def decision(
    summary: str, agent: str = "planner", *, number: int = 0, artifacts: tuple[str, ...] = ()
) -> Decision:
    """A decision at a time of its own."""
    return Decision(
        summary=summary,
        rationale="It was the simplest that works, as far as we know.",
        agent=agent,
        at=START + timedelta(seconds=number),
        artifacts=artifacts,
    )
