"""Runs in Agno's format: start, pause, confirm by another key, continue."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from agent.domain.api_keys import Scope
from slackbot.masking.secret_finder import SecretFinder, everything
from tests.integration.web.living import ADA, GRACE, Living, living

START = "/agents/data_manager/runs"
DELETE = {"message": "Delete 50 old records from the users table"}


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Living]:
    """The service with its example agents."""
    async with living(database_url) as opened:
        yield opened


def _words(run: dict[str, Any], confirmed: bool, **more: Any) -> list[dict[str, Any]]:
    """A word on every tool of the run that waits for one."""
    asked = [each for each in run["tools"] if each["requires_confirmation"] and each["confirmed"] is None]
    return [{"tool_call_id": each["tool_call_id"], "confirmed": confirmed, **more} for each in asked]


async def _say(client: httpx.AsyncClient, run: dict[str, Any], tools: list[dict[str, Any]]) -> httpx.Response:
    return await client.post(f"{START}/{run['run_id']}/continue", json={"tools": tools})


async def test_a_run_pauses_and_goes_on_when_a_reviewer_confirms(service: Living) -> None:
    """Forms as curl -F sends them: paused with the tool and its arguments, confirmed with another key, completed."""
    asker, grace = await service.asker(), await service.reviewer()
    fields = {**DELETE, "user_id": "test_user", "session_id": "test_session", "stream": "false"}
    answer = await asker.post(START, files={name: (None, value) for name, value in fields.items()})
    run = answer.json()
    assert (answer.status_code, run["status"], run["session_id"]) == (200, "paused", "test_session")
    (tool,) = run["tools"]
    assert (tool["tool_name"], tool["tool_args"]) == ("delete_records", {"table_name": "users", "count": 50})
    assert (tool["requires_confirmation"], tool["confirmed"]) == (True, None)
    said = json.dumps(_words(run, True))
    form = {"tools": (None, said), "session_id": (None, "test_session"), "stream": (None, "false")}
    done = await grace.post(f"{START}/{run['run_id']}/continue", files=form)
    assert (done.status_code, done.json()["status"]) == (200, "completed"), done.text
    assert done.json()["tools"][0]["result"] == "Deleted 50 records from users"
    assert "Deleted 50 records from users" in done.json()["content"]
    assert await service.house.column("SELECT path FROM vote") == ["api"]


async def test_who_asked_cannot_confirm_and_it_is_on_record(service: Living) -> None:
    """`confirmed: true` from the requesting key, or by its owner's deciding key: 403, recorded, still paused."""
    asker, own = await service.asker(), await service.program("own", Scope.DECIDE, owner=ADA)
    run = (await asker.post(START, json=DELETE)).json()
    by_key = await _say(asker, run, _words(run, True))
    assert (by_key.status_code, by_key.json()["type"]) == (403, "urn:signoff:agent-principal")
    assert (await _say(own, run, _words(run, True))).status_code == 403
    refused = "SELECT actor || ' ' || (detail ->> 'refusal') FROM audit_event WHERE event = 'vote.refused' ORDER BY at"
    assert await service.house.column(refused) == ["key:asker agent_principal", f"slack:{ADA} not_a_reviewer"]
    assert (await asker.get(f"{START}/{run['run_id']}")).json()["status"] == "paused"
    assert await service.house.column("SELECT count(*) FROM vote") == [0]


