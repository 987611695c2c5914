"""Tools that a program elsewhere executes: approved here, claimed and reported over HTTP, and the agent waits."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.domain.api_keys import Scope
from agent.domain.people import Standing
from agent.usecases import calls, pause, requests
from signoff import Agent, function_agent, step, tool
from tests.integration.asking import write
from tests.integration.service.conftest import until
from tests.integration.web.living import GRACE, Living, living
from tests.warm_python import warm

EXAMPLE = Path(__file__).parents[3] / "examples" / "warehouse.py"

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
unmatched = "allow"

[[checkpoint]]
checkpoint_id = "shipments"
action_pattern = "ship_*"
"""

weights = {7: 1.0}


@tool(external=True, facts=lambda order_id: {"weight": weights[order_id]})
def ship_order(order_id: int) -> str:
    """Ship an order."""
    raise AssertionError("the service never calls it")


@tool(external="warehouse")
def count_stock(shelf: str) -> str:
    """Count what is on a shelf."""
    raise AssertionError("the service never calls it")


AGENT = Agent("shop", "Ship and count.", tools=[ship_order, count_stock])


@function_agent(tools=[count_stock])
async def counting(task: str) -> str:
    return repr(await step(count_stock, shelf=task))


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Living]:
    """The service with agents whose tools are executed elsewhere."""
    async with living(database_url, [AGENT, counting], POLICY) as opened:
        yield opened


@pytest.fixture
async def warehouse(service: Living) -> httpx.AsyncClient:
    """The program that carries them out."""
    return await service.program("warehouse", Scope.EXECUTE)


async def _started(service: Living, task: str, agent: str = "shop") -> tuple[httpx.AsyncClient, str]:
    asker = service.clients.get("asker") or await service.asker()
    service.clients["asker"] = asker
    answer = await asker.post("/agents", json={"name": agent, "task": task})
    assert answer.status_code == 201, answer.text
    return asker, answer.json()["agent_id"]


async def _approved(service: Living, asker: httpx.AsyncClient, run: str) -> str:
    """Grace approves what the run asks; returns the request."""
    waiting = await service.becomes(asker, run, "pending_approval")
    request: str = waiting["requests"][0]["request_id"]
    grace = service.clients.get("grace") or await service.reviewer()
    service.clients["grace"] = grace
    answer = await grace.post(f"/approve/{request}", json={"decision": "approved"})
    assert answer.status_code == 200, answer.text
    return request


async def _handed_out(warehouse: httpx.AsyncClient) -> dict[str, Any]:
    (found,) = (await warehouse.get("/executions?wait=30")).json()
    assert isinstance(found, dict)
    return found


async def _claimed(warehouse: httpx.AsyncClient, call: str, **body: Any) -> dict[str, Any]:
    answer = await warehouse.post(f"/executions/{call}/claim", json=body)
    assert answer.status_code == 200, answer.text
    claim: dict[str, Any] = answer.json()
    return claim


async def _problem(client: httpx.AsyncClient, path: str, **body: Any) -> tuple[int, str]:
    answer = await client.post(f"/executions/{path}", json=body)
    return answer.status_code, answer.json()["type"].removeprefix("urn:signoff:")


