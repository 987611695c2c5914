"""The Python client against the running service, over real HTTP: in threads and in event loops alike."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from time import monotonic
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BeforeValidator, StringConstraints, validate_call

from agent.domain.api_keys import Scope
from agent.domain.people import Standing
from agent.usecases import api_keys, requests
from agent.usecases import policy as policies
from agent.usecases.requests import Edit
from signoff.client import ApprovalClient, AsyncApprovalClient, concluded, operations
from signoff.errors import (
    AlreadyClaimed,
    ApiError,
    ApprovalExpired,
    CollaborationError,
    Conflict,
    MalformedArguments,
    Unreachable,
)
from signoff.values import Action
from slackbot.web.http import places
from slackbot.web.http.metrics import WAITS_CUT_SHORT
from tests.integration.asking import column, write
from tests.integration.web.conftest import ADA, GRACE, POLICY, Program, Street, until
from tests.integration.web.line import a_line
from tests.patience import promised
from tests.warm_python import program, warm

ARGUMENTS = {"table_name": "users", "count": 50}
Lower = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]


class Caller:
    """A client of either kind: what blocks does so in a thread of its own."""

    def __init__(self, kind: str, url: str, key: str) -> None:
        self.kind = kind
        self.client: Any = (ApprovalClient if kind == "sync" else AsyncApprovalClient)(url, key)

    def __getattr__(self, name: str) -> Any:
        return self._do(getattr(self.client, name))

    def guard(self, function: Callable[..., Any], **options: Any) -> Any:
        """The function, waiting for people; a client for loops gets an async one."""
        guarded = function
        if self.kind == "async":

            async def guarded(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs)

            guarded.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
            guarded.__name__ = function.__name__
        return self._do(self.client.requires_approval(**options)(guarded))

    def _do(self, operation: Callable[..., Any]) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if self.kind == "async":
                return await operation(*args, **kwargs)
            return await asyncio.to_thread(operation, *args, **kwargs)

        return call

    async def close(self) -> None:
        await self._do(self.client.close)()


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def key(site: Street) -> str:
    """A key that may ask, of Ada's."""
    return await api_keys.create(site.db, "agent", [Scope.REQUEST], by="test", owner=ADA)


@pytest.fixture
async def caller(site: Street, kind: str, key: str) -> AsyncIterator[Caller]:
    """A client of either kind."""
    calling = Caller(kind, site.url, key)
    yield calling
    await calling.close()


@pytest.fixture
async def grace(site: Street) -> Program:
    """A reviewer, by key."""
    return await site.reviewer()


async def waiting(site: Street, number: int = 1) -> str:
    """The id of the request that waits, as soon as so many have been asked about."""

    async def look() -> list[Any]:
        ids = await column(site.db, "SELECT id::text FROM approval_request ORDER BY id")
        return ids if len(ids) >= number else []

    return str((await until(look))[-1])


async def status(site: Street) -> list[Any]:
    return await column(site.db, "SELECT status::text FROM approval_request ORDER BY id")


# --- people decide ----------------------------------------------------------------------------------------


async def test_approved_runs_the_function_once(site: Street, caller: Caller, grace: Program) -> None:
    """A row waits within a second; after the approval the function runs within five seconds; its result is reported."""
    calls: list[tuple[str, int]] = []

    def delete_records(table_name: str, count: int = 50) -> str:
        calls.append((table_name, count))
        return f"Deleted {count} records from {table_name}"

    began = monotonic()
    running = asyncio.create_task(caller.guard(delete_records)("users"))
    request = await waiting(site)
    assert monotonic() - began < promised(1)
    assert await column(site.db, "SELECT status::text FROM pending_reviews") == ["waiting"]
    assert await column(site.db, "SELECT action_description FROM pending_reviews") == [
        "Delete 50 records from “users”"
    ]
    assert calls == []
    approved = monotonic()
    assert (await grace.decide(request)).status_code == 200
    assert await running == "Deleted 50 records from users"
    assert monotonic() - approved < 5
    assert calls == [("users", 50)]
    assert await column(site.db, "SELECT status::text FROM execution") == ["succeeded"]
    assert "Deleted 50 records" in (await column(site.db, "SELECT result FROM execution"))[0]


