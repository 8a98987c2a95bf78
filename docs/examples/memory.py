import asyncio
from datetime import UTC, datetime

from passdown import Decision
from passdown.adapters.memory import LedgerMemory


async def work(memory: LedgerMemory) -> None:
    await memory.store_embedding(
        "req-7", "Customers sign in with a password", {"source": "interview", "pages": [3, 4]}
    )
    await memory.store_embedding("req-8", "Invoices are sent as PDF files", {})
    await memory.store_relationship("story-12", "req-7", "implements")
    key = await memory.store_decision(
        Decision(
            summary="Keep login sessions in Redis",
            rationale="They must survive a restart of the server",
            agent="architect",
            at=datetime(2026, 1, 9, 10, tzinfo=UTC),
            artifacts=("src/session.py", "req-7"),
        )
    )
    best = (await memory.search_similar("how does a user log in?", k=1))[0]
    print(best.key, dict(best.metadata))
    for found in await memory.query_decisions("where are sessions stored?", agent="architect"):
        print(found.key == key, found.decision.summary)


async def main() -> None:
    async with await LedgerMemory.open("memories", project="shop") as memory:
        await work(memory)
        for relation in await memory.relationships(target="req-7"):
            print(relation.source, relation.relation, relation.target)
        for place in await memory.get_related("story-12", depth=2):
            print(place.depth, place.node)


asyncio.run(main())
