"""Runs as Agno's programs speak of them, at both addresses: start, pause, confirm by another key, continue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from agent.domain.api_keys import Scope
from slackbot.masking.secret_finder import SecretFinder, everything
from tests.integration.web.living import ADA, GRACE, Living, living

DELETE: dict[str, Any] = {"message": "Delete 50 old records from the users table", "stream": False}
HELLO: dict[str, Any] = {"message": "hello", "session_id": "s", "stream": False}
AGENTOS = {"paused": "PAUSED", "completed": "COMPLETED", "denied": "CANCELLED", "running": "RUNNING"}


@dataclass(frozen=True)
class Address:
    """One of the two addresses that serve runs, and how it spells a status."""

    base: str

    @property
    def runs(self) -> str:
        return f"{self.base}/agents/data_manager/runs"

    def spelled(self, status: str) -> str:
        return AGENTOS[status] if self.base else status

    async def decide(
        self, client: httpx.AsyncClient, run: dict[str, Any], tools: list[dict[str, Any]]
    ) -> httpx.Response:
        body = {"tools": tools, "stream": False}
        return await client.post(f"{self.runs}/{run['run_id']}/continue", json=body)


@pytest.fixture(params=["", "/agentos"], ids=["agents", "agentos"])
def at(request: pytest.FixtureRequest) -> Address:
    """Each of the two addresses."""
    return Address(request.param)


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Living]:
    """The service with its example agents."""
    async with living(database_url) as opened:
        yield opened


def _words(run: dict[str, Any], confirmed: bool, **more: Any) -> list[dict[str, Any]]:
    """A word on every tool of the run that waits for one."""
    asked = [each for each in run["tools"] if each["requires_confirmation"] and each.get("confirmed") is None]
    return [{"tool_call_id": each["tool_call_id"], "confirmed": confirmed, **more} for each in asked]


async def test_a_run_pauses_and_goes_on_when_a_reviewer_confirms(service: Living, at: Address) -> None:
    """Forms as curl -F sends them: paused with the tool and its arguments, confirmed with another key, completed."""
    asker, grace = await service.asker(), await service.reviewer()
    fields = {
        "message": DELETE["message"],
        "user_id": "test_user",
        "session_id": "test_session",
        "stream": "false",
    }
    answer = await asker.post(at.runs, files={name: (None, value) for name, value in fields.items()})
    run = answer.json()
    assert (answer.status_code, run["status"]) == (200, at.spelled("paused"))
    assert run["session_id"] == "test_session"
    (tool,) = run["tools"]
    assert (tool["tool_name"], tool["tool_args"]) == ("delete_records", {"table_name": "users", "count": 50})
    assert (tool["requires_confirmation"], tool.get("confirmed")) == (True, None)
    said = json.dumps(_words(run, True))
    form = {"tools": (None, said), "session_id": (None, "test_session"), "stream": (None, "false")}
    done = await grace.post(f"{at.runs}/{run['run_id']}/continue", files=form)
    assert (done.status_code, done.json()["status"]) == (200, at.spelled("completed")), done.text
    assert done.json()["tools"][0]["result"] == "Deleted 50 records from users"
    assert "Deleted 50 records from users" in done.json()["content"]
    assert await service.house.column("SELECT path FROM vote") == ["api"]


async def test_who_asked_cannot_confirm_and_it_is_on_record(service: Living, at: Address) -> None:
    """`confirmed: true` from the requesting key, or by its owner's deciding key: 403, recorded, still paused."""
    asker, own = await service.asker(), await service.program("own", Scope.DECIDE, owner=ADA)
    run = (await asker.post(at.runs, json=DELETE)).json()
    by_key = await at.decide(asker, run, _words(run, True))
    assert (by_key.status_code, by_key.json()["type"]) == (403, "urn:signoff:agent-principal")
    assert (await at.decide(own, run, _words(run, True))).status_code == 403
    refused = "SELECT actor || ' ' || (detail ->> 'refusal') FROM audit_event WHERE event = 'vote.refused' ORDER BY at"
    assert await service.house.column(refused) == ["key:asker agent_principal", f"slack:{ADA} not_a_reviewer"]
    assert (await asker.get(f"{at.runs}/{run['run_id']}")).json()["status"] == at.spelled("paused")
    assert await service.house.column("SELECT count(*) FROM vote") == [0]