async def test_rejected_is_logged_and_raised(
    site: Street, caller: Caller, grace: Program, caplog: pytest.LogCaptureFixture
) -> None:
    """The error names reviewer and reason, is logged as "CollaborationError: rejected" (no fault), and nothing runs."""
    calls: list[str] = []
    running = asyncio.create_task(caller.guard(calls.append, action="delete_records")("users"))

    async def paused() -> bool:
        return "paused: waiting for people" in caplog.text

    with caplog.at_level(logging.INFO, "signoff.client"):
        request = await waiting(site)
        await until(paused)
        await grace.decides(request, "rejected", reason="Not these users")
        with pytest.raises(CollaborationError, match=r"rejected by .*: Not these users") as raised:
            await running
    assert (raised.value.cause, raised.value.reason) == ("rejected", "Not these users")
    assert raised.value.reviewer == GRACE.user_id
    assert "CollaborationError: rejected" in caplog.text
    assert [each.getMessage() for each in caplog.records if each.levelno > logging.INFO] == []
    assert calls == []


async def test_a_reviewer_changes_what_is_done(site: Street, caller: Caller, grace: Program) -> None:
    """The function gets the arguments of the edit; the ones that nobody changed are the caller's own objects."""
    seen: list[Any] = []
    tables = ["users"]

    def delete_records(table_name: list[str], count: int) -> None:
        seen.extend([table_name, count])

    running = asyncio.create_task(caller.guard(delete_records)(tables, count=50))
    request = await waiting(site)
    edit = Edit(
        UUID(request),
        1,
        Standing(GRACE, frozenset({"S0FINANCE"})),
        Action("delete_records", "external", {"table_name": ["users"], "count": 3}),
        None,
        None,
        "page",
        policy_epoch=await policies.epoch_in_force(site.db),
    )
    assert (await requests.edit(site.db, edit)).changed
    assert (await grace.decide(request, revision=2)).status_code == 200
    await running
    assert seen[0] is tables
    assert seen[1] == 3


async def test_what_changes_after_the_question_is_not_what_runs(
    site: Street, caller: Caller, grace: Program
) -> None:
    """A list that grows while people decide reaches the function as they saw it."""
    seen: list[Any] = []
    tables = ["users"]

    def delete_records(table_name: list[str], count: int) -> None:
        seen.append(list(table_name))

    running = asyncio.create_task(caller.guard(delete_records)(tables, count=50))
    request = await waiting(site)
    tables.append("orders")
    assert (await grace.decide(request)).status_code == 200
    await running
    assert seen == [["users"]]


@pytest.mark.parametrize(
    ("edited", "ran"), [(None, [("users", 5)]), ("orders", [("orders", 5)]), (" LOGS", [])]
)
async def test_a_function_that_validates_gets_what_people_saw(
    site: Street, key: str, grace: Program, edited: str | None, ran: list[Any]
) -> None:
    """What `validate_call` converts is asked about as converted; an edit that it would convert does not run."""
    seen: list[Any] = []

    def delete_records(table_name: Lower, count: int = 5) -> None:
        seen.append((table_name, count))

    with ApprovalClient(site.url, key) as client:
        guarded = client.requires_approval(timeout=20)(validate_call(delete_records))
        running = asyncio.create_task(asyncio.to_thread(guarded, " USERS"))
        request = await waiting(site)
        [asked] = await column(
            site.db, "SELECT convert_from(action, 'UTF8')::json -> 'arguments' FROM request_revision"
        )
        assert asked == {"table_name": "users", "count": 5}
        if edited:
            standing = Standing(GRACE, frozenset({"S0FINANCE"}))
            action = Action("delete_records", "external", {"table_name": edited, "count": 5})
            epoch = await policies.epoch_in_force(site.db)
            edit = Edit(UUID(request), 1, standing, action, None, None, "page", policy_epoch=epoch)
            assert (await requests.edit(site.db, edit)).changed
        assert (await grace.decide(request, revision=2 if edited else 1)).status_code == 200
        with nullcontext() if ran else pytest.raises(MalformedArguments, match=r"\$\.table_name"):
            await running
    assert seen == ran


