"""Bodies of requests: none is read before the caller is known, and none has more values than can be read soon."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from agent.domain.api_keys import Scope
from slackbot.web.api.open_request import AskIn
from slackbot.web.http import bodies
from slackbot.web.http.api_keys import needed
from slackbot.web.http.bodies import MAX_VALUES, StrictRoute
from slackbot.web.inbox.rendering import PageRoute
from tests.integration.asking import column
from tests.integration.web.conftest import Street
from tests.integration.web.mounted import SOME_ID, Mounted, mounted

KINDS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x")
NOBODYS = {
    "nothing": {},
    "a key that is none": {"Authorization": "Bearer signoff_" + "A" * 43},
    "a session that is none": {"Cookie": "signoff_session=" + "A" * 43},
}


def taking_bodies(site: Street) -> list[Mounted]:
    """Every route that somebody can send a body to."""
    return [each for each in mounted(site.service) if each.method not in ("GET", "HEAD", "OPTIONS")]


async def without_its_body(site: Street, to: Mounted, headers: Mapping[str, str]) -> int:
    """The status of a call whose headers promise a body that never comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.service.port)
    fields = {"Host": "localhost", "Content-Length": "100", "Idempotency-Key": "once", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    writer.write(f"{to.method} {to.address()} HTTP/1.1\r\n{head}\r\n".encode())
    try:
        async with asyncio.timeout(20):
            return int((await reader.readline()).split()[1])
    finally:
        writer.close()


@pytest.mark.parametrize("presented", NOBODYS.values(), ids=NOBODYS)
async def test_no_body_of_a_stranger_is_read(site: Street, presented: dict[str, str]) -> None:
    """Without a key, session or signature every route answers 401 (or sends to the sign-in page) before the body."""
    routes = taking_bodies(site)
    known = {"/pending", "/agents/{agent_name}/runs", "/inbox/requests/{request_id}/edit", "/slack/events"}
    assert known <= {each.path for each in routes}
    for each in routes:
        # A link's secret stands in its address; without a word of where the form comes from it is refused at once.
        expected = 403 if each.path.startswith("/sign-in/link/") else 401
        if isinstance(each.route, PageRoute) and expected == 401:
            expected = 303
        for kind in KINDS:
            status = await without_its_body(site, each, {"Content-Type": kind, **presented})
            assert status == expected, (each.method, each.path, kind)


async def test_no_body_is_read_for_a_key_without_the_scope(site: Street) -> None:
    """A key that may only read is 403 at every route that needs another scope, before the body."""
    reader = await site.program("reader", ["read"])
    refused = [
        each
        for each in taking_bodies(site)
        if isinstance(each.route, StrictRoute) and Scope.READ not in needed(each.route.dependant).scopes
    ]
    assert {"/pending", "/approve/{request_id}", "/webhooks"} <= {each.path for each in refused}
    for each in refused:
        key = {"Authorization": reader.headers["Authorization"], "Content-Type": "application/json"}
        assert await without_its_body(site, each, key) == 403, each


def body(agent_context: Any) -> dict[str, Any]:
    return {"request_id": "r-1", "action_description": "Send it", "agent_context": agent_context}


OTHERS = 4
"""The values of that body without what stands in its context, if that is an array."""


async def test_a_body_has_up_to_20000_values(site: Street) -> None:
    """20,000 values are taken, one more is 422 and said, whatever they are; commas in a text are no values."""
    program = await site.program()
    each_kind: list[Any] = [0, "", [], {}]
    for one in each_kind:
        answer = await program.post("/pending", json=body([one] * (MAX_VALUES - OTHERS + 1)))
        assert answer.status_code == 422, one
        assert answer.json()["errors"] == [{"path": "body", "problem": "has more than 20,000 values"}]
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [0]
    taken = await program.post("/pending", json=body([0] * (MAX_VALUES - OTHERS)))
    assert taken.status_code == 201, taken.text
    text = await program.post("/pending", json=body('[,{"\\' * MAX_VALUES) | {"request_id": "r-2"})
    assert text.status_code == 201, text.text


async def test_a_large_body_is_read_beside_the_loop(site: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long to parse and to put into canonical form is done in another thread than what answers."""
    threads: list[int] = []

    def noting(work: Any) -> Any:
        def noted(*given: Any) -> Any:
            threads.append(threading.get_ident())
            return work(*given)

        return noted

    monkeypatch.setattr(bodies, "read_json", noting(bodies.read_json))
    monkeypatch.setattr(AskIn, "as_action", noting(AskIn.as_action))
    program = await site.program()
    assert (await program.post("/pending", json=body("small"))).status_code == 201
    assert set(threads) == {threading.get_ident()}
    threads.clear()
    large = body(["x" * 100] * 1000) | {"request_id": "r-2"}
    assert (await program.post("/pending", json=large)).status_code == 201
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_a_form_has_up_to_20000_values(site: Street) -> None:
    """The JSON in a form's field is bound to the same, and the field is named."""
    decider = await site.reviewer()
    tools = json.dumps([{}] * MAX_VALUES)
    to = f"/agents/data/runs/{SOME_ID}/continue"
    ways: list[dict[str, Any]] = [
        {"data": {"tools": tools}},
        {"files": {"tools": (None, tools)}},
        {"json": {"tools": tools}},
    ]
    for sent in ways:
        answer = await decider.post(to, **sent)
        assert answer.status_code == 422, sent.keys()
        (error,) = answer.json()["errors"]
        assert error["path"] == "tools"
        assert "has more than 20,000 values" in error["problem"]


async def test_a_form_beyond_a_megabyte_is_413(site: Street) -> None:
    """A form is bound to the same size as JSON, also when it does not say how long it is."""
    program = await site.program()

    async def pieces() -> Any:
        for _ in range(40):
            yield urlencode({"message": "x" * 60_000}).encode()

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    try:
        answer = await program.post("/agents/data/runs", content=pieces(), headers=headers)
    except httpx.WriteError:  # the connection was closed before all of it was sent
        return
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:signoff:too-large")
