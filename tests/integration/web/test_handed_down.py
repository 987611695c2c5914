"""A task that one agent delegates to another: every surface names the whole chain, and who is waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import psycopg
import pytest

from agent.database.address import Address
from agent.domain.api_keys import Scope
from agent.store import views
from agent.usecases import pause
from slackbot.cli.requests import review
from slackbot.cli.runs import run_record
from slackbot.outbound.sender import RunOut
from tests.integration.handing_down import orders, refunds
from tests.integration.web.living import ADA, GRACE, Living, living
from tests.integration.web.visiting import PUBLIC, Porch


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Living]:
    """The service with an agent that works for another."""
    async with living(database_url, [orders, refunds], SIGNOFF_PUBLIC_URL=PUBLIC) as opened:
        yield opened


async def test_a_run_is_stored_with_its_ancestors_and_its_key(service: Living, database_url: str) -> None:
    """The INSERT that starts a run or opens a request writes them."""
    with psycopg.connect(Address.read(database_url).conninfo(), autocommit=True) as owner:
        asker = await service.program("asker", Scope.REQUEST, owner=ADA)
        parent = (await asker.post("/agents", json={"name": "orders", "task": "order 7"})).json()["agent_id"]
        await service.becomes(asker, parent, "pending_approval", waiting=1)
        question = {"request_id": "r-1", "action": "refund", "action_description": "Refund order 8"}
        opened = await asker.post("/pending", json=question)
        assert opened.status_code == 201, opened.text
        ((key,),) = owner.execute("SELECT id FROM api_key").fetchall()
        runs = owner.execute(
            "SELECT agent, ancestor_ids, ancestor_agents, api_key_id FROM agent_run ORDER BY id"
        ).fetchall()
        asked = owner.execute("SELECT source, api_key_id FROM approval_request ORDER BY id").fetchall()
    assert runs == [("orders", [], [], key), ("refunds", [UUID(parent)], ["orders"], key)]
    assert asked == [("run", None), ("api", key)]


async def test_who_waits_for_whom_is_said_everywhere(service: Living) -> None:
    """API, inbox, lists, page, Slack and command line name the chain; the run above waits while the one below does."""
    asker = await service.program("asker", Scope.REQUEST, owner=ADA)
    grace = await service.reviewer()
    parent = (await asker.post("/agents", json={"name": "orders", "task": "order 7"})).json()["agent_id"]
    seen = await service.becomes(grace, parent, "pending_approval", waiting=1)
    assert seen["question"] == "Refund order 7?"
    (question,) = seen["requests"]
    assert (question["agent"], question["above"]) == ("refunds", ["orders"])

    (asked,) = (await grace.get("/pending")).json()["items"]
    assert (asked["agent"], asked["above"]) == ("refunds", ["orders"])
    child = asked["run_id"]
    assert (await grace.get(f"/agents/{child}")).json()["above"] == ["orders"]
    for which in ("waiting", "active"):
        assert [each["agent_id"] for each in (await grace.get(f"/agents/{which}")).json()] == [child, parent]
    paused = await grace.get(f"/agents/orders/runs/{parent}", params={"wait": 1})
    assert paused.json()["status"] == "paused"
    waits = [each["request_id"] for each in paused.json()["tools"] if each["requires_confirmation"]]
    assert waits == [asked["id"]]

    async with service.house.db.connection() as connection:
        above = await views.run_view(connection, UUID(parent))
        below = await views.run_view(connection, UUID(child))
        view = await views.request_view(connection, UUID(asked["id"]))
        listed = await views.search_runs(connection, status=above.shown if above else None)
        idle = not await views.is_busy(connection, UUID(parent))
    assert above is not None
    assert below is not None
    assert view is not None
    assert (run_record(above)["status"], run_record(above)["waiting"]) == ("pending_approval", 1)
    assert run_record(below)["above"] == RunOut.copy_of(below).above == ["orders"]
    assert review(service.service.settings, view)["above"] == ["orders"]
    assert (listed, idle) == ([UUID(child), UUID(parent)], True)

    visitor = await Porch(service.house, service.service).visitor("U0GRACE")
    await visitor.open("/inbox")
    assert "through orders › refunds" in visitor.words
    await pause.pause(service.house.db, "orders", by=f"slack:{GRACE}")
    await visitor.open(f"/inbox/requests/{asked['id']}")
    assert "Agent orders paused by @grace" in visitor.words
    await pause.resume(service.house.db, "orders", by=f"slack:{GRACE}")
    await visitor.open("/inbox/runs")
    assert "Waiting for review 1 request waits, asked by refunds" in visitor.words
    await visitor.open(f"/inbox/runs/{parent}")
    assert "Waiting for review 1 request waits, asked by refunds" in visitor.words
    await visitor.browser.aclose()
    waiting = "Waiting for refunds, which waits for review"
    await service.house.says(waiting, channel="C0REVIEW")
    status = await service.house.slack.person("U0GRACE").command("/agent", "status", "C0REVIEW")
    assert waiting in str(status.response)
    everything = await service.house.slack.person("U0GRACE").command("/approvals", "all", "C0REVIEW")
    assert "orders › refunds" in str(everything.response)

    answer = await grace.post(f"/agents/{parent}/respond", json={"response": "approve"})
    assert (answer.status_code, answer.json()["request_id"]) == (200, asked["id"])
    done = await service.becomes(grace, parent, "completed", waiting=0)
    assert done["answer"] == "refunded order 7"
    assert (await grace.get("/agents/waiting")).json() == []