@validate_call
def spend(amount: Annotated[int, BeforeValidator(lambda value: value * 100)]) -> None:
    raise AssertionError("it never runs")


async def test_a_function_that_converts_each_time_is_asked_of_nobody(site: Street, key: str) -> None:
    """50 would be shown and 5000 spent."""
    with ApprovalClient(site.url, key) as client, pytest.raises(MalformedArguments, match=r"\$\.amount"):
        await asyncio.to_thread(client.requires_approval(timeout=20)(spend), 50)
    assert await column(site.db, "SELECT id FROM approval_request") == []


async def test_an_argument_that_the_function_lacks_stops_it(site: Street, key: str, grace: Program) -> None:
    """A reviewer adds an argument that the function lacks: it does not run, and the card says so."""
    calls: list[str] = []
    async with AsyncApprovalClient(site.url, key) as client:

        @client.requires_approval(timeout=20)
        async def delete_records(table_name: str) -> None:
            calls.append(table_name)

        running = asyncio.create_task(delete_records("users"))
        request = await waiting(site)
        editor = Standing(GRACE, frozenset({"S0FINANCE"}))
        action = Action("delete_records", "external", {"table_name": "users", "dry_run": True})
        epoch = await policies.epoch_in_force(site.db)
        edit = Edit(UUID(request), 1, editor, action, None, None, "page", policy_epoch=epoch)
        assert (await requests.edit(site.db, edit)).changed
        await grace.decides(request, revision=2)
        with pytest.raises(MalformedArguments, match="dry_run: a reviewer added it"):
            await running
    assert calls == []
    [error] = await column(site.db, "SELECT error FROM execution")
    assert "takes no such argument; nothing was done" in error


async def test_nobody_answers_in_time(site: Street, caller: Caller) -> None:
    """After its seconds a TimeoutError; the request is withdrawn, so nobody decides for nothing."""
    with pytest.raises(TimeoutError, match="nobody has decided within 1 s; the request was withdrawn"):
        await caller.ask("delete_records", ARGUMENTS, timeout=1)
    assert await status(site) == ["cancelled"]


async def test_the_deadline_of_the_request_ends_it_as_expired(site: Street, caller: Caller) -> None:
    """When the request itself expires the cause is "expired", without a reviewer."""
    running = asyncio.create_task(caller.ask("delete_records", ARGUMENTS))
    await waiting(site)
    await write(
        site.db,
        "UPDATE approval_request SET created_at = now() - interval '2 days',"
        " expires_at = now() - interval '1 day'",
    )
    with pytest.raises(CollaborationError, match="expired") as raised:
        await running
    assert (raised.value.cause, raised.value.reviewer) == ("expired", None)


