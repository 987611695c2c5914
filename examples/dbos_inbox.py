"""An agent inbox on DBOS: agents wait for people, for days and across restarts, and can be listed.

Run it beside `signoff demo`, or beside `signoff serve` with SIGNOFF_WEBHOOK_NETWORKS=127.0.0.0/8, because both are on
one machine. The first command needs that setting, too:

    $ signoff webhooks add inbox http://127.0.0.1:8000/signoff --event decision.made
    $ SIGNOFF_URL=… SIGNOFF_KEY=… SIGNOFF_WEBHOOK_SECRET=… python examples/dbos_inbox.py
    $ curl http://127.0.0.1:8000/agents --json '{"name": "tidy", "task": "Tidy up"}'
"""

import asyncio
import os
from datetime import UTC, datetime
from typing import Any

import uvicorn
from dbos import DBOS, DBOSConfig
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

from signoff import CollaborationError
from signoff.integrations.dbos import DBOSApprovals, NotFromSignoff

AGENT_STATUS = "agent_status"

app = FastAPI()
approvals = DBOSApprovals(
    os.environ["SIGNOFF_URL"],
    os.environ["SIGNOFF_KEY"],
    webhook_secret=os.environ.get("SIGNOFF_WEBHOOK_SECRET"),
)


class AgentStart(BaseModel):
    name: str
    task: str


class AgentStatus(BaseModel):
    agent_id: str
    name: str
    task: str
    status: str
    created_at: str
    question: str


# --8<-- [start:agent]
@DBOS.workflow()
def durable_agent(start: AgentStart) -> str:
    status = AgentStatus(
        agent_id=str(DBOS.workflow_id),
        name=start.name,
        task=start.task,
        status="working",
        created_at=now(),
        question=f"Should I proceed with task: {start.task}?",
    )
    DBOS.set_event(AGENT_STATUS, status)
    status.status = "pending_approval"
    DBOS.set_event(AGENT_STATUS, status)
    try:
        decision = approvals.await_approval(description=status.question, timeout="3d", agent=start.name)
    except CollaborationError:  # rejected, or nobody answered in time
        status.status = "denied"
        DBOS.set_event(AGENT_STATUS, status)
        raise
    status.status = "working"
    DBOS.set_event(AGENT_STATUS, status)
    return approvals.perform(decision, lambda: f"Agent successful: {start.task}")
    # --8<-- [end:agent]


@DBOS.step()
def now() -> str:
    return datetime.now(UTC).isoformat()


@DBOS.workflow()
def sweep(at: datetime, _: Any) -> None:
    """Every minute, for webhooks that did not arrive."""
    approvals.sweep()


# --8<-- [start:woken]
@app.post("/signoff")
async def decision_made(request: Request) -> dict[str, bool]:
    try:
        return {"woke": await approvals.hear_async(request.headers, await request.body())}
    except NotFromSignoff as error:
        raise HTTPException(401, str(error)) from None
    # --8<-- [end:woken]


@app.post("/agents")
def start_agent(start: AgentStart) -> dict[str, str]:
    return {"agent_id": DBOS.start_workflow(durable_agent, start).workflow_id}


@app.get("/agents/waiting")
async def list_waiting_agents() -> list[AgentStatus]:
    return [each for each in await statuses("PENDING") if each.status == "pending_approval"]


@app.get("/agents/approved")
async def list_approved_agents() -> list[AgentStatus]:
    return await statuses("SUCCESS")


@app.get("/agents/denied")
async def list_denied_agents() -> list[AgentStatus]:
    return await statuses("ERROR")


async def statuses(status: str) -> list[AgentStatus]:
    found = await DBOS.list_workflows_async(status=status, name=durable_agent.__qualname__)
    published = [DBOS.get_event_async(each.workflow_id, AGENT_STATUS, timeout_seconds=1) for each in found]
    return [each for each in await asyncio.gather(*published) if each is not None]


if __name__ == "__main__":
    config: DBOSConfig = {
        "name": "inbox",
        "system_database_url": os.environ.get("DBOS_SYSTEM_DATABASE_URL"),  # default: SQLite in this folder
        "application_version": "1",
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()
    DBOS.apply_schedules([{"schedule_name": "sweep", "workflow_fn": sweep, "schedule": "* * * * *"}])
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")), log_level="warning")
