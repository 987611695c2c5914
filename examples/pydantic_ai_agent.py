"""A pydantic-ai agent whose deletions wait for people. It can be killed while it waits, and restarted.

SIGNOFF_URL and SIGNOFF_KEY say where to ask (`signoff demo` prints both); the argument is the file for the waiting run
(default: `nightly-17.json`). The model is a function, so that this runs without a paid one: replace it by
"openai:gpt-5" or any other.
"""

import asyncio
import os
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests

from signoff import AsyncApprovalClient
from signoff.integrations.pydantic_ai import PausedRun, PydanticAIApprovals


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    told = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if told:
        return ModelResponse(parts=[TextPart(f"Done: {told[0]}")])
    asked = {"table_name": "users", "count": 50}
    return ModelResponse(parts=[ToolCallPart("delete_records", asked, tool_call_id="call-1")])


client = AsyncApprovalClient(os.environ["SIGNOFF_URL"], os.environ["SIGNOFF_KEY"])
approvals = PydanticAIApprovals(client)
agent = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests], capabilities=[approvals])


@agent.tool_plain(requires_approval=True)
def delete_records(table_name: str, count: int) -> str:
    """Delete the oldest records of a table."""
    print(f"deleting {count} records from {table_name}", flush=True)
    return f"Deleted {count} records from {table_name}"


async def main(kept: Path) -> None:
    if kept.exists():
        paused = PausedRun.of_json(kept.read_bytes())
    else:
        result = await agent.run("Delete 50 old records from the users table")
        paused = PausedRun.of(result)
        kept.write_bytes(paused.to_json())
    answers = await approvals.answer(paused.requests, key=kept.stem)
    result = await agent.run(message_history=paused.messages, deferred_tool_results=answers)
    kept.unlink()
    print(result.output)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "nightly-17.json")))
