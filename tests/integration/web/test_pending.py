"""`/pending`: asking, asking again, waiting and taking back, over real HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import CoroutineType, SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from agent.domain.api_keys import Principal
from agent.domain.request_view import RequestView
from signoff.canonical import canonical_bytes
from signoff.values import Action, Person
from slackbot.masking import views as masking_views
from slackbot.web.api.generated_description import generated
from slackbot.web.api.shapes import ReviewOut, reviews
from slackbot.web.http.context import WebContext
from tests.integration.asking import column
from tests.integration.web.conftest import ADA, GRACE, LINUS, TEAM, Street, shown, until
from tests.patience import promised
from tests.planted import SECRETS, URL_PASSWORD


async def test_a_question_waits_within_a_second_and_people_see_it(site: Street) -> None:
    """201 with the request, one waiting row within a second, and a card with policy's own words."""
    program = await site.program()
    began = time.monotonic()
    answer = await program.ask()
    assert await column(site.db, "SELECT status::text FROM pending_reviews") == ["waiting"]
    assert time.monotonic() - began < promised(1)
    assert answer.status_code == 201, answer.text
    pending = answer.json()
    assert (pending["request_id"], pending["status"], pending["checkpoint_id"]) == (
        "r-1",
        "waiting",
        "deletions",
    )
    assert pending["action"]["arguments"] == {"table_name": "customers", "count": 5}
    assert pending["agent_context"] == {"task": "Forget them", "step": 3}
    assert pending["requester"] == {"team_id": ADA.team_id, "user_id": ADA.user_id}
    assert pending["requester_asserted"] == "key:crm"
    assert answer.headers["Location"] == f"/pending/{pending['id']}"
    card = await site.house.card()
    assert "Delete 5 records from “customers”" in card["text"]