@pytest.fixture
def policy(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", POLICY))


PATIENT = (
    POLICY
    + """
[[checkpoint]]
checkpoint_id = "brief"
action_pattern = "brief"
timeout_seconds = 2

[[checkpoint]]
checkpoint_id = "escalated"
action_pattern = "escalated"
timeout_seconds = 6
on_timeout = "escalate"
escalate_to = ["U0LINUS"]
"""
)


@pytest.mark.parametrize("policy", [PATIENT], indirect=True)
async def test_policy_says_how_long_a_program_waits(
    site: Street, caller: Caller, grace: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a timeout of its own it waits until the request expires, an escalation included: both errors in one."""
    monkeypatch.setattr(operations, "TIMEOUT", 0.2)  # the program's, which policy overrules
    for asking in (caller.ask("brief", {}), caller.guard(lambda: None, action="brief")()):
        with pytest.raises(ApprovalExpired) as raised:
            await asking
        assert isinstance(raised.value, TimeoutError)
        assert (raised.value.cause, raised.value.reviewer) == ("expired", None)
    assert await status(site) == ["expired", "expired"]
    running = asyncio.create_task(caller.ask("escalated", {}))
    request = await waiting(site, 3)
    await site.house.shows(
        "SELECT escalated_at IS NOT NULL FROM approval_request WHERE status = 'waiting'", True
    )
    assert not running.done()
    await grace.decides(request)
    assert (await running).status == "approved"
    with pytest.raises(TimeoutError, match=r"within 0\.2 s; the request was withdrawn"):
        await caller.ask("delete_records", ARGUMENTS)


WRITTEN = """
[[checkpoint]]
checkpoint_id = "day"
action_pattern = "day"
timeout = "24h"

[[checkpoint]]
checkpoint_id = "seconds"
action_pattern = "seconds"
timeout_seconds = 86400

[[checkpoint]]
checkpoint_id = "silent"
action_pattern = "silent"
"""
IN_DEFAULTS = '[defaults]\ntimeout = "24h"\n' + WRITTEN
DAY = 86_400


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        (WRITTEN, {"day": DAY, "seconds": DAY, "silent": None, "unmatched": None}),
        (IN_DEFAULTS, dict.fromkeys(("day", "seconds", "silent", "unmatched"), DAY)),
    ],
    indirect=["policy"],
)
async def test_a_deadline_that_policy_writes_counts_even_if_it_is_the_default(
    site: Street, caller: Caller, waits: dict[str, float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program without a timeout of its own waits on where `24h` is written, and for 30 s where nothing is."""
    monkeypatch.setattr(operations, "TIMEOUT", 0.2)
    asking = {action: asyncio.create_task(caller.ask(action, {}, key=action)) for action in waits}
    silent = [asking[action] for action, seconds in waits.items() if seconds is None]
    for ended in await asyncio.gather(*silent, return_exceptions=True):
        assert "nobody has decided within 0.2 s" in str(ended)
    await waiting(site, len(waits))
    for action, seconds in waits.items():
        review = await caller.get(action)
        assert (review.status, review.raw["timeout_seconds"]) == ("waiting", seconds)
        await caller.withdraw(action)
    for action, seconds in waits.items():
        if seconds is not None:
            with pytest.raises(CollaborationError, match="withdrawn"):
                await asking[action]


async def test_policy_may_need_nobody(site: Street, caller: Caller) -> None:
    """What the checkpoints let run runs at once, without a request and without a claim."""
    decision = await caller.ask("read_records", {"table_name": "users"})
    assert decision.status == "not_required"
    assert await caller.guard(lambda table_name: table_name, action="read_records")("users") == "users"
    assert await status(site) == []


async def test_what_the_function_raises_is_reported_and_raised(
    site: Street, caller: Caller, grace: Program
) -> None:
    """Its own error comes out, and the execution is failed with its words."""

    def delete_records(table_name: str) -> None:
        raise LookupError(f"no table {table_name}")

    running = asyncio.create_task(caller.guard(delete_records)("users"))
    await grace.decides(await waiting(site))
    with pytest.raises(LookupError, match="no table users"):
        await running
    assert await column(site.db, "SELECT error FROM execution WHERE status = 'failed'") == [
        "LookupError: no table users"
    ]


# --- keys, claims -----------------------------------------------------------------------------------------


ELSEWHERE = """
import sys
from signoff import ApprovalClient
client = ApprovalClient(sys.argv[1], sys.argv[2])
decision = client.ask("delete_records", {"table_name": "users", "count": 50}, key="nightly-7", timeout=60)
print(decision.status, decision.reviewer, flush=True)
"""


async def elsewhere(site: Street, key: str, folder: Path) -> asyncio.subprocess.Process:
    """A process that asks under a key, and says what was decided."""
    return await asyncio.create_subprocess_exec(
        *program(folder, ELSEWHERE), site.url, key, stdout=asyncio.subprocess.PIPE
    )


async def test_a_process_that_was_killed_finds_its_request_again(
    site: Street, key: str, grace: Program, tmp_path: Path
) -> None:
    """A program killed with `kill -9` as it waits asks again under the same key: one request, and its decision."""
    first = await elsewhere(site, key, tmp_path)
    request = await waiting(site)
    first.kill()
    await first.wait()
    await grace.decides(request)
    second = await elsewhere(site, key, tmp_path)
    said, _ = await second.communicate()
    assert said.decode().split() == ["approved", GRACE.user_id]
    assert await status(site) == ["approved"]


async def test_a_request_with_a_key_goes_on_waiting(site: Street, caller: Caller, grace: Program) -> None:
    """It times out without being withdrawn, and asking again takes it up; other content under the key is refused."""
    with pytest.raises(TimeoutError, match="stays open under its key night-7"):
        await caller.ask("delete_records", ARGUMENTS, key="night-7", timeout=0.5)
    assert await status(site) == ["waiting"]
    with pytest.raises(Conflict):
        await caller.ask("delete_records", {**ARGUMENTS, "count": 51}, key="night-7")
    running = asyncio.create_task(caller.ask("delete_records", ARGUMENTS, key="night-7"))
    await grace.decides(await waiting(site))
    decision = await running
    assert (decision.status, decision.arguments, decision.edited) == ("approved", ARGUMENTS, False)
    assert len(await status(site)) == 1


async def test_five_at_once_do_it_once(site: Street, key: str, grace: Program) -> None:
    """Five processes' worth of clients ask under one key: one runs the function, four learn that it was claimed."""
    calls: list[str] = []
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncApprovalClient(site.url, key)) for _ in range(5)]

        def guarded(client: AsyncApprovalClient) -> Any:
            @client.requires_approval(key="once")
            async def delete_records(table_name: str) -> str:
                calls.append(table_name)
                return "done"

            return delete_records

        running = [asyncio.create_task(guarded(client)("users")) for client in clients]
        await grace.decides(await waiting(site))
        ended = await asyncio.gather(*running, return_exceptions=True)
    assert calls == ["users"]
    assert [each for each in ended if each == "done"] == ["done"]
    assert len([each for each in ended if isinstance(each, AlreadyClaimed)]) == 4
    assert await column(site.db, "SELECT count(*) FROM execution") == [1]


