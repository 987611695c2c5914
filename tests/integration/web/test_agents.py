"""Agents as an inbox over HTTP: start, lists, respond, stop."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import pytest

from agent.domain.api_keys import Scope
from signoff.values import Person
from tests.integration.asking import write
from tests.integration.web.living import ADA, GRACE, LINUS, TEAM, Living, living

SEED = {"agent_id", "name", "task", "status", "created_at", "question"}


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Living]:
    """The service with its example agents."""
    async with living(database_url) as opened:
        yield opened


@pytest.mark.parametrize("word", ["approve", "confirm"])
async def test_an_agent_waits_in_the_inbox_until_somebody_approves(service: Living, word: str) -> None:
    """Start, the waiting list with its question, approve: the agent continues and is in the list of approved ones."""
    asker, grace = await service.asker(), await service.reviewer()
    started = await asker.post("/agents", json={"name": "durable-task", "task": "tidy up"})
    assert started.status_code == 201
    assert started.json()["ok"] is True
    agent_id = started.json()["agent_id"]
    assert started.json().keys() >= SEED
    waiting = await service.becomes(grace, agent_id, "pending_approval")
    assert waiting["question"] == "Should I proceed with task: tidy up?"
    assert [each["agent_id"] for each in (await grace.get("/agents/waiting")).json()] == [agent_id]
    assert [each["agent_id"] for each in (await grace.get("/agents/active")).json()] == [agent_id]
    answer = await grace.post(f"/agents/{agent_id}/respond", json={"response": word})
    assert (answer.status_code, answer.json()["ok"], answer.json()["status"]) == (200, True, "approved")
    done = await service.becomes(asker, agent_id, "completed")
    assert done["answer"] == "Agent successful: tidy up"
    assert done["question"] is None
    assert [each["agent_id"] for each in (await grace.get("/agents/approved")).json()] == [agent_id]
    for empty in ("waiting", "active", "denied", "failed", "cancelled"):
        assert (await grace.get(f"/agents/{empty}")).json() == []


async def test_a_denied_agent_ends_and_says_so(service: Living) -> None:
    """Deny with a reason: the run ends denied, stands among the denied, and a second answer is a conflict."""
    asker, grace = await service.asker(), await service.reviewer()
    agent_id = (await asker.post("/agents", json={"name": "durable-task", "task": "x"})).json()["agent_id"]
    await service.becomes(grace, agent_id, "pending_approval")
    answer = await grace.post(f"/agents/{agent_id}/respond", json={"response": "deny", "reason": "not today"})
    assert answer.json()["status"] == "rejected"
    await service.becomes(asker, agent_id, "denied")
    (line,) = (await grace.get("/agents/denied")).json()
    assert (line["agent_id"], line["status"], line["cause"]) == (agent_id, "denied", "rejected")
    late = await grace.post(f"/agents/{agent_id}/respond", json={"response": "approve"})
    assert (late.status_code, late.json()["type"]) == (409, "urn:signoff:nothing-waits")


@pytest.mark.parametrize("word", ["approve", "deny"])
async def test_a_reason_of_blanks_is_none(service: Living, word: str) -> None:
    """A reason without a word is kept with neither vote nor decision."""
    asker, grace = await service.asker(), await service.reviewer()
    agent_id = (await asker.post("/agents", json={"name": "durable-task", "task": "x"})).json()["agent_id"]
    await service.becomes(grace, agent_id, "pending_approval")
    said = {"response": word, "reason": " \n\t\u2003"}
    assert (await grace.post(f"/agents/{agent_id}/respond", json=said)).status_code == 200
    assert await service.house.column("SELECT coalesce(reason, 'none') FROM vote") == ["none"]
    assert await service.house.column("SELECT coalesce(reason, 'none') FROM decision") == ["none"]


async def test_people_see_the_run_in_slack(service: Living) -> None:
    """A run that a program starts has a thread in the service's channel, on behalf of the key's owner."""
    asker = await service.asker()
    body = {"name": "durable-task", "task": "tidy up", "label": "EU, <!here>"}
    started = await asker.post("/agents", json=body)
    assert started.json()["label"] == "EU, <!here>"
    root = await service.house.says("tidy up", channel="C0REVIEW")
    assert ADA.user_id in root
    assert "durable-task “EU, " in root
    assert "<!here>: tidy up" not in root
    assert await service.house.column("SELECT requester_asserted FROM agent_run") == ["key-owner"]
    assert await service.house.column("SELECT actor FROM audit_event WHERE event = 'run.started'") == [
        "key:asker"
    ]


ASKED = ("Delete 5 records from “users”", "send_notification · message: done, recipient: bob@example.com")
"""Two calls of one turn are judged side by side, so either may be asked about first."""


async def test_two_questions_are_told_apart(service: Living) -> None:
    """With two waiting requests an answer must say which it is for; each is then answered by itself."""
    asker, grace = await service.asker(), await service.reviewer()
    task = (
        'delete_records table_name=users count=5 send_notification recipient=bob@example.com message="done"'
    )
    agent_id = (await asker.post("/agents", json={"name": "data_manager", "task": task})).json()["agent_id"]
    status = await service.becomes(grace, agent_id, "pending_approval", waiting=2)
    assert status["question"] in {f"Should I proceed: {asked}? (and 1 more)" for asked in ASKED}
    unclear = await grace.post(f"/agents/{agent_id}/respond", json={"response": "approve"})
    assert (unclear.status_code, unclear.json()["type"]) == (409, "urn:signoff:several-wait")
    listed = [each["request_id"] for each in unclear.json()["waiting"]]
    assert listed == [each["request_id"] for each in status["requests"]]
    for number, request_id in enumerate(listed):
        answer = await grace.post(
            f"/agents/{agent_id}/respond", json={"response": "approve", "request_id": request_id}
        )
        assert answer.status_code == 200, (number, answer.text)
        again = await grace.post(
            f"/agents/{agent_id}/respond", json={"response": "deny", "request_id": request_id}
        )
        assert again.status_code == 409
    done = await service.becomes(grace, agent_id, "completed")
    assert "Deleted 5 records" in done["answer"]


async def test_a_start_key_starts_once(service: Living) -> None:
    """The same key, in the body or the header, is the same run; for another task it is a conflict."""
    asker = await service.asker()
    body = {"name": "durable-task", "task": "once"}
    first = await asker.post("/agents", json={**body, "start_key": "k"})
    second = await asker.post("/agents", json=body, headers={"Idempotency-Key": "k"})
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["agent_id"] == second.json()["agent_id"]
    other = await asker.post("/agents", json={**body, "task": "twice", "start_key": "k"})
    assert other.status_code == 409
    [stored] = await service.house.column("SELECT start_key FROM agent_run")
    assert stored.endswith(hashlib.sha256(b"k").hexdigest())


async def test_who_asks_has_no_word_and_it_is_on_record(service: Living) -> None:
    """The requesting key cannot answer, nor its owner through a deciding key; both are recorded, nothing is decided."""
    asker, own = await service.asker(), await service.program("own", Scope.DECIDE, owner=ADA)
    agent_id = (await asker.post("/agents", json={"name": "durable-task", "task": "x"})).json()["agent_id"]
    await service.becomes(asker, agent_id, "pending_approval")
    by_key = await asker.post(f"/agents/{agent_id}/respond", json={"response": "approve"})
    assert (by_key.status_code, by_key.json()["type"]) == (403, "urn:signoff:agent-principal")
    by_owner = await own.post(f"/agents/{agent_id}/respond", json={"response": "approve"})
    assert by_owner.status_code == 403
    refused = "SELECT actor || ' ' || (detail ->> 'refusal') FROM audit_event WHERE event = 'vote.refused' ORDER BY at"
    assert await service.house.column(refused) == ["key:asker agent_principal", f"slack:{ADA} not_a_reviewer"]
    assert (await asker.get(f"/agents/{agent_id}")).json()["status"] == "pending_approval"


async def test_a_key_sees_what_its_scopes_and_its_owner_may(service: Living) -> None:
    """A request key lists its own runs; a decide key reads runs that its owner may decide about; others see nothing."""
    asker, other = await service.asker(), await service.program("other", Scope.REQUEST, owner=LINUS)
    linus = await service.program("linus", Scope.DECIDE, owner=LINUS)
    away = await service.program("away", Scope.DECIDE, owner=Person(TEAM, "U0NOBODY"))
    agent_id = (await asker.post("/agents", json={"name": "durable-task", "task": "x"})).json()["agent_id"]
    await service.becomes(asker, agent_id, "pending_approval")
    assert [each["agent_id"] for each in (await asker.get("/agents/waiting")).json()] == [agent_id]
    assert (await other.get("/agents/waiting")).json() == []
    assert (await other.get(f"/agents/{agent_id}")).status_code == 404
    assert (await linus.get(f"/agents/{agent_id}")).status_code == 200
    assert (await linus.get("/agents/waiting")).status_code == 403
    assert (await away.get(f"/agents/{agent_id}")).status_code == 404
    stop = await other.delete(f"/agents/{agent_id}")
    assert stop.status_code == 404


async def test_who_started_an_agent_stops_it(service: Living) -> None:
    """Cancelled by the program that started it, its request withdrawn; a second time says that it was over."""
    asker, grace = await service.asker(), await service.reviewer()
    agent_id = (await asker.post("/agents", json={"name": "durable-task", "task": "x"})).json()["agent_id"]
    await service.becomes(grace, agent_id, "pending_approval")
    reader = await service.program("reader", Scope.READ)
    assert (await reader.delete(f"/agents/{agent_id}")).status_code == 403
    first = await asker.delete(f"/agents/{agent_id}")
    second = await asker.delete(f"/agents/{agent_id}")
    assert (first.json(), second.json()) == (
        {"ok": True, "cancelled": True},
        {"ok": True, "cancelled": False},
    )
    assert [each["agent_id"] for each in (await grace.get("/agents/cancelled")).json()] == [agent_id]
    assert await service.house.column("SELECT status::text FROM approval_request") == ["cancelled"]
    actors = await service.house.column("SELECT actor FROM audit_event WHERE event = 'run.ended'")
    assert actors == ["key:asker"]


async def test_a_reviewer_stops_an_agent_that_waits_for_them(service: Living) -> None:
    """A person who may decide its request may stop it as well."""
    asker, grace = await service.asker(), await service.reviewer()
    agent_id = (await asker.post("/agents", json={"name": "durable-task", "task": "x"})).json()["agent_id"]
    await service.becomes(grace, agent_id, "pending_approval")
    assert (await grace.delete(f"/agents/{agent_id}")).json()["cancelled"] is True
    actors = await service.house.column("SELECT actor FROM audit_event WHERE event = 'run.ended'")
    assert actors == [f"slack:{GRACE}"]


async def test_lists_go_page_by_page(service: Living) -> None:
    """Newest first, the Link header leads on, and every run is there once."""
    asker = await service.asker()
    started = [
        (await asker.post("/agents", json={"name": "durable-task", "task": str(n)})).json()["agent_id"]
        for n in range(5)
    ]
    for agent_id in started:
        await service.becomes(asker, agent_id, "pending_approval")
    for which in ("active", "waiting"):
        found, path = [], f"/agents/{which}?limit=2"
        while path:
            page = await asker.get(path)
            found += [each["agent_id"] for each in page.json()]
            path = page.links.get("next", {}).get("url", "")
        assert found == started[::-1]


async def test_a_page_of_agents_is_bounded_in_bytes(service: Living) -> None:
    """Runs with long answers make a short page, whose Link header leads to the rest."""
    asker = await service.asker()
    for number in range(3):
        agent_id = (await asker.post("/agents", json={"name": "durable-task", "task": str(number)})).json()[
            "agent_id"
        ]
        await service.becomes(asker, agent_id, "pending_approval")
    await write(service.house.db, "UPDATE agent_run SET answer = repeat('answer ', 20000)")
    page = await asker.get("/agents/active")
    assert [each["task"] for each in page.json()] == ["2", "1"]
    rest = await asker.get(page.links["next"]["url"])
    assert ([each["task"] for each in rest.json()], "next" in rest.links) == (["0"], False)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"name": "durabletask", "task": "x"}, 404, "did you mean durable-task?"),
        ({"name": "durable-task", "task": "  "}, 422, "task"),
        ({"name": "durable-task", "task": "x", "wait": 3}, 422, "wait"),
        ({"name": "durable-task", "task": "x", "requester": "U0GRACE"}, 403, "on_behalf"),
        ({"name": "durable-task"}, 422, "task"),
    ],
)
async def test_a_start_that_is_wrong_says_what(
    service: Living, body: dict[str, object], status: int, words: str
) -> None:
    """Unknown agents come with near names, unknown fields by name, and nothing is started."""
    answer = await (await service.asker()).post("/agents", json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["detail"]
    assert await service.house.column("SELECT count(*) FROM agent_run") == [0]


async def test_only_members_of_the_workspace_are_asked_for(service: Living) -> None:
    """With on_behalf somebody may be named, which is stored as asserted; nobody who may not start agents."""
    program = await service.program("bot", Scope.REQUEST, Scope.ON_BEHALF)
    body = {"name": "durable-task", "task": "x"}
    named = await program.post("/agents", json={**body, "requester": "U0ADA"})
    assert named.json()["requester"] == {"team_id": TEAM, "user_id": "U0ADA"}
    nobody = await program.post("/agents", json={**body, "requester": "U0NOBODY"})
    assert nobody.status_code == 403
    alone = await program.post("/agents", json=body)
    assert alone.json()["requester"] is None
    asserted = await service.house.column("SELECT requester_asserted FROM agent_run ORDER BY id")
    assert asserted == ["on-behalf", "none"]