@pytest.mark.parametrize("bound", ["MAX_WAITING", "MAX_WAITING_BYTES"])
async def test_what_waits_of_a_key_is_bounded(
    site: Street, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """Beyond so many waiting requests or bytes a key is asked to retry later; its requests stay, others are served."""
    program = await site.program()
    first = await program.ask()
    sizes = "SELECT pg_column_size(action) + pg_column_size(context) FROM request_revision"
    most = 2 if bound == "MAX_WAITING" else (await column(site.db, sizes))[0] + 1
    monkeypatch.setattr(f"agent.runtime.judging.programs.{bound}", most)
    assert (first.status_code, (await program.ask(request_id="r-2")).status_code) == (201, 201)
    refused = await program.ask(request_id="r-3")
    assert (refused.status_code, refused.json()["type"]) == (429, "urn:signoff:too-many-waiting")
    assert refused.headers["Retry-After"] == "60"
    assert (await program.ask()).status_code == 200
    other = await site.program("other")
    assert (await other.ask(request_id="r-3")).status_code == 201
    await (await site.reviewer()).decides(first.json()["id"])
    assert (await program.ask(request_id="r-3")).status_code == 201


async def test_what_a_key_has_masked_waits_in_its_own_queue(
    site: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large body is looked through in the turn of its key for answers, and with the cards for its card."""
    queues = []

    def submit(work: Callable[[], object], sender: str | None) -> Future[object]:
        queues.append(sender)
        return threads.submit(work, sender)

    threads, recorder = masking_views._threads, SimpleNamespace(submit=submit)
    monkeypatch.setattr(masking_views, "_threads", recorder)
    program = await site.program()
    await program.ask(arguments={"table_name": "lorem ipsum " * 3000, "count": 5})
    await site.house.card()
    assert {"key:crm", "cards"} <= set(queues)


async def test_the_same_question_is_the_same_request(site: Street) -> None:
    """Asked again it is 200 with the same id, also when it was decided; other content under the id is 409."""
    program = await site.program()
    first = (await program.ask()).json()
    again = await program.ask()
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    for changed in (
        {"arguments": {"table_name": "customers", "count": 6}},
        {"agent_context": {"task": "another"}},
        {"action_description": "Delete other records"},
        {"timestamp": "2026-11-21T09:30:01Z"},
    ):
        other = await program.ask(**changed)
        assert other.status_code == 409, changed
    await (await site.reviewer()).decides(first["id"])
    assert (await program.ask()).json()["status"] == "approved"
    other_key = await site.program("erp")
    assert (await other_key.ask()).status_code == 201


async def test_twenty_at_once_open_one_request(site: Street) -> None:
    """Twenty concurrent calls with one id make one request: one 201, nineteen 200."""
    program = await site.program()
    answers = await asyncio.gather(*(program.ask() for _ in range(20)))
    assert sorted(each.status_code for each in answers) == [200] * 19 + [201]
    assert len({each.json()["id"] for each in answers}) == 1
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [1]


async def test_without_an_action_all_fields_are_agreed_to(site: Street) -> None:
    """The four fields alone always ask; the action is `external`, and its words are in quotation marks."""
    program = await site.program()
    words = "Send it” is a fact, not “ a claim"
    answer = await program.ask(action=None, arguments=None, action_description=words)
    assert answer.status_code == 201
    pending = answer.json()
    assert pending["action"]["tool"] == "external"
    assert pending["action"]["arguments"]["agent_context"] == {"task": "Forget them", "step": 3}
    assert pending["action_description"] == words
    assert pending["description"] == "The agent asks: «Send it” is a fact, not “ a claim»"
    assert pending["agent_context"] == {"task": "Forget them", "step": 3}
    card = await site.house.card()
    assert "The agent asks: «Send it” is" in card["text"]


async def test_json_without_its_content_type_is_told_what_is_missing(site: Street) -> None:
    """What `curl -d` sends without a header is 422, and the sentence names the header."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await (await site.program()).post("/pending", content=b'{"request_id": "r-1"}', headers=form)
    assert answer.status_code == 422
    assert "Content-Type: application/json" in answer.json()["detail"]


async def test_policy_may_need_nobody(site: Street) -> None:
    """Where the checkpoints allow it the answer is 200 `not_required`, and the key's audit chain records it."""
    program = await site.program()
    answer = await program.ask(action="read_rows", arguments={"table": "customers"})
    assert answer.status_code == 200
    assert answer.json()["status"] == "not_required"
    [*_, (actor, event, detail)] = await site.events("key:crm")
    assert (actor, event, detail["tool"]) == ("key:crm", "review.not_required", "read_rows")
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [0]
    assert (await program.ask(action="read_rows", arguments={"secret": 1})).status_code == 201


async def test_the_wait_ends_when_somebody_decides_in_slack(site: Street) -> None:
    """A long-poll is answered when a reviewer clicks Approve on the card, and not before."""
    program = await site.program()
    request_id = (await program.ask()).json()["request_id"]
    waiting = asyncio.create_task(program.get(f"/pending/{request_id}", params={"wait": 30}))
    card = await site.house.card()
    assert not waiting.done()
    await site.house.slack.person(GRACE.user_id).click(card, "signoff:approve")
    clicked = time.monotonic()
    pending = (await waiting).json()
    assert time.monotonic() - clicked < 2
    assert (pending["status"], pending["decided_by"]["user_id"]) == ("approved", GRACE.user_id)


async def test_the_wait_ends_at_its_time(site: Street) -> None:
    """Nobody decides: the answer comes at the end of the wait and says `waiting`."""
    program = await site.program()
    await program.ask()
    began = time.monotonic()
    pending = (await program.get("/pending/r-1", params={"wait": 0.5})).json()
    assert pending["status"] == "waiting"
    assert 0.4 < time.monotonic() - began < 5
    assert (await program.get("/pending/r-1", params={"wait": 301})).status_code == 422


async def test_one_wait_for_several_ends_with_the_last(site: Street) -> None:
    """A long-poll that names several requests is answered when the last of them is decided, and not before."""
    program, grace = await site.program(), await site.reviewer()
    ids = [(await program.ask(f"r-{number}")).json()["id"] for number in range(3)]
    await program.ask("another")
    waiting = asyncio.create_task(program.get("/pending", params={"id": ids, "wait": 30}))
    for each in (ids[1], ids[0]):
        await grace.decides(each)
    first = (await program.get("/pending", params={"id": ids[:2], "wait": 30})).json()["items"]
    assert [each["status"] for each in first] == ["approved", "approved"]
    assert not waiting.done()
    await grace.decides(ids[2], "rejected", reason="No")
    decided = time.monotonic()
    found = (await waiting).json()["items"]
    assert time.monotonic() - decided < promised(2)
    assert [(each["request_id"], each["status"]) for each in found] == [
        ("r-2", "rejected"),
        ("r-1", "approved"),
        ("r-0", "approved"),
    ]
    assert all(each["handed_over_at"] for each in found if each["status"] == "approved")


async def test_a_wait_for_several_ends_at_its_time(site: Street) -> None:
    """Nobody decides one of two: the answer comes at the end of the wait, with both."""
    program = await site.program()
    ids = [(await program.ask(f"r-{number}")).json()["id"] for number in range(2)]
    await (await site.reviewer()).decides(ids[0])
    began = time.monotonic()
    found = (await program.get("/pending", params={"id": ids, "wait": 0.5})).json()["items"]
    assert [each["status"] for each in found] == ["waiting", "approved"]
    assert 0.4 < time.monotonic() - began < 5


async def test_a_wait_for_several_takes_one_place(site: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many requests it names, a waiting call counts once; where a key has no place left, it is told when."""
    program = await site.program()
    ids = [(await program.ask(f"r-{number}")).json()["id"] for number in range(3)]
    waiting = asyncio.create_task(program.get("/pending", params={"id": ids, "wait": 30}))

    async def held() -> bool:
        return site.service.web.places.held == 1

    await until(held)
    monkeypatch.setattr(site.service.web.places, "most", 0)
    refused = await program.get("/pending", params={"id": ids, "wait": 30})
    assert (refused.status_code, len(refused.json()["items"])) == (200, 3)
    assert int(refused.headers["Retry-After"]) >= 1
    for each in ids:
        await (await site.reviewer()).decides(each)
    assert "Retry-After" not in (await waiting).headers


async def test_a_waiting_program_holds_no_frames_of_its_route(site: Street) -> None:
    """While a program waits for its request, framework and route have ended; the decision still comes to it."""
    program = await site.program()
    request = (await program.ask()).json()["id"]
    waiting = asyncio.create_task(program.get(f"/pending/{request}", params={"wait": 30}))

    async def waits() -> bool:
        return site.service.web.places.held == site.service.web.watch.waiting == 1

    await until(waits)
    frames = {name for task in asyncio.all_tasks() for name in _frames(task)}
    assert any(name.endswith("http/long_polls.py") for name in frames)
    assert not [name for name in frames if name.endswith(("fastapi/routing.py", "api/pending.py"))]
    await (await site.reviewer()).decides(request)
    assert (await waiting).json()["status"] == "approved"
    assert site.service.web.places.held == 0


def _frames(task: asyncio.Task[Any]) -> Iterator[str]:
    waited: Any = task.get_coro()
    while isinstance(waited, CoroutineType):
        yield waited.cr_code.co_filename
        waited = waited.cr_await


async def test_a_list_of_named_requests_has_only_what_the_key_may_see(site: Street) -> None:
    """Another key's request and an unknown one are in no list, and nobody waits for them."""
    crm, erp = await site.program(), await site.program("erp")
    mine, theirs = [(await each.ask()).json()["id"] for each in (crm, erp)]
    await (await site.reviewer()).decides(mine)
    ids = [mine, theirs, str(UUID(int=7))]
    found = (await crm.get("/pending", params={"id": ids, "wait": 30})).json()
    assert ([each["id"] for each in found["items"]], found["next"]) == ([mine], None)
    reader = await site.program("reader", ["read"])
    assert len((await reader.get("/pending", params={"id": ids})).json()["items"]) == 2


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({"wait": 5}, "query.wait"),
        ({"id": [str(UUID(int=number)) for number in range(101)]}, "query.id"),
        ({"id": ["r-1"]}, "query.id.0"),
    ],
)
async def test_a_wait_for_several_names_at_most_a_hundred(
    site: Street, query: dict[str, Any], path: str
) -> None:
    """A wait that names no request, more than a hundred or none of our ids is refused, with the place of the fault."""
    refused = await (await site.program()).get("/pending", params=query)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)


