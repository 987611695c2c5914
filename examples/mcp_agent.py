"""An MCP client that asks people through `signoff mcp` before it deletes anything.

SIGNOFF_URL and SIGNOFF_KEY say where to ask (`signoff demo` prints both). A coding agent needs no program: `claude mcp
add signoff -- signoff mcp`, then `claude -p … --permission-prompt-tool mcp__signoff__permission_prompt`.
"""

import asyncio
import os

from mcp import Client, StdioServerParameters

signoff = StdioServerParameters(
    command="signoff",
    args=["mcp"],
    env={name: os.environ[name] for name in ("PATH", "SIGNOFF_URL", "SIGNOFF_KEY")},
)


def delete_records(table_name: str, count: int) -> str:
    """Delete the oldest records of a table."""
    return f"Deleted {count} records from {table_name}"


async def main() -> None:
    async with Client(signoff) as people:
        asked = {"action": "delete_records", "arguments": {"table_name": "users", "count": 50}}
        word = (await people.call_tool("request_approval", asked)).structured_content or {}
        while word.get("status") == "waiting":
            again = {"request_id": word["request_id"]}
            word = (await people.call_tool("get_decision", again)).structured_content or {}
    if word.get("approved"):
        print(delete_records(**word["arguments"]))
    else:
        print(word.get("message"))


if __name__ == "__main__":
    asyncio.run(main())