async def test_a_program_carries_out_what_people_approved(
    service: Living, warehouse: httpx.AsyncClient
) -> None:
    """Nothing is handed out before the approval; one claim gets the arguments, and its result reaches the agent."""
    asker, run = await _started(service, "ship_order order_id=7")
    await service.becomes(asker, run, "pending_approval")
    assert (await warehouse.get("/executions")).json() == []
    (call,) = await service.house.column("SELECT id::text FROM tool_call")
    assert await _problem(warehouse, f"{call}/claim") == (409, "not-approved")
    assert (await asker.get("/executions")).status_code == 403
    request = await _approved(service, asker, run)

    found = await _handed_out(warehouse)
    assert (found["call_id"], found["request_id"], found["tool"]) == (call, request, "ship_order")
    view = (await service.clients["grace"].get(f"/pending/{request}")).json()
    assert (view["executor"], view["claim_until"]) == ("*", found["claim_until"])
    claim = await _claimed(warehouse, call, lease=60)
    assert (claim["action"]["arguments"], claim["idempotency_key"]) == ({"order_id": 7}, call)
    assert await _problem(warehouse, f"{call}/claim") == (409, "claimed")
    assert (await warehouse.get("/executions")).json() == []

    report = {"status": "succeeded", "result": {"parcel": "P-7"}, "seconds": 3.5}
    assert await _problem(warehouse, f"{call}/result", token="x", **report) == (403, "wrong-token")
    for _ in range(2):  # the same report again changes nothing
        answer = await warehouse.post(f"/executions/{call}/result", json={"token": claim["token"], **report})
        assert answer.status_code == 200, answer.text
    done = await service.becomes(asker, run, "completed")
    assert "P-7" in done["answer"]
    other = {"status": "failed", "error": "lost"}
    assert await _problem(warehouse, f"{call}/result", token=claim["token"], **other) == (409, "reported")
    assert await service.house.column("SELECT worker FROM execution") == ["key:warehouse"]
    recorded = "SELECT event || ' ' || actor FROM audit_event WHERE event LIKE 'execution.%' ORDER BY at"
    assert await service.house.column(recorded) == [
        "execution.claimed key:warehouse",
        "execution.succeeded key:warehouse",
        "execution.late_result key:warehouse",
    ]


async def test_a_step_of_a_function_returns_what_the_program_reports(
    service: Living, warehouse: httpx.AsyncClient
) -> None:
    """It is handed out like a model's call, and the function receives the reported value: text stays text."""
    for result in ({"boxes": 3}, "7", None):
        asker, run = await _started(service, "A7", "counting")
        call = (await _handed_out(warehouse))["call_id"]
        claim = await _claimed(warehouse, call)
        report = {"token": claim["token"], "status": "succeeded", "result": result}
        answer = await warehouse.post(f"/executions/{call}/result", json=report)
        assert answer.status_code == 200, answer.text
        assert (await service.becomes(asker, run, "completed"))["answer"] == repr(result)


async def test_a_claim_whose_answer_was_lost_is_repeated(
    service: Living, warehouse: httpx.AsyncClient
) -> None:
    """The same claim again gets the same token while its attempt is open, another claim does not, and none is kept."""
    await _started(service, "count_stock shelf=A")
    path = f"/executions/{(await _handed_out(warehouse))['call_id']}/claim"
    first, again, other = [
        await warehouse.post(path, json={"lease": 60}, headers={"Idempotency-Key": key})
        for key in ("once", "once", "other")
    ]
    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 409)
    assert again.json() == first.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert await service.house.column("SELECT body ->> 'content' FROM http_reply") == [None]
    await pause.pause(service.house.db, "shop", by=GRACE)
    paused = await warehouse.post(path, json={"lease": 60}, headers={"Idempotency-Key": "once"})
    assert (paused.status_code, paused.json()["type"]) == (409, "urn:signoff:paused")
    await pause.resume(service.house.db, "shop", by=GRACE)
    await write(service.house.db, "UPDATE execution SET lease_until = clock_timestamp()")
    over = await warehouse.post(path, json={"lease": 60}, headers={"Idempotency-Key": "once"})
    assert (over.status_code, over.json()["type"]) == (409, "urn:signoff:claimed")


async def test_the_example_carries_it_out(service: Living) -> None:
    """The program of the documentation claims, acts and reports; the agent reads its result."""
    key = await service.key("van", Scope.EXECUTE)
    program = await asyncio.create_subprocess_exec(
        warm(), str(EXAMPLE), env={**os.environ, "SIGNOFF_URL": service.url, "SIGNOFF_KEY": key}, stdout=PIPE
    )
    try:
        asker, run = await _started(service, "ship_order order_id=7")
        await _approved(service, asker, run)
        done = await service.becomes(asker, run, "completed")
    finally:
        program.kill()
        said, _ = await program.communicate()
    assert "P-7" in done["answer"]
    assert said == b"shipping order 7\n"


