"""Agno's AgentOS, whose confirmations people give in Slack. It can be killed while a run is paused, and restarted.

SIGNOFF_URL and SIGNOFF_KEY say where to ask (`signoff demo` prints both), AGNO_DB_URL where Agno stores its runs,
OPENAI_BASE_URL and OPENAI_API_KEY which model to use: `python -m signoff_demo.sandbox.model` is a scripted one.

    curl -X POST http://localhost:7777/agents/data_manager/runs \
      -F "message=Delete 50 old records from the users table" -F "session_id=test_session" -F "stream=false"

This answers with the status PAUSED. Once somebody approves in Slack, the run continues without a second call.
"""

import os

from agno.agent import Agent
from agno.db.postgres import PostgresDb
from agno.models.openai import OpenAIChat
from agno.os import AgentOS
from agno.tools import tool

from signoff import AsyncApprovalClient
from signoff.integrations.agno import AgnoApprovals

# --8<-- [start:agent]
approvals = AgnoApprovals(AsyncApprovalClient(os.environ["SIGNOFF_URL"], os.environ["SIGNOFF_KEY"]))
db = PostgresDb(db_url=os.environ.get("AGNO_DB_URL", "postgresql+psycopg://ai:ai@localhost:5532/ai"))


@approvals.guard
@tool(requires_confirmation=True)
def delete_records(table_name: str, count: int) -> str:
    """Delete records from a database table.

    Args:
        table_name: Name of the table
        count: Number of records to delete

    Returns:
        str: Confirmation message
    """
    return f"Deleted {count} records from {table_name}"


# --8<-- [end:agent]


@approvals.guard
@tool(requires_confirmation=True)
def send_notification(recipient: str, message: str) -> str:
    """Send a notification to a user.

    Args:
        recipient: Email or username of the recipient
        message: Notification message

    Returns:
        str: Confirmation message
    """
    return f"Sent notification to {recipient}: {message}"


agent = Agent(
    name="Data Manager",
    id="data_manager",
    model=OpenAIChat(id=os.environ.get("OPENAI_MODEL", "gpt-4o-mini")),
    tools=[delete_records, send_notification],
    instructions=["You help users manage data operations"],
    db=db,
    markdown=True,
    telemetry=False,
)

# --8<-- [start:os]
agent_os = AgentOS(
    id="agentos-hitl",
    agents=[agent],
    lifespan=lambda app: approvals.answering(agent),
    telemetry=False,
)
# --8<-- [end:os]

app = agent_os.get_app()

if __name__ == "__main__":
    agent_os.serve(app=app, port=7777)