async def test_the_steps_one_by_one(site: Street, caller: Caller, grace: Program) -> None:
    """ask, get, pending, claim, report and withdraw do each its own, for those who want no decorator."""
    running = asyncio.create_task(caller.ask("delete_records", ARGUMENTS, context={"task": "tidy"}))
    request = await waiting(site)
    [listed] = await caller.pending()
    assert (listed.id, listed.status, listed.raw["agent_context"]) == (request, "waiting", {"task": "tidy"})
    await grace.decides(request)
    decision = await running
    claimed = await caller.claim(decision, lease="1m")
    assert claimed.arguments == ARGUMENTS
    with pytest.raises(AlreadyClaimed):
        await caller.claim(decision)
    review = await caller.report(claimed, {"deleted": 50}, seconds=0.1)
    assert review.raw["execution"]["status"] == "succeeded"
    assert (await caller.report(claimed, {"deleted": 50})).raw["execution"]["attempt"] == 1
    assert (await caller.get(decision.request_id)).status == "approved"
    with pytest.raises(Conflict):
        await caller.withdraw(decision.request_id)
    with pytest.raises(ApiError, match="no such request"):
        await caller.get("unheard-of")


async def test_asking_without_waiting(site: Street, caller: Caller, grace: Program) -> None:
    """`submit` returns at once; what it asked about is concluded as soon as people have decided, not before."""
    asked = await caller.submit("delete_records", ARGUMENTS, key="later")
    assert asked.status == "waiting"
    with pytest.raises(TimeoutError, match="nobody has decided yet"):
        concluded(asked, ARGUMENTS)
    assert (await caller.submit("delete_records", ARGUMENTS, key="later")).id == asked.id
    await grace.decides(asked.id, reason="Once only")
    decision = concluded(await caller.get("later", wait=5), ARGUMENTS)
    assert (decision.status, decision.reviewer, decision.arguments) == ("approved", GRACE.user_id, ARGUMENTS)
    assert decision.notes == ("Once only",)
    assert (await caller.submit("read_records", {"table_name": "users"})).status == "not_required"
    other = await caller.submit("delete_records", ARGUMENTS)
    await grace.decides(other.id, "rejected", reason="No")
    with pytest.raises(CollaborationError, match=r"rejected by .*: No"):
        concluded(await caller.get(other.id))