async def test_what_is_taken_back_is_cancelled(site: Street) -> None:
    """DELETE by the key that opened it withdraws, twice is once; others may not; what is decided stays."""
    program, other = await site.program(), await site.program("erp")
    pending = (await program.ask()).json()
    assert (await other.delete(f"/pending/{pending['id']}")).status_code == 404
    reader = await site.program("reader", ["read"])
    assert (await reader.delete(f"/pending/{pending['id']}")).status_code == 403
    for _ in range(2):
        gone = await program.delete("/pending/r-1")
        assert (gone.status_code, gone.json()["status"]) == (200, "cancelled")
    assert ("key:crm", "request.withdrawn") in {
        (actor, event) for actor, event, _ in await site.events(f"request:{pending['id']}")
    }
    await program.ask("r-2")
    await (await site.reviewer()).decides("r-2")
    assert (await program.delete("/pending/r-2")).status_code == 409
    await program.ask("r-3")
    admin = await site.program("admin", ["admin"])
    assert (await admin.delete("/pending/r-3")).json()["status"] == "cancelled"


async def test_a_key_sees_its_own_requests_only(site: Street) -> None:
    """Others' requests are 404 and in no list, also by our id; the scope `read` sees all of them."""
    crm, erp = await site.program(), await site.program("erp")
    pending = (await crm.ask()).json()
    await erp.ask("r-2")
    assert (await erp.get(f"/pending/{pending['id']}")).status_code == 404
    assert (await erp.get("/pending/r-1")).status_code == 404
    assert [each["request_id"] for each in (await erp.get("/pending")).json()["items"]] == ["r-2"]
    reader = await site.program("reader", ["read"])
    assert [each["request_id"] for each in (await reader.get("/pending")).json()["items"]] == ["r-2", "r-1"]
    assert (await reader.get("/pending/r-1")).json()["id"] == pending["id"]
    await crm.ask("r-2", agent="another")
    assert (await reader.get("/pending/r-2")).status_code == 409