async def test_what_cannot_be_shown_cannot_be_approved_by_any_route(
    service: Living, at: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/approve`, `respond` and `continue` refuse, on record, to approve what was not looked through for secrets in
    time; it can still be rejected.
    """
    monkeypatch.setattr(SecretFinder, "__call__", lambda _, text: everything(text))
    grace = await service.reviewer()
    run = (await (await service.asker()).post(at.runs, json=DELETE)).json()
    (request,) = await service.house.column("SELECT id::text FROM approval_request")
    for answer in (
        await at.decide(grace, run, _words(run, True)),
        await grace.post(f"/agents/{run['run_id']}/respond", json={"response": "approve"}),
        await grace.post(f"/approve/{request}", json={"decision": "approved"}),
    ):
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:signoff:unreadable"), answer.text
    assert await service.house.column("SELECT path FROM vote") == []
    recorded = "SELECT detail->>'refusal' FROM audit_event WHERE event = 'vote.refused'"
    assert await service.house.column(recorded) == ["unreadable"] * 3
    answer = await grace.post(f"/approve/{request}", json={"decision": "rejected", "reason": "unreadable"})
    assert answer.status_code == 200, answer.text


async def test_a_refused_tool_ends_a_risky_run(service: Living, at: Address) -> None:
    """`confirmed: false` with a note is a rejection by the key's owner: the run is denied, nothing is deleted."""
    asker, grace = await service.asker(), await service.reviewer()
    run = (await asker.post(at.runs, data=DELETE)).json()
    assert run["status"] == at.spelled("paused")
    done = await at.decide(grace, run, _words(run, False, confirmation_note="keep them"))
    assert (done.status_code, done.json()["status"]) == (200, at.spelled("denied"))
    (tool,) = done.json()["tools"]
    assert (tool["confirmed"], tool["confirmation_note"], tool.get("result")) == (False, "keep them", None)
    assert await service.house.column("SELECT user_id FROM decision") == [GRACE.user_id]


@pytest.mark.parametrize("confirmed", [True, False])
async def test_a_note_of_blanks_is_none(service: Living, at: Address, confirmed: bool) -> None:
    """A note without a word is kept with neither vote nor decision, and blanks around one are left out."""
    asker, grace = await service.asker(), await service.reviewer()
    for note, kept in (("  ", None), (" why \n", "why")):
        run = (await asker.post(at.runs, data=DELETE)).json()
        done = await at.decide(grace, run, _words(run, confirmed, confirmation_note=note))
        assert done.json()["tools"][0].get("confirmation_note") == kept
    assert await service.house.column("SELECT reason FROM vote ORDER BY id") == [None, "why"]


async def test_tools_may_be_confirmed_one_by_one(service: Living, at: Address) -> None:
    """Of two tools one is confirmed: it runs, the run stays paused for the other; then that one too."""
    asker, grace = await service.asker(), await service.reviewer()
    message = (
        'delete_records table_name=users count=5 send_notification recipient=bob@example.com message="done"'
    )
    run = (await asker.post(at.runs, json={"message": message, "stream": False})).json()
    assert (run["status"], len(run["tools"])) == (at.spelled("paused"), 2)
    first, second = _words(run, True)
    half = (await at.decide(grace, run, [first, {**second, "confirmed": None}])).json()
    assert half["status"] == at.spelled("paused")
    assert [each.get("confirmed") for each in half["tools"]] == [True, None]
    assert half["tools"][0]["result"] == "Deleted 5 records from users"
    done = (await at.decide(grace, run, [second])).json()
    assert done["status"] == at.spelled("completed")
    assert done["tools"][1]["result"] == "Sent notification to bob@example.com: done"
    late = await at.decide(grace, run, [second])
    assert late.status_code == 200  # the same word again changes nothing
    assert (await at.decide(grace, run, [{**second, "confirmed": False}])).status_code == 409


async def test_what_is_confirmed_is_what_was_asked(service: Living, at: Address) -> None:
    """Arguments that come back changed, another revision, a call of no such id: refused, and no word counts."""
    asker, grace = await service.asker(), await service.reviewer()
    run = (await asker.post(at.runs, json=DELETE)).json()
    (word,) = _words(run, True)
    changed = {**run["tools"][0], "confirmed": True, "tool_args": {"table_name": "users", "count": 5000}}
    refused = await at.decide(grace, run, [changed])
    assert (refused.status_code, refused.json()["title"]) == (409, "Other arguments")
    assert "are not those that people are asked about (revision 1)" in refused.json()["detail"]
    stale = await at.decide(grace, run, [{**word, "revision": 7}])
    assert (stale.status_code, stale.json()["title"]) == (409, "Changed in the meantime")
    unknown = {**word, "tool_call_id": run["run_id"]}
    assert (await at.decide(grace, run, [word, unknown])).status_code == 404
    assert (await at.decide(grace, run, [word, word])).status_code == 422
    assert await service.house.column("SELECT count(*) FROM vote") == [0]
    whole = await at.decide(grace, run, [{**run["tools"][0], "confirmed": True}])
    assert whole.json()["status"] == at.spelled("completed")


async def test_a_session_is_one_conversation(service: Living, at: Address) -> None:
    """The next message of a session reaches its run; another session, or another key's, is another run."""
    asker, other = await service.asker(), await service.program("other", Scope.REQUEST, owner=ADA)
    first = (await asker.post(at.runs, json=HELLO)).json()
    assert first["status"] == at.spelled("completed")
    second = (await asker.post(at.runs, json={**DELETE, "session_id": "s"})).json()
    assert (second["run_id"], second["status"]) == (first["run_id"], at.spelled("paused"))
    elsewhere = (await asker.post(at.runs, json=HELLO | {"session_id": "t"})).json()
    theirs = (await other.post(at.runs, json=HELLO)).json()
    assert len({first["run_id"], elsewhere["run_id"], theirs["run_id"]}) == 3
    assert (await asker.delete(f"/agents/{first['run_id']}")).json()["cancelled"] is True
    anew = (await asker.post(at.runs, json=HELLO)).json()
    assert anew["run_id"] != first["run_id"]


async def test_a_message_that_is_sent_again_is_heard_once(service: Living, at: Address) -> None:
    """With an Idempotency-Key a repeated start is one run, and a repeated message is in its transcript once."""
    asker = await service.asker()
    for key in ("a", "a", "b", "b"):
        answer = await asker.post(at.runs, json=HELLO, headers={"Idempotency-Key": key})
        assert answer.status_code == 200
    assert await service.house.column("SELECT count(*) FROM agent_run") == [1]
    assert await service.house.column("SELECT count(*) FROM run_message WHERE role = 'user'") == [2]


async def test_calls_that_begin_one_session_at_once_begin_one_run(service: Living, at: Address) -> None:
    """Of several first messages with one `session_id`, each gets the same run."""
    asker = await service.asker()
    answers = await asyncio.gather(*(asker.post(at.runs, json=HELLO) for _ in range(4)))
    assert [each.status_code for each in answers] == [200] * 4
    assert len({each.json()["run_id"] for each in answers}) == 1
    assert await service.house.column("SELECT count(*) FROM agent_run") == [1]


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ({"json": {**DELETE, "monitor": True}}, 422, "monitor"),
        ({"json": ["no", "object"]}, 422, "body"),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 422, "JSON"),
        ({"content": b"message=x", "headers": {"Content-Type": "text/plain"}}, 415, "application/json"),
        ({"files": {"message": ("a.txt", b"x")}}, 422, "files"),
    ],
)
async def test_a_body_that_is_wrong_says_what(
    service: Living, at: Address, sent: dict[str, Any], status: int, words: str
) -> None:
    """Unknown fields, files and what is no form or JSON are refused in words, and nothing is started."""
    answer = await (await service.asker()).post(at.runs, **sent)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]
    assert await service.house.column("SELECT count(*) FROM agent_run") == [0]


@pytest.mark.parametrize(
    "sent", [{"json": {**DELETE, "stream": True}}, {"data": {**DELETE, "stream": "true"}}]
)
async def test_events_are_not_streamed_from_the_plain_address(service: Living, sent: dict[str, Any]) -> None:
    """`/agents/…/runs` refuses `stream` in words that name both places which have events, and starts nothing."""
    answer = await (await service.asker()).post("/agents/data_manager/runs", **sent)
    assert answer.status_code == 422, answer.text
    assert "GET /runs/{run_id}/events, or use /agentos" in answer.json()["detail"]
    assert await service.house.column("SELECT count(*) FROM agent_run") == [0]


async def test_a_run_is_read_under_its_own_agent(service: Living, at: Address) -> None:
    """Agents are listed by name; a run is not found under another agent's name; `wait` waits for its state."""
    asker = await service.asker()
    agents = (await asker.get(f"{at.base}/agents")).json()
    assert {each["id"] for each in agents} == {"data_manager", "durable-task"}
    run = (await asker.post(f"{at.runs}?wait=0", json=DELETE)).json()
    assert run["status"] in (at.spelled("running"), at.spelled("paused"))
    assert (await asker.get(f"/agents/data_manager/runs/{run['run_id']}?wait=30")).json()[
        "status"
    ] == "paused"
    assert (await asker.get(f"{at.runs}/{run['run_id']}")).json()["status"] == at.spelled("paused")
    elsewhere = f"{at.base}/agents/durable-task/runs/{run['run_id']}"
    assert (await asker.get(elsewhere)).status_code == 404
    assert (await asker.post(f"{elsewhere}/continue", json={"tools": []})).status_code == 404