async def test_what_needs_nobody_is_handed_out_at_once_and_a_failure_is_told(
    service: Living, warehouse: httpx.AsyncClient
) -> None:
    """A tool that names its program is for that program alone; its error reaches the agent."""
    asker, run = await _started(service, "count_stock shelf=A7")
    found = await _handed_out(warehouse)
    assert (found["tool"], found["request_id"], found["description"]) == ("count_stock", None, None)
    stranger = await service.program("stranger", Scope.EXECUTE)
    assert (await stranger.get("/executions")).json() == []
    assert await _problem(stranger, f"{found['call_id']}/claim") == (404, "not-found")
    claim = await _claimed(warehouse, found["call_id"])
    report = {"token": claim["token"], "status": "failed", "error": "no such shelf"}
    assert (await warehouse.post(f"/executions/{found['call_id']}/result", json=report)).status_code == 200
    done = await service.becomes(asker, run, "completed")
    assert "no such shelf" in done["answer"]


async def test_facts_that_changed_are_asked_about_again(
    service: Living, warehouse: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim looks the facts up: with others, nothing is handed over, and people are asked with the difference."""
    asker, run = await _started(service, "ship_order order_id=7")
    await _approved(service, asker, run)
    call = (await _handed_out(warehouse))["call_id"]
    monkeypatch.setitem(weights, 7, 900.0)
    assert await _problem(warehouse, f"{call}/claim") == (409, "not-approved")
    assert (await warehouse.get("/executions")).json() == []
    await _approved(service, asker, run)
    assert (await _handed_out(warehouse))["call_id"] == call
    assert (await _claimed(warehouse, call))["attempt"] == 1


async def test_silence_leaves_a_doubt_that_people_settle(
    service: Living, warehouse: httpx.AsyncClient
) -> None:
    """A program that claims and falls silent leaves the call in doubt; with Retry it is handed out again."""
    asker, run = await _started(service, "ship_order order_id=7")
    await _approved(service, asker, run)
    call = (await _handed_out(warehouse))["call_id"]
    first = await _claimed(warehouse, call)
    await write(service.house.db, "UPDATE execution SET lease_until = clock_timestamp() - interval '1 s'")
    await calls.rescue(service.house.db)  # unless the service's own sweep was quicker
    in_doubt = "SELECT id FROM execution WHERE status = 'in_doubt'"
    (doubt,) = await until(lambda: service.house.column(in_doubt))
    report = {"token": first["token"], "status": "failed", "error": "the van broke down"}
    assert await _problem(warehouse, f"{call}/result", **report) == (409, "late")
    standing = Standing(GRACE, frozenset({"S0FINANCE"}))
    await requests.settle(service.house.db, doubt, standing, "retry")
    assert (await _handed_out(warehouse))["call_id"] == call
    again = await _claimed(warehouse, call)
    assert (again["attempt"], again["idempotency_key"]) == (2, first["idempotency_key"])


async def test_what_no_program_claims_in_time_ends_undone(
    service: Living, warehouse: httpx.AsyncClient
) -> None:
    """When the time to claim is over, the call has failed, the agent learns it, and nobody can claim it any more."""
    asker, run = await _started(service, "ship_order order_id=7")
    await _approved(service, asker, run)
    call = (await _handed_out(warehouse))["call_id"]
    await write(
        service.house.db,
        "UPDATE tool_call SET lapse_at = clock_timestamp() - interval '1 s' WHERE state = 'ready'",
    )
    done = await service.becomes(asker, run, "completed")
    assert "no program claimed it in time" in done["answer"]
    assert await _problem(warehouse, f"{call}/claim") == (409, "not-approved")
