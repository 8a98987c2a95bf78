import asyncio
import sys

from mcp import Client, StdioServerParameters

SERVER = StdioServerParameters(
    command=sys.executable, args=["-m", "passdown", "mcp"], env={"PASSDOWN_AGENT": "coder"}
)


async def main() -> None:
    async with Client(SERVER) as client:
        for name, arguments in (
            ("task_new", {"task": "T-1", "title": "Login"}),
            ("decide", {"task": "T-1", "summary": "JWT", "rationale": "no sessions to keep"}),
            (
                "handoff",
                {"task": "T-1", "outcome": "partial", "files": ["../keys"], "to": "tester"},
            ),
            ("handoff", {"task": "T-1", "outcome": "completed", "to": "tester", "summary": "Done"}),
            ("recall", {"query": "why no sessions?", "task": "T-1", "limit": 1}),
            ("tasks", {}),
        ):
            result = await client.call_tool(name, arguments)
            print(f"{name}{' (error)' if result.is_error else ''}>", result.content[0].text)


asyncio.run(main())
