import asyncio

from passdown import aio


async def main() -> None:
    async with aio.open(".") as ws:
        await ws.create_task("T-1", title="Login", agent="planner")
        await ws.decide(task="T-1", agent="planner", summary="Use JWT", rationale="stateless")
        print((await ws.state("T-1")).decisions[0].summary)


asyncio.run(main())