async def test_lists_are_paged_and_filtered(site: Street) -> None:
    """Pages follow one another through `next` without gaps; status, agent, since and mine each filter."""
    program = await site.program(scopes=["request", "read"])
    for number in range(5):
        await program.ask(f"r-{number}", agent="even" if number % 2 == 0 else "odd")
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query: dict[str, Any] = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        answer = (await program.get("/pending", params=query)).json()
        found += [each["request_id"] for each in answer["items"]]
        cursor = answer["next"]
    assert found == [f"r-{number}" for number in (4, 3, 2, 1, 0)]

    async def ids(**query: Any) -> list[str]:
        return [each["request_id"] for each in (await program.get("/pending", params=query)).json()["items"]]

    assert await ids(agent="odd") == ["r-3", "r-1"]
    await (await site.reviewer()).decides("r-3")
    assert await ids(status="approved") == ["r-3"]
    assert await ids(status="waiting", limit=1) == ["r-4"]
    middle = (await program.get("/pending/r-2")).json()["timestamp"]
    assert await ids(since=middle) == ["r-4", "r-3", "r-2"]
    await (await site.program("erp")).ask("theirs")
    assert "theirs" in await ids()
    assert "theirs" not in await ids(mine="true")


async def test_a_page_has_about_a_megabyte(site: Street) -> None:
    """Of nine large requests, however well they compress, a page has seven; the next one leads to the rest."""
    program = await site.program()
    large = "lorem ipsum " * 20_000
    for number in range(9):
        field = {"agent_context": large} if number % 2 else {"arguments": {"text": large}}
        assert (await program.ask(f"r-{number}", **field)).status_code == 201
    first = (await program.get("/pending")).json()
    assert [each["request_id"] for each in first["items"]] == [f"r-{number}" for number in range(8, 1, -1)]
    rest = (await program.get("/pending", params={"cursor": first["next"]})).json()
    assert ([each["request_id"] for each in rest["items"]], rest["next"]) == (["r-1", "r-0"], None)


