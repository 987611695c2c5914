"""Typical mistakes of programs that call the API: each answer is one sentence with the place and what to send."""

from __future__ import annotations

from typing import Any

from tests.integration.web.conftest import Program, Street

QUESTION = {"request_id": "r-1", "action": "delete_records", "action_description": "Delete", "arguments": {}}

JSON = {"Content-Type": "application/json"}

MISTAKES: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("POST", "/pending", {"content": b'{"request_id": "r-1",', "headers": JSON}, 422, "body: is not JSON"),
    ("POST", "/pending", {"content": b"{'request_id': 'r-1'}", "headers": JSON}, 422, "body: is not JSON"),
    ("POST", "/pending", {"content": b"{}"}, 422, "send JSON with `Content-Type: application/json`"),
    ("POST", "/pending", {"json": {}}, 422, "request_id: Field required"),
    (
        "POST",
        "/pending",
        {"json": QUESTION | {"actoin": "x"}},
        422,
        'actoin: there is no such field (did you mean "action"?)',
    ),
    ("POST", "/pending", {"json": QUESTION | {"arguments": "[]"}}, 422, "arguments: "),
    ("POST", "/pending", {"json": QUESTION | {"request_id": "a b"}}, 422, "request_id: "),
    (
        "POST",
        "/pending",
        {"data": {"request_id": "r-1"}},
        422,
        "send JSON with `Content-Type: application/json`",
    ),
    (
        "POST",
        "/pending",
        {"headers": {"Authorization": "signoff_x"}},
        401,
        "send `Authorization: Bearer signoff_…`",
    ),
    (
        "POST",
        "/pending",
        {"headers": {"Authorization": "Bearer signoff_x"}},
        401,
        "mistyped, revoked or expired",
    ),
    (
        "POST",
        "/approve/r-1",
        {"json": {"decision": "approved"}},
        403,
        "The key crm does not have the scope decide; `signoff keys create NAME --scope decide` creates one",
    ),
    ("POST", "/pending/r-1/claim", {"json": {"lease": "3 days"}}, 422, 'lease: must be a time such as "72h"'),
    ("GET", "/pending/r-1?wait=soon", {}, 422, 'wait: must be a time such as "72h"'),
    ("GET", "/pending/nobody", {}, 404, "There is no such request"),
    ("GET", "/pending?status=done", {}, 422, "status: Input should be 'waiting', 'approved', 'rejected'"),
    ("POST", "/agents", {"json": {"name": "nobody", "task": "t"}}, 404, "no agent"),
    ("PUT", "/pending", {"json": QUESTION}, 405, "Method Not Allowed"),
]


async def test_a_wrong_call_says_what_to_send(site: Street) -> None:
    """Bodies, headers, scopes, times and words that cannot be meant: the sentence names the field and the fix."""
    program = await site.program()
    for method, path, sent, status, words in MISTAKES:
        answer = await program.request(method, path, **sent)
        assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text


async def test_a_wrong_verdict_names_the_words_that_there_are(site: Street) -> None:
    """`approve` is the verdict of buttons; the API's is `approved`."""
    grace: Program = await site.reviewer()
    answer = await grace.decide("r-1", "approve")
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "decision: Input should be 'approved', 'rejected' or 'answered'",
    )


async def test_a_time_is_written_in_one_way(site: Street) -> None:
    """`lease` and `wait` take `"5m"` or seconds; another spelling is refused, and the sentence names it."""
    program, grace = await site.program(), await site.reviewer()
    for name, sent in (("one", {"lease": "5m"}), ("two", {"lease": 300})):
        await program.ask(name)
        await grace.decides(name)
        assert (await program.get(f"/pending/{name}?wait=5m")).json()["status"] == "approved"
        claimed = await program.post(f"/pending/{name}/claim", json=sent)
        assert claimed.json()["lease_seconds"] == 300, claimed.text
    misspelt = await program.post("/pending/one/claim", json={"lease_seconds": 300})
    assert (misspelt.status_code, "lease_seconds" in misspelt.json()["detail"]) == (422, True), misspelt.text
