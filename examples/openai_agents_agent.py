"""An agent of the OpenAI Agents SDK whose deletions wait for people. It can be killed while it waits, and restarted.

SIGNOFF_URL and SIGNOFF_KEY say where to ask (`signoff demo` prints both), OPENAI_BASE_URL and OPENAI_API_KEY which
model to use: `python -m signoff_demo.sandbox.model` is a scripted one. The argument is the folder for waiting runs
(default: `runs`).
"""

import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from signoff import AsyncApprovalClient
from signoff.integrations.openai_agents import FileRunStore, OpenAIApprovals

set_tracing_disabled(True)
approvals = OpenAIApprovals(AsyncApprovalClient(os.environ["SIGNOFF_URL"], os.environ["SIGNOFF_KEY"]))


@approvals.guard
@function_tool
def delete_records(table_name: str, count: int) -> str:
    """Delete the oldest records of a table."""
    print(f"deleting {count} records from {table_name}", flush=True)
    return f"Deleted {count} records from {table_name}"


model = OpenAIChatCompletionsModel(os.environ.get("OPENAI_MODEL", "signoff-scripted"), AsyncOpenAI())
agent = Agent(name="cleaner", instructions="You keep the tables tidy.", model=model, tools=[delete_records])


async def main(folder: str) -> None:
    task = "delete_records table_name=users count=50"
    result = await approvals.run(agent, task, key="nightly-17", store=FileRunStore(folder))
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "runs"))