async def test_a_key_gets_one_list_at_a_time(site: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second list of the same key waits, and is finally asked to retry later; other keys get theirs."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(ctx: WebContext, views: Sequence[RequestView], asker: Principal) -> list[ReviewOut]:
        if any(view.principal == "key:crm" for view in views):
            begun.set()
            await go_on.wait()
        return await reviews(ctx, views, asker)

    monkeypatch.setattr("slackbot.web.api.pending.reviews", slow)
    monkeypatch.setattr("slackbot.web.http.one_list.WAIT", 0.05)
    program, other = await site.program(), await site.program("erp")
    await program.ask()
    first = asyncio.create_task(program.get("/pending"))
    async with asyncio.timeout(20):
        await begun.wait()
    try:
        refused = await program.get("/agents/active")
        for path in ("", "/unknown", "/unknown/runs"):
            assert (await program.get(f"/agentos/sessions{path}")).status_code == 429
        of_other = await other.get("/pending")
    finally:
        go_on.set()
    assert (refused.status_code, refused.json()["type"]) == (429, "urn:signoff:list-under-way")
    assert (refused.headers["Retry-After"], of_other.status_code) == ("1", 200)
    assert (await first).status_code == 200
    assert (await program.get("/agents/active")).status_code == 200


async def test_a_requester_is_named_only_with_the_right_to(site: Street) -> None:
    """Naming somebody takes `on_behalf`; what was asserted is stored and answered, and the card says so."""
    program = await site.program()
    refused = await program.ask(requester=LINUS.user_id)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:signoff:scope-missing")
    assert (await program.ask(requester=ADA.user_id)).status_code == 201
    agency = await site.program("agency", ["request", "on_behalf"])
    pending = (await agency.ask("r-2", requester=LINUS.user_id)).json()
    assert pending["requester"]["user_id"] == LINUS.user_id
    assert pending["requester_asserted"] == f"key:agency for {LINUS.user_id}"
    card = await site.house.card(1)
    assert "(not confirmed)" in shown(card)


async def test_nobody_is_asked_on_behalf_of_who_is_gone(site: Street) -> None:
    """A key whose owner's account is deactivated, or one that names such a person, asks nobody: 403."""
    gone = Person(TEAM, "U0GONE")
    orphan = await (await site.program("orphan", owner=gone)).ask()
    assert (orphan.status_code, orphan.json()["type"]) == (403, "urn:signoff:deactivated")
    agency = await site.program("agency", ["request", "on_behalf"])
    assert (await agency.ask(requester=gone.user_id)).status_code == 403
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [0]


async def test_a_key_of_one_agent_speaks_for_no_other(site: Street) -> None:
    """A key bound to an agent gives its name to what it asks, and is refused another."""
    program = await site.program(agent="refunds")
    assert (await program.ask()).json()["agent"] == "refunds"
    assert (await program.ask("r-2", agent="refunds")).status_code == 201
    assert (await program.ask("r-3", agent="payroll")).status_code == 403


async def test_our_ids_cannot_be_taken_as_names(site: Street) -> None:
    """A request that is named like another one's id is never decided in its place."""
    crm, erp = await site.program(), await site.program("erp")
    victim = (await crm.ask()).json()["id"]
    decoy = await erp.ask(victim, arguments={"table_name": "customers", "count": 9999})
    assert decoy.status_code == 201
    pending = (await (await site.reviewer()).decide(victim)).json()
    assert pending["id"] == victim
    assert UUID(decoy.json()["id"]) in await column(
        site.db, "SELECT id FROM approval_request WHERE status = 'waiting'"
    )


@pytest.mark.parametrize("action", ["delete_records", None])
async def test_a_context_without_room_is_cut_in_its_middle(site: Street, action: str | None) -> None:
    """The action is asked about anyway, once; omissions are counted in their place."""
    program = await site.program()
    log = [f"{number}: {'x' * 90}" for number in range(5000)]
    asked: dict[str, Any] = {"action": action, "agent_context": {"task": "tidy", "log": log}}
    asked |= {} if action else {"arguments": None}
    first, again = await program.ask(**asked), await program.ask(**asked)
    assert (first.status_code, again.status_code) == (201, 200), first.text
    seen = first.json()["agent_context"]
    assert (seen["task"], seen["log"][0], seen["log"][-1]) == ("tidy", log[0], log[-1])
    kept = len(seen["log"]) - 1
    assert f"[… {5000 - kept:,} of 5,000 items of agent_context.log left out …]" in seen["log"]
    large = await program.ask("r-2", arguments={"table_name": "x" * 300_000})
    assert (large.status_code, large.json()["errors"][0]["problem"]) == (422, "is larger than 256 KiB")


@pytest.mark.parametrize(
    "sent",
    ["2026-11-21T09:30:00", "2026-11-21 09:30:00", "2026-11-21T10:30:00+01:00", 1795253400, 1795253400.0],
)
async def test_the_guides_table_has_what_was_sent(site: Street, sent: str | float) -> None:
    """`pending_reviews`: the four fields in the program's words, a time without an offset in UTC, our id as `id`."""
    program = await site.program()
    with_action = (await program.ask(timestamp=sent)).json()
    without = (await program.ask("r-2", action=None, arguments=None, timestamp=sent)).json()
    columns = 'request_id, action_description, agent_context, "timestamp"::text, status::text, id::text'
    async with site.db.connection() as connection:
        seen = (
            await connection.execute(text(f"SELECT {columns} FROM pending_reviews ORDER BY request_id"))
        ).all()
    for row, pending in zip(seen, (with_action, without), strict=True):
        words, context = pending["action_description"], {"task": "Forget them", "step": 3}
        assert tuple(row) == (
            pending["request_id"],
            words,
            context,
            "2026-11-21 09:30:00+00",
            "waiting",
            pending["id"],
        )
    assert with_action["description"] != with_action["action_description"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"surprise": 1}, "surprise"),
    ({"request_id": "a/b"}, "request_id"),
    ({"request_id": ""}, "request_id"),
    ({"action_description": "x" * 2001}, "action_description"),
    ({"timestamp": "yesterday"}, "timestamp"),
    ({"timestamp": True}, "timestamp"),
    ({"requester": "everyone"}, "requester"),
    ({"arguments": [1]}, "arguments"),
    ({"action": "external"}, "body"),
    ({"action": None}, "body"),
]