async def test_what_cannot_be_shown_cannot_be_approved_by_any_route(
    service: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/approve`, `respond` and `continue` refuse, on record, to approve what was not looked through for secrets in
    time; it can still be rejected."""
    monkeypatch.setattr(SecretFinder, "__call__", lambda _, text: everything(text))
    grace = await service.reviewer()
    run = (await (await service.asker()).post(START, json=DELETE)).json()
    (request,) = await service.house.column("SELECT id::text FROM approval_request")
    for answer in (
        await _say(grace, run, _words(run, True)),
        await grace.post(f"/agents/{run['run_id']}/respond", json={"response": "approve"}),
        await grace.post(f"/approve/{request}", json={"decision": "approved"}),
    ):
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:signoff:unreadable"), answer.text
    assert await service.house.column("SELECT path FROM vote") == []
    recorded = "SELECT detail->>'refusal' FROM audit_event WHERE event = 'vote.refused'"
    assert await service.house.column(recorded) == ["unreadable"] * 3
    answer = await grace.post(f"/approve/{request}", json={"decision": "rejected", "reason": "unreadable"})
    assert answer.status_code == 200, answer.text


async def test_a_refused_tool_ends_a_risky_run(service: Living) -> None:
    """`confirmed: false` with a note is a rejection by the key's owner: the run is denied, nothing is deleted."""
    asker, grace = await service.asker(), await service.reviewer()
    run = (await asker.post(START, data=DELETE)).json()
    assert run["status"] == "paused"
    done = await _say(grace, run, _words(run, False, confirmation_note="keep them"))
    assert (done.status_code, done.json()["status"]) == (200, "denied")
    (tool,) = done.json()["tools"]
    assert (tool["confirmed"], tool["confirmation_note"], tool["result"]) == (False, "keep them", None)
    assert await service.house.column("SELECT user_id FROM decision") == [GRACE.user_id]


async def test_tools_may_be_confirmed_one_by_one(service: Living) -> None:
    """Of two tools one is confirmed: it runs, the run stays paused for the other; then that one too."""
    asker, grace = await service.asker(), await service.reviewer()
    message = (
        'delete_records table_name=users count=5 send_notification recipient=bob@example.com message="done"'
    )
    run = (await asker.post(START, json={"message": message})).json()
    assert (run["status"], len(run["tools"])) == ("paused", 2)
    first, second = _words(run, True)
    half = (await _say(grace, run, [first, {**second, "confirmed": None}])).json()
    assert half["status"] == "paused"
    assert [each["confirmed"] for each in half["tools"]] == [True, None]
    assert half["tools"][0]["result"] == "Deleted 5 records from users"
    done = (await _say(grace, run, [second])).json()
    assert done["status"] == "completed"
    assert done["tools"][1]["result"] == "Sent notification to bob@example.com: done"
    late = await _say(grace, run, [second])
    assert late.status_code == 200  # the same word again changes nothing
    assert (await _say(grace, run, [{**second, "confirmed": False}])).status_code == 409


async def test_what_is_confirmed_is_what_was_asked(service: Living) -> None:
    """Arguments that come back changed, another revision, a call of no such id: refused, and no word counts."""
    asker, grace = await service.asker(), await service.reviewer()
    run = (await asker.post(START, json=DELETE)).json()
    (word,) = _words(run, True)
    changed = {**run["tools"][0], "confirmed": True, "tool_args": {"table_name": "users", "count": 5000}}
    refused = await _say(grace, run, [changed])
    assert (refused.status_code, refused.json()["title"]) == (409, "Other arguments")
    assert "are not those that people are asked about (revision 1)" in refused.json()["detail"]
    stale = await _say(grace, run, [{**word, "revision": 7}])
    assert (stale.status_code, stale.json()["title"]) == (409, "Changed in the meantime")
    unknown = {**word, "tool_call_id": run["run_id"]}
    assert (await _say(grace, run, [word, unknown])).status_code == 404
    assert (await _say(grace, run, [word, word])).status_code == 422
    assert await service.house.column("SELECT count(*) FROM vote") == [0]
    whole = await _say(grace, run, [{**run["tools"][0], "confirmed": True}])
    assert whole.json()["status"] == "completed"


async def test_a_session_is_one_conversation(service: Living) -> None:
    """The next message of a session reaches its run; another session, or another key's, is another run."""
    asker, other = await service.asker(), await service.program("other", Scope.REQUEST, owner=ADA)
    first = (await asker.post(START, json={"message": "hello", "session_id": "s"})).json()
    assert first["status"] == "completed"
    second = (await asker.post(START, json={**DELETE, "session_id": "s"})).json()
    assert (second["run_id"], second["status"]) == (first["run_id"], "paused")
    elsewhere = (await asker.post(START, json={"message": "hello", "session_id": "t"})).json()
    theirs = (await other.post(START, json={"message": "hello", "session_id": "s"})).json()
    assert len({first["run_id"], elsewhere["run_id"], theirs["run_id"]}) == 3
    assert (await asker.delete(f"/agents/{first['run_id']}")).json()["cancelled"] is True
    anew = (await asker.post(START, json={"message": "hello", "session_id": "s"})).json()
    assert anew["run_id"] != first["run_id"]


async def test_a_message_that_is_sent_again_is_heard_once(service: Living) -> None:
    """With an Idempotency-Key a repeated start is one run, and a repeated message is in its transcript once."""
    asker = await service.asker()
    body = {"message": "hello", "session_id": "s"}
    for key in ("a", "a", "b", "b"):
        answer = await asker.post(START, json=body, headers={"Idempotency-Key": key})
        assert answer.status_code == 200
    assert await service.house.column("SELECT count(*) FROM agent_run") == [1]
    assert await service.house.column("SELECT count(*) FROM run_message WHERE role = 'user'") == [2]


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ({"json": {**DELETE, "stream": True}}, 422, "GET /runs/{run_id}/events"),
        ({"data": {**DELETE, "stream": "true"}}, 422, "GET /runs/{run_id}/events"),
        ({"json": {**DELETE, "monitor": True}}, 422, "monitor"),
        ({"json": ["no", "object"]}, 422, "body"),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 422, "JSON"),
        ({"content": b"message=x", "headers": {"Content-Type": "text/plain"}}, 415, "application/json"),
        ({"files": {"message": ("a.txt", b"x")}}, 422, "files"),
    ],
)
async def test_a_body_that_is_wrong_says_what(
    service: Living, sent: dict[str, Any], status: int, words: str
) -> None:
    """Streams, unknown fields, files and what is no form or JSON are refused in words, and nothing is started."""
    answer = await (await service.asker()).post(START, **sent)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]
    assert await service.house.column("SELECT count(*) FROM agent_run") == [0]


async def test_a_run_is_read_under_its_own_agent(service: Living) -> None:
    """Agents are listed by name; a run under another agent's name is not found; its state can be waited for."""
    asker = await service.asker()
    assert {each["id"] for each in (await asker.get("/agents")).json()} == {"data_manager", "durable-task"}
    run = (await asker.post(f"{START}?wait=0", json=DELETE)).json()
    assert run["status"] in ("running", "paused")
    paused = await asker.get(f"{START}/{run['run_id']}?wait=30")
    assert paused.json()["status"] == "paused"
    assert (await asker.get(f"/agents/durable-task/runs/{run['run_id']}")).status_code == 404