async def test_a_claim_with_a_name_can_be_taken_up_again(
    site: Street, caller: Caller, grace: Program
) -> None:
    """Claimed again under the same name it is the same claim, whose token still counts; under another it is taken."""
    running = asyncio.create_task(caller.ask("delete_records", ARGUMENTS))
    await grace.decides(await waiting(site))
    decision = await running
    first = await caller.claim(decision, attempt="nightly-7:1")
    assert await caller.claim(decision, attempt="nightly-7:1") == first
    with pytest.raises(AlreadyClaimed):
        await caller.claim(decision, attempt="nightly-7:2")
    assert (await caller.report(first, "done")).raw["execution"]["status"] == "succeeded"


# --- when things go wrong ---------------------------------------------------------------------------------


async def test_the_service_starts_again_while_somebody_waits(
    site: Street, caller: Caller, grace: Program
) -> None:
    """The waiting call survives a restart of the service, and receives the decision afterwards."""
    running = asyncio.create_task(caller.ask("delete_records", ARGUMENTS, timeout=60))
    request = await waiting(site)
    port = str(site.service.port)
    await site.service.stop()
    assert not running.done()
    await site.house.open([], SIGNOFF_PORT=port)
    await grace.decides(request)
    assert (await running).status == "approved"
    assert len(await status(site)) == 1


async def test_a_lost_answer_opens_no_second_request(
    site: Street, kind: str, key: str, grace: Program
) -> None:
    """The answer to the question is lost twice after it was stored: one request, and the decision arrives."""
    assert site.service.port
    async with a_line(site.service.port) as line:
        line.lost = 2
        caller = Caller(kind, line.url, key)
        running = asyncio.create_task(caller.ask("delete_records", ARGUMENTS))
        await until(lambda: _true(line.swallowed == 2))
        await grace.decides(await waiting(site))
        assert (await running).status == "approved"
        await caller.close()
    assert len(await status(site)) == 1


async def _true(value: object) -> bool:
    return bool(value)


def http_answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    """An HTTP answer, written out."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def test_busy_is_waited_for_as_long_as_it_says(site: Street, kind: str, key: str) -> None:
    """429 with Retry-After: the next attempt comes no earlier; then the call succeeds."""
    assert site.service.port
    async with a_line(site.service.port) as line:
        line.says = http_answer("429 Too Many Requests", "Retry-After: 1")
        caller = Caller(kind, line.url, key)
        began = monotonic()
        running = asyncio.create_task(caller.pending())
        await until(lambda: _true(line.asked))
        line.says = None
        assert await running == []
        assert monotonic() - began >= 1
        await caller.close()


async def test_a_service_with_many_waiting_callers_is_asked_again(
    site: Street, caller: Caller, grace: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answered early, the client asks again after the time that it is told, no sooner, and gets the decision."""
    monkeypatch.setattr(places, "SOONEST", 1.0)
    monkeypatch.setattr(site.service.web.places, "most", 0)
    counted = WAITS_CUT_SHORT._value.get
    before, began = counted(), monotonic()
    running = asyncio.create_task(caller.ask("delete_records", ARGUMENTS, timeout=60))
    request = await waiting(site)
    await until(lambda: _true(counted() >= before + 3))
    assert monotonic() - began >= 2
    await grace.decides(request)
    assert (await running).status == "approved"
    assert counted() <= before + 5


