"""`Idempotency-Key`: repetitions are made once, over real HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from agent.usecases import idempotency
from tests.integration.asking import column
from tests.integration.web.conftest import Program, Street


async def claim(program: Program, key: str, **body: Any) -> httpx.Response:
    return await program.post("/pending/r-1/claim", json=body, headers={"Idempotency-Key": key})


async def approved(site: Street) -> Program:
    """A program whose request `r-1` is approved."""
    program = await site.program()
    await program.ask()
    await (await site.reviewer()).decides("r-1")
    return program


async def test_a_repetition_is_answered_the_same(site: Street) -> None:
    """A claim whose answer was lost is repeated with its key: the same token, one execution."""
    program = await approved(site)
    first, again = await claim(program, "once"), await claim(program, "once")
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert await column(site.db, "SELECT count(*) FROM execution") == [1]
    assert (await claim(program, "another")).status_code == 409


async def test_answers_with_secrets_are_not_kept(site: Street) -> None:
    """Of a claim and a new webhook `http_reply` has no answer, not even encrypted; other answers are encrypted."""
    program = await approved(site)
    await claim(program, "once")
    admin = await site.program("ops", ["admin"])
    hook = {"name": "ops", "url": "https://example.com/hook"}
    added = [await admin.post("/webhooks", json=hook, headers={"Idempotency-Key": "hook"}) for _ in range(2)]
    assert [each.status_code for each in added] == [201, 409]
    assert set(await column(site.db, "SELECT body ->> 'content' FROM http_reply")) == {None}
    question = {"request_id": "r-2", "action_description": "Send the secret letter"}
    await program.post("/pending", json=question, headers={"Idempotency-Key": "question"})
    [kept] = await column(
        site.db,
        "SELECT body ->> 'content' FROM http_reply WHERE principal = 'key:crm' AND body ->> 'content' IS NOT NULL",
    )
    assert kept
    assert "letter" not in kept


async def test_a_claim_is_answered_again_only_while_it_may_be_carried_out(site: Street) -> None:
    """After the result, the repetition of a claim is refused: it hands out nothing."""
    program = await approved(site)
    claimed = (await claim(program, "once")).json()
    assert (await claim(program, "once")).json() == claimed
    result = {"token": claimed["token"], "status": "succeeded"}
    assert (await program.post("/pending/r-1/result", json=result)).status_code == 200
    assert (await claim(program, "once")).json()["type"] == "urn:signoff:claimed"


async def test_a_claim_whose_lease_has_ended_is_not_answered_again(site: Street) -> None:
    """The attempt may be in doubt by then, so its token is not handed out again."""
    program = await approved(site)
    assert (await claim(program, "once")).status_code == 200
    await site.write("UPDATE execution SET lease_until = clock_timestamp()")
    assert (await claim(program, "once")).json()["type"] == "urn:signoff:claimed"


async def test_a_key_belongs_to_one_call(site: Street) -> None:
    """The same key with another body, or at another address, is 422; another program's key of that name is its own."""
    program = await approved(site)
    await claim(program, "once")
    other = await claim(program, "once", lease=60)
    assert (other.status_code, other.json()["type"]) == (422, "urn:signoff:idempotency-key-reused")
    elsewhere = await program.post("/pending/r-2/claim", json={}, headers={"Idempotency-Key": "once"})
    assert elsewhere.status_code == 422
    erp = await site.program("erp")
    body = {"request_id": "e-1", "action_description": "Send it"}
    for status in (201, 201):
        answer = await erp.post("/pending", json=body, headers={"Idempotency-Key": "once"})
        assert answer.status_code == status
        assert answer.headers["Location"].endswith(answer.json()["id"])


async def test_one_of_many_at_once_is_made(site: Street) -> None:
    """Concurrent repetitions are 409 with Retry-After while the first is in progress, and none is a second claim."""
    program = await approved(site)
    answers = await asyncio.gather(*(claim(program, "once") for _ in range(10)))
    assert {each.status_code for each in answers} <= {200, 409}
    tokens = {each.json()["token"] for each in answers if each.status_code == 200}
    assert len(tokens) == 1
    assert all(each.headers["Retry-After"] == "1" for each in answers if each.status_code == 409)
    assert (await claim(program, "once")).json()["token"] in tokens


async def test_what_was_refused_may_be_tried_again(site: Street) -> None:
    """A refusal is not kept: approved in between, the same call with the same key succeeds."""
    program = await site.program()
    await program.ask()
    assert (await claim(program, "once")).status_code == 409
    await (await site.reviewer()).decides("r-1")
    assert (await claim(program, "once")).status_code == 200


async def test_a_call_that_died_frees_its_key(site: Street) -> None:
    """A process that died after the commit keeps the key for its patience; then the claim is answered as it stands."""
    program = await approved(site)
    first = await claim(program, "once")
    await site.write("UPDATE http_reply SET status = NULL, body = NULL")
    waits = await claim(program, "once")
    assert (waits.status_code, waits.headers["Retry-After"]) == (409, "1")
    assert waits.json()["type"] == "urn:signoff:under-way"
    await site.write("UPDATE http_reply SET created_at = created_at - interval '1 hour'")
    assert (await claim(program, "once")).json() == first.json()


async def test_answers_are_kept_for_a_day(site: Street) -> None:
    """The sweep forgets answers that are older than a day, and no others."""
    program = await approved(site)
    await claim(program, "once")
    assert await idempotency.delete_old(site.db) == 0
    await site.write("UPDATE http_reply SET created_at = created_at - interval '25 hours'")
    assert await idempotency.delete_old(site.db) == 1
    assert await column(site.db, "SELECT count(*) FROM http_reply") == [0]


async def test_a_key_that_is_none_is_named(site: Street) -> None:
    """A key that cannot be one is 422, and nothing is done."""
    program = await approved(site)
    for key in ("", "with blank", "x" * 256):
        answer = await claim(program, key)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["path"] == "Idempotency-Key"
    assert await column(site.db, "SELECT count(*) FROM execution") == [0]


@pytest.mark.parametrize("body", ['["facts", "x"]', '[{"facts": {}}]', '"facts"'])
async def test_a_claim_that_is_no_object_is_invalid(site: Street, body: str) -> None:
    """Any other JSON is 422 with a key, as it is without one, and the key stays free for the claim."""
    program = await approved(site)
    headers = {"Content-Type": "application/json", "Idempotency-Key": "once"}
    answer = await program.post("/pending/r-1/claim", content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await claim(program, "once")).status_code == 200


async def test_without_a_valid_key_nothing_is_kept(site: Street) -> None:
    """An `Idempotency-Key` is looked at only for callers that are known."""
    stranger = await site.client(None)
    assert (await claim(stranger, "once")).status_code == 401
    assert await column(site.db, "SELECT count(*) FROM http_reply") == [0]
