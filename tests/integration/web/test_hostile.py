"""Hostile clients: clear refusals, nothing changed, and never a failure of ours."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from agent.usecases import api_keys
from tests.integration.asking import column
from tests.integration.web.conftest import Street

JSON = {"Content-Type": "application/json"}


def body(**changes: Any) -> dict[str, Any]:
    return {"request_id": "r-1", "action_description": "Send it"} | changes


async def test_keys_that_are_none(site: Street) -> None:
    """Without a key, with a wrong, revoked or expired one: 401 with a challenge, at every route."""
    await site.program("revoked")
    await api_keys.revoke(site.db, "revoked", by="test")
    await site.program("expired", expires_at=datetime.now(UTC) + timedelta(hours=1))
    await site.write(
        "UPDATE api_key SET expires_at = clock_timestamp() - interval '1 s' WHERE name = 'expired'"
    )
    clients = [
        await site.client(None),
        await site.client("signoff_" + "A" * 43),
        await site.client("x"),
        site.programs["revoked"],
        site.programs["expired"],
    ]
    for client in clients:
        for answer in (
            await client.post("/pending", json=body()),
            await client.get("/pending"),
            await client.get("/pending/r-1"),
            await client.delete("/pending/r-1"),
            await client.post("/approve/r-1", json={"decision": "approved"}),
            await client.post("/pending/r-1/claim", json={}),
            await client.post("/pending/r-1/result", json={"token": "x", "status": "succeeded"}),
        ):
            assert answer.status_code == 401, answer.request.url
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert answer.headers["content-type"] == "application/problem+json"
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [0]


async def test_too_many_calls(site: Street) -> None:
    """Beyond its calls a minute a key is 429 with Retry-After, and other keys are not."""
    program, other = await site.program(per_minute=3), await site.program("erp")
    answers = [await program.get("/pending") for _ in range(8)]
    limited = [each for each in answers if each.status_code == 429]
    assert limited
    assert all(1 <= int(each.headers["Retry-After"]) <= 60 for each in limited)
    assert limited[0].json()["type"] == "urn:signoff:too-many-calls"
    assert (await other.get("/pending")).status_code == 200


DEEP = "[" * 100 + "]" * 100
HOSTILE = {
    "not JSON": b"{",
    "nothing": b"",
    "invalid UTF-8": b'{"request_id": "\xff"}',
    "a key twice": b'{"request_id": "r-1", "request_id": "r-2", "action_description": "Send it"}',
    "not a number": b'{"request_id": "r-1", "action_description": "x", "agent_context": NaN}',
    "infinity": b'{"request_id": "r-1", "action_description": "x", "agent_context": 1e999}',
    "an integer that no double holds": b'{"request_id": "r-1", "agent_context": 9007199254740993}',
    "a very long integer": b'{"request_id": "r-1", "agent_context": ' + b"9" * 10_000 + b"}",
    "too deep": b'{"request_id": "r-1", "action_description": "x", "agent_context": ' + DEEP.encode() + b"}",
    "far too deep": b'{"agent_context": ' + b"[" * 200_000 + b"}",
    "a NUL": rb'{"request_id": "r-1", "action_description": "x\u0000y"}',
    "a NUL in a key": rb'{"request_id": "r-1", "action_description": "x", "agent_context": {"\u0000": 1}}',
    "half a character": rb'{"request_id": "r-1", "action_description": "\ud800"}',
    "an array": b"[]",
    "a string": b'"request_id"',
    "larger than arguments may be": json.dumps(body(arguments={"x": "x" * 300_000})).encode(),
}


async def test_bodies_that_cannot_be_read_in_one_way(site: Street) -> None:
    """422 with problem details for every body that has no canonical form; nothing is stored."""
    program = await site.program()
    for sent, content in HOSTILE.items():
        for path in ("/pending", "/pending/r-1/claim", "/pending/r-1/result"):
            answer = await program.post(path, content=content, headers=JSON)
            expected = 404 if sent == "nothing" and path.endswith("/claim") else 422
            assert answer.status_code == expected, (sent, path, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [0]


async def test_the_place_of_a_fault_is_told(site: Street) -> None:
    """A value without a canonical form is named by its path, and not repeated."""
    sent = b'{"request_id": "r-1", "action_description": "x", "agent_context": {"sum": 12345678901234567890}}'
    answer = await (await site.program()).post("/pending", content=sent, headers=JSON)
    assert answer.json()["errors"] == [
        {"path": "$.agent_context.sum", "problem": "is an integer beyond 2^53 - 1"}
    ]
    assert "12345678901234567890" not in answer.text


async def test_ten_megabytes_are_not_read(site: Street) -> None:
    """A body beyond a megabyte is 413, whether it says its length or not."""
    program = await site.program()
    whole = await program.post("/pending", content=b"x" * 10_000_000, headers=JSON)
    assert (whole.status_code, whole.headers["content-type"]) == (413, "application/problem+json")

    async def pieces() -> Any:
        for _ in range(160):
            yield b"x" * 65_536

    try:
        piecemeal = await program.post("/pending", content=pieces(), headers=JSON)
    except httpx.WriteError:  # the connection was closed before all of it was sent
        return
    assert piecemeal.status_code == 413


async def test_other_media_types_are_no_json(site: Street) -> None:
    """What does not say that it is JSON is not read as JSON: a form of a web page cannot open a request."""
    program = await site.program()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = await program.post("/pending", content=json.dumps(body()), headers={"Content-Type": kind})
        assert answer.status_code == 422, kind
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [0]


TRICKS = [
    "/pending/..%2fapprove",
    "/pending/%00",
    "/pending/r-1%0a",
    "/pending/%ff",
    "/pending/" + "x" * 129,
    "/pending/r-1/../../healthz%3f",
    "/pending?status=approved%00",
    "/pending?agent=%00",
    "/pending?cursor=x",
    "/pending?limit=0",
    "/pending?limit=1e9",
    "/pending?since=0001-01-01T00:00:00%2b14:00",
    "/pending?since=99999999999999999",
    "/pending/r-1?wait=nan",
    "/pending/r-1?wait=inf",
    "/pending/r-1?wait=-1",
]


async def test_addresses_that_are_tricks(site: Street) -> None:
    """Strange addresses are refused by what they are: a 4xx with problem details, never a failure."""
    program = await site.program(scopes=["request", "read"])
    for path in TRICKS:
        answer = await program.get(path)
        assert 400 <= answer.status_code < 500, (path, answer.text)
        assert answer.headers["content-type"] == "application/problem+json", path


async def test_a_slow_body_holds_up_nobody(site: Street) -> None:
    """While one client takes its time to send a body, others are served."""
    program = await site.program()
    going_on = asyncio.Event()

    async def slowly() -> Any:
        yield b'{"request_id": "slow", '
        await going_on.wait()
        yield b'"action_description": "Send it"}'

    slow = asyncio.create_task(program.post("/pending", content=slowly(), headers=JSON))
    assert (await program.ask()).status_code == 201
    assert not slow.done()
    going_on.set()
    assert (await slow).status_code == 201


async def test_strange_words_are_kept_as_they_are(site: Street) -> None:
    """Markup, mentions and characters that turn the text round come back unchanged, and dead on the card."""
    words = "<!channel> *bold* <https://evil.example|here> \u202etxet & <b>"
    pending = (await (await site.program()).ask(action=None, arguments=None, action_description=words)).json()
    assert pending["action_description"] == words
    card = await site.house.card()
    assert "<!channel>" not in card["text"]
    assert "\u202e" not in card["text"]


async def test_secrets_are_masked_for_readers_and_whole_for_the_executor(site: Street) -> None:
    """A token in the arguments is in no answer but the claim's."""
    secret = "ghp_" + "A1b2" * 9
    program = await site.program()
    opened = await program.ask(arguments={"table_name": "customers", "count": 5, "note": secret})
    assert secret not in opened.text
    for path in ("/pending/r-1", "/pending"):
        assert secret not in (await program.get(path)).text
    decided = await (await site.reviewer()).decide("r-1")
    assert decided.json()["status"] == "approved"
    assert secret not in decided.text
    claimed = await program.post("/pending/r-1/claim", json={})
    assert claimed.json()["action"]["arguments"]["note"] == secret