async def test_early_answers_without_a_time_are_no_reason_to_hurry(site: Street, kind: str, key: str) -> None:
    """What answers at once and says nothing more is asked a few times a second, until the wait is over."""
    program = await site.client(key)
    request = (await program.ask()).json()
    assert site.service.port
    async with a_line(site.service.port) as line:
        line.says = http_answer("200 OK", "Content-Type: application/json", body=json.dumps(request).encode())
        caller = Caller(kind, line.url, key)
        began = monotonic()
        assert (await caller.get(request["id"], wait=1.5)).status == "waiting"
        assert 1.4 <= monotonic() - began < 10
        assert line.asked <= 10
        await caller.close()


async def test_an_attempt_still_being_answered_is_waited_for(site: Street, kind: str, key: str) -> None:
    """409 `under-way`, after a lost answer, is no refusal: the same call is repeated until it is answered."""
    assert site.service.port
    async with a_line(site.service.port) as line:
        problem = (
            b'{"type": "urn:signoff:under-way", "title": "In progress", "status": 409, "detail": "Wait."}'
        )
        line.says = http_answer("409 Conflict", "Content-Type: application/problem+json", body=problem)
        caller = Caller(kind, line.url, key)
        running = asyncio.create_task(caller.pending())
        await until(lambda: _true(line.asked))
        line.says = None
        assert await running == []
        await caller.close()


@pytest.mark.parametrize(
    ("says", "error", "words"),
    [
        (http_answer("200 OK", body=b"<html>hello</html>"), ApiError, "is this the address of Signoff"),
        (
            http_answer("404 Not Found", body=b"nothing here"),
            ApiError,
            "answered 404 without problem details",
        ),
        (http_answer("302 Found", "Location: https://evil.example/"), ApiError, "answered 302"),
        (http_answer("503 Service Unavailable", "Retry-After: 60"), ApiError, "answered 503"),
        (b"", Unreachable, "the service does not answer"),
    ],
)
async def test_what_is_not_signoff_is_told_clearly(
    kind: str, says: bytes, error: type[Exception], words: str
) -> None:
    """A wrong address and a service that stays down: a clear error, within the given patience."""
    async with a_line(9) as line:
        line.says = says
        caller = Caller(kind, line.url, "signoff_" + "x" * 43)
        began = monotonic()
        with pytest.raises(error, match=words):
            await caller.pending(patience=1.0)
        assert monotonic() - began < 5
        await caller.close()


async def test_a_wrong_key_is_told_at_once(site: Street, kind: str) -> None:
    """401 is no reason to try again; the words are the service's, without the key."""
    wrong = "signoff_" + "x" * 43
    caller = Caller(kind, site.url, wrong)
    began = monotonic()
    with pytest.raises(ApiError, match="not valid") as raised:
        await caller.ask("delete_records", ARGUMENTS)
    assert raised.value.status == 401
    assert wrong not in str(raised.value)
    assert monotonic() - began < 5
    await caller.close()