async def test_fields_that_are_wrong_are_named(site: Street) -> None:
    """422 with the path of what is wrong; nothing is stored."""
    program = await site.program()
    for changed, path in WRONG:
        answer = await program.ask(**changed)
        assert answer.status_code == 422, changed
        assert answer.headers["content-type"] == "application/problem+json"
        assert [each["path"] for each in answer.json()["errors"]] == [path]
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [0]


HIDING = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]

[[checkpoint]]
checkpoint_id = "deletions"
action_pattern = "delete_*"
redact = ["table_name"]
"""


@pytest.mark.parametrize("policy", [HIDING])
async def test_lists_do_not_say_what_the_policy_hides(site: Street) -> None:
    """A program's words and a reviewer's reason repeat a hidden argument: no list shows it, as no card does."""
    program, grace = await site.program(), site.house.slack.person("U0GRACE")
    said = "Delete 5 records from zanzibar"
    asked = await program.ask(
        action_description=said, arguments={"table_name": "zanzibar", "count": 5, "password": "hunter-22"}
    )
    assert asked.status_code == 201
    assert (
        await program.ask(
            action_description=said, arguments={"table_name": "zanzibar", "count": 5, "password": "hunter-22"}
        )
    ).status_code == 200
    await site.house.card()
    listed = str((await grace.command("/approvals", "", "C0REVIEW")).response)
    assert "table_name: “⟦redacted" in listed
    reviewer = await site.reviewer()
    await reviewer.decides(asked.json()["id"], "rejected", reason="Never zanzibar, nor hunter-22")
    decided = str((await grace.command("/approvals", "history", "C0REVIEW")).response)
    assert "Never ⟦redacted" in decided
    for shown_there in (listed, decided):
        assert "zanzibar" not in shown_there
        assert "hunter-22" not in shown_there
    assert await column(site.db, "SELECT action_description FROM pending_reviews") == [said]


EARLIER: dict[str, Any] = {
    "action": "delete_records",
    "arguments": {"table_name": "customers", "count": 5},
    "agent_context": {"task": "Forget them", "step": 3},
}


@pytest.mark.parametrize("first_sent", [True, False], ids=["earlier client first", "this client first"])
async def test_a_generated_description_is_as_good_as_none(site: Street, first_sent: bool) -> None:
    """Who asks again under its key gets its request, whether its version sends a generated description or not."""
    program = await site.program()
    sent = generated(Action("delete_records", "external", EARLIER["arguments"]))
    assert sent == "delete_records(count: 5, table_name: “customers”)"
    bodies = [
        {"request_id": "r-1", **EARLIER} | ({"action_description": sent} if with_it else {})
        for with_it in (first_sent, not first_sent)
    ]
    first, second = [await program.post("/pending", json=body) for body in bodies]
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert first.json()["action_description"] == first.json()["description"]
    whole = {
        "request_id": "r-1",
        "action_description": sent,
        "timestamp": None,
        "agent": None,
        "requester": None,
        "rationale": None,
    }
    stored = hashlib.sha256(canonical_bytes(whole | EARLIER)).hexdigest()
    assert await column(site.db, "SELECT encode(content_digest, 'hex') FROM tool_call") == [stored]
    assert await column(site.db, "SELECT rationale FROM request_revision") == [None]
    other = await program.post("/pending", json=bodies[0] | {"action_description": f"{sent}!"})
    assert other.status_code == 409
    nothing = await program.post("/pending", json={"request_id": "r-2"})
    assert nothing.status_code == 422
    assert "action_description" in nothing.text


@pytest.mark.parametrize("before", [20, 45, 170])
async def test_no_cut_shows_a_piece_of_a_secret(site: Street, before: int) -> None:
    """Wherever a title would cut it, a URL's password and a key stay unreadable in Slack, lists and answers."""
    program = await site.program()
    filler = "x" * before
    said = {
        "table_name": f"{filler} postgres://joe:{URL_PASSWORD}@db.example/shop",
        "deep": [f"{filler} {SECRETS['aws-key']}"],
        "count": 5,
    }
    answer = await program.post(
        "/pending", json={"request_id": "r-1", "action": "send_records", "arguments": said}
    )
    assert answer.status_code == 201, answer.text
    card = await site.house.card()
    listed = await program.get("/pending")
    described = await column(site.db, "SELECT description FROM request_revision")
    assert URL_PASSWORD in described[0]
    told = [[call.method, call.args] for call in site.house.slack.calls]
    seen = json.dumps([card, told, answer.json(), listed.json()], default=str, ensure_ascii=False)
    assert "send_records · " in seen
    for secret in (URL_PASSWORD, SECRETS["aws-key"]):
        assert secret[:9] not in seen


async def test_the_guides_table_says_what_the_page_says(site: Street) -> None:
    """Without a description of the program's, `action_description` is the page's text, with long values cut alike."""
    program, long = await site.program(), "x" * 90
    values = (
        {"table_name": "customers", "count": 5},
        {"table_name": long, "count": 5},
        {"table_name": f"“a” “{long}” «b»", "note": long * 8, "list": [long * 4]},
        {
            "table_name": f"it's ⟦x⟧ {long}",
            "password": "hunter-22",
            long: {"password": "p", "deep": [long] * 4},
        },
    )
    for number, arguments in enumerate(values):
        opened = await program.ask(f"r-{number}", action_description=None, arguments=arguments)
        said = opened.json()["action_description"]
        [seen] = await column(
            site.db, f"SELECT action_description FROM pending_reviews WHERE request_id = 'r-{number}'"
        )
        assert seen == said
        assert "\u2068" not in seen