async def test_what_cannot_be_asked_is_told_before_anything_is_sent(kind: str) -> None:
    """No address, no key, arguments that are no JSON, and the wrong kind of function."""
    with pytest.raises(ValueError, match="https://"):
        ApprovalClient("signoff.example", "signoff_x")
    with pytest.raises(ValueError, match="keys create"):
        AsyncApprovalClient("https://signoff.example", "")
    caller = Caller(kind, "http://127.0.0.1:9", "signoff_x")
    with pytest.raises(MalformedArguments, match="when"):
        await caller.ask("delete_records", {"when": object()})
    with pytest.raises(MalformedArguments, match="so nobody can be asked"):
        await caller.guard(lambda when: when, action="delete_records")(object())
    with pytest.raises(ValueError, match="say in `description`"):
        await caller.ask(None, {"a": 1})

    def plain() -> None: ...

    async def coroutine() -> None: ...

    with pytest.raises(TypeError, match="Approval"):
        caller.client.requires_approval()(coroutine if kind == "sync" else plain)
    assert "signoff_x" not in json.dumps(repr(caller.client))
    await caller.close()


@pytest.mark.parametrize("wrong", ["", "x" * 201, "two\nlines", "\ud800", 7])
async def test_a_wrong_session_is_told_before_anything_is_sent(kind: str, wrong: Any) -> None:
    """A client, a question and a guarded function say what a session is."""
    with pytest.raises(ValueError, match="1 to 200 characters without control characters"):
        (ApprovalClient if kind == "sync" else AsyncApprovalClient)("http://127.0.0.1:9", "k", session=wrong)
    caller = Caller(kind, "http://127.0.0.1:9", "signoff_x")
    for operation in (caller.ask, caller.submit):
        with pytest.raises(ValueError, match="1 to 200 characters"):
            await operation("delete_records", ARGUMENTS, session=wrong)
    with pytest.raises(ValueError, match="1 to 200 characters"):
        await caller.guard(lambda when: when, action="delete_records", session=wrong)(1)
    await caller.close()


async def test_a_question_names_its_session(site: Street, caller: Caller, grace: Program) -> None:
    """The question's own, else the client's; whoever gave words in it does not approve alone what follows in it."""
    caller.client._session = "chat-0"
    for number, more in enumerate([{}, {"session": "chat-1"}], start=1):
        await caller.submit("delete_records", ARGUMENTS, key=f"r-{number}", **more)
    guarded = caller.guard(
        lambda table_name: table_name, action="drop_table", timeout=0, session=lambda table_name: table_name
    )
    with pytest.raises(TimeoutError):
        await guarded("chat-2")
    with pytest.raises(TimeoutError):
        await caller.guard(lambda table_name: table_name, action="drop_table", timeout=0)("users")
    assert await site.sessions() == ["chat-0", "chat-1", "chat-2", "chat-0"]
    await grace.decides("r-2", "rejected", reason="drop it instead")
    later = await caller.submit("drop_table", {}, session="chat-1")
    assert (await grace.decide(later.id)).status_code == 403
    assert (await grace.decide((await caller.submit("drop_table", {})).id)).status_code == 200


# --- the guide's agent ------------------------------------------------------------------------------------


EXAMPLE = Path(__file__).parents[3] / "examples" / "guide_agent.py"


@pytest.mark.parametrize("decision", ["approved", "rejected"])
async def test_the_guides_agent(site: Street, key: str, grace: Program, decision: str) -> None:
    """The example as a process: approved it deletes within five seconds; rejected it ends with the error, logged."""
    agent = await asyncio.create_subprocess_exec(
        warm(),
        str(EXAMPLE),
        env=os.environ | {"SIGNOFF_URL": site.url, "SIGNOFF_KEY": key, "PYTHONPATH": str(EXAMPLE.parents[1])},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert agent.stderr is not None
    said = await agent.stderr.readline()
    assert "paused: waiting for people to decide about Delete 50 records from “users”" in said.decode()
    request = await waiting(site)
    assert (await grace.decide(request, decision)).status_code == 200
    decided = monotonic()
    out, err = await agent.communicate()
    assert monotonic() - decided < 5
    if decision == "approved":
        assert (agent.returncode, out.decode().strip()) == (0, "Deleted 50 records from users")
    else:
        assert (agent.returncode, out) == (1, b"")
        assert "CollaborationError: rejected" in err.decode()
