"""Notices out: signed webhooks and e-mail, from the fact to a real receiver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent.database.pools import Database
from agent.domain.errors import NotFound
from agent.domain.outbound import OutboundEvent
from agent.domain.people import Standing
from agent.runtime.agents import Agent
from agent.runtime.executor import Look
from agent.runtime.tool import tool
from agent.store.ids import new_id
from agent.usecases import forgetting, outbound, requests, runs, webhooks
from signoff.errors import Conflict
from signoff.values import Action
from slackbot.outbound.sender import OutboundSender
from tests.integration import alone
from tests.integration.asking import ADA, GRACE, ask, ballot, column, reviewer, rows, rule, start, write
from tests.integration.service.conftest import House, http_house, until  # noqa: F401
from tests.integration.test_sent_messages import AGE
from tests.integration.web.receiver import LOOPBACK, PUBLIC_URL, Receiver, a_receiver, a_sender
from tests.patience import promised
from tests.planted import SECRETS


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver of webhooks."""
    async with a_receiver() as listening:
        yield listening


@pytest.fixture
async def sender(database: Database) -> AsyncIterator[OutboundSender]:
    """The sender of one process."""
    sending = a_sender(database)
    yield sending
    await sending.stop(1)


async def due_now(db: Database) -> None:
    """The pauses are over."""
    await write(db, "UPDATE notice SET next_at = clock_timestamp() WHERE state = 'pending'")


async def send(db: Database, *senders: OutboundSender) -> None:
    """Every sender sends everything that is due, to the end."""
    for target in await column(db, "SELECT DISTINCT webhook_id::text FROM notice WHERE state = 'pending'"):
        for sender in senders:
            sender.look(target)
    for sender in senders:
        await asyncio.gather(*list(sender._tasks.values()))


async def due(db: Database) -> list[object]:
    """Receivers with due notices."""
    return [wakeup.key for wakeup in await Look(db, list).find()]


async def states(db: Database) -> list[tuple[Any, ...]]:
    return await rows(db, "SELECT event, state::text, attempts FROM notice ORDER BY created_at, event")


# --- what is told -----------------------------------------------------------------------------------------


async def test_a_webhook_is_told_of_request_decision_and_end(http_house: House, receiver: Receiver) -> None:  # noqa: F811
    """Through the running service: three signed notices, each within five seconds of its fact."""
    house = http_house

    @tool
    def delete_records(table_name: str, count: int) -> str:
        """Delete records."""
        return f"Deleted {count} records from {table_name}"

    await house.open(
        [Agent("data", "You manage data.", [delete_records])],
        SIGNOFF_PUBLIC_URL=f"{PUBLIC_URL}/",
        SIGNOFF_WEBHOOK_NETWORKS="127.0.0.0/8",
    )
    secret = await webhooks.add(house.db, "ops", receiver.url, by="test", allowed=LOOPBACK)
    await house.ask("U0ADA", "please delete_records table_name=users count=50")
    await house.slack.wait_for(lambda: receiver.received, timeout=5)
    [opened] = receiver.received
    assert opened.is_signed_with(secret)
    assert opened.headers["Signoff-Event"] == "request.opened"
    assert opened.headers["Signoff-Delivery"] == opened.content["id"]
    request = opened.content["request"]
    assert request["status"] == "waiting"
    assert request["action"]["arguments"] == {"table_name": "users", "count": 50}
    assert request["url"] == f"{PUBLIC_URL}/inbox/requests/{request['id']}"
    assert opened.content["run"] is None
    card = await house.card()
    await house.slack.person("U0GRACE").click(card, "signoff:approve")
    await house.slack.wait_for(lambda: len(receiver.received) == 3, timeout=5)
    contents = {each.headers["Signoff-Event"]: each.content for each in receiver.received}
    assert contents.keys() == {"request.opened", "decision.made", "run.finished"}
    decided, finished = contents["decision.made"], contents["run.finished"]
    assert decided["request"]["status"] == "approved"
    assert decided["request"]["decided_by"]["user_id"] == "U0GRACE"
    assert finished["run"]["status"] == "completed"
    assert finished["run"]["id"] == request["run_id"]
    assert "Deleted 50 records" in finished["run"]["answer"]
    assert all(each.is_signed_with(secret) for each in receiver.received)


async def test_every_kind_of_end_is_a_decision(database: Database) -> None:
    """Approved, rejected, withdrawn and expired requests each queue one notice, in the transaction of the fact."""
    await webhooks.add(database, "ops", "https://example.com/", [OutboundEvent.DECISION_MADE], by="test")
    asked = [await ask(database) for _ in range(4)]
    await alone.vote(database, ballot(asked[0], reviewer(GRACE)))
    await alone.vote(database, ballot(asked[1], reviewer(GRACE), "reject"))
    await requests.withdraw(database, asked[2].request_id, None, None)
    await write(
        database,
        "UPDATE approval_request SET created_at = now() - interval '2 days',"
        " expires_at = now() - interval '1 day' WHERE status = 'waiting'",
    )
    await requests.expire_due(database)
    notices = await rows(database, "SELECT event, request_id FROM notice ORDER BY created_at")
    assert notices == [("decision.made", each.request_id) for each in asked]


async def test_who_is_not_subscribed_is_not_told(database: Database) -> None:
    """Without a webhook, with one for other events, and after its removal nothing is queued."""
    await ask(database)
    await webhooks.add(database, "runs", "https://example.com/", [OutboundEvent.RUN_FINISHED], by="test")
    await webhooks.add(database, "gone", "https://example.com/", by="test")
    await webhooks.remove(database, "gone", by="test")
    await ask(database)
    assert await states(database) == []


async def test_no_secret_is_told(database: Database, sender: OutboundSender, receiver: Receiver) -> None:
    """Planted secrets in a description, in the context and in a reviewer's note reach no receiver; the note does."""
    await webhooks.add(database, "ops", receiver.url, by="test", allowed=LOOPBACK)
    said = "; ".join(SECRETS.values())
    asked = await ask(database, description=f"Refund {said}", context={"task": said})
    await alone.vote(database, ballot(asked, reviewer(GRACE), reason=f"Once only; {said}"))
    await send(database, sender)
    assert not [
        kind for kind, secret in SECRETS.items() for post in receiver.received if secret.encode() in post.body
    ]
    [decided] = [post for post in receiver.received if post.headers["Signoff-Event"] == "decision.made"]
    assert decided.content["request"]["votes"][0]["reason"].startswith("Once only; ")


async def test_what_an_agent_below_was_given_stays_hidden(
    database: Database, sender: OutboundSender, receiver: Receiver
) -> None:
    """A value that a checkpoint redacts does not leave with the end of the run above, which says it again."""
    await webhooks.add(
        database, "ops", receiver.url, [OutboundEvent.RUN_FINISHED], by="test", allowed=LOOPBACK
    )
    parent, _ = await start(database)
    secret = Action("process_refund", "1", {"order_id": "order-of-the-crown"})
    await ask(database, rule(redact=("order_id",)), parent=parent, action=secret)
    await runs.cancel(database, parent, Standing(ADA))
    await write(database, "UPDATE agent_run SET cause = 'order-of-the-crown' WHERE id = :id", id=parent)
    await send(database, sender)
    posted = [json.loads(each.body)["run"] for each in receiver.received]
    assert parent.hex in {each["id"].replace("-", "") for each in posted}
    assert "order-of-the-crown" not in str(posted)


# --- when it does not arrive ------------------------------------------------------------------------------


async def test_a_receiver_that_hangs_delays_nobody(http_house: House, receiver: Receiver) -> None:  # noqa: F811
    """While one receiver hangs, a decision takes less than a second and another receiver is informed of it."""
    house = http_house

    @tool
    def delete_records(table_name: str, count: int) -> str:
        """Delete records."""
        return "deleted"

    await house.open(
        [Agent("data", "You manage data.", [delete_records])], SIGNOFF_WEBHOOK_NETWORKS="127.0.0.0/8"
    )
    async with a_receiver() as hanging:
        hanging.hang = asyncio.Event()
        await webhooks.add(house.db, "hangs", hanging.url, by="test", allowed=LOOPBACK)
        await webhooks.add(house.db, "ops", receiver.url, by="test", allowed=LOOPBACK)
        await house.ask("U0ADA", "please delete_records table_name=users count=50")
        card = await house.card()
        await house.slack.wait_for(lambda: hanging.received, timeout=5)
        began = monotonic()
        answer = await house.slack.person("U0GRACE").click(card, "signoff:approve")
        assert answer.error is None
        assert monotonic() - began < promised(1)
        await house.slack.wait_for(lambda: "run.finished" in receiver.events(), timeout=5)


async def test_a_failure_is_tried_again_under_the_same_id(
    database: Database, sender: OutboundSender, receiver: Receiver
) -> None:
    """500, then 503 with Retry-After: it waits about five seconds, then as long as asked, then arrives, once."""
    receiver.answers = [(500, {}), (503, {"Retry-After": "900"}), (204, {})]
    await webhooks.add(database, "ops", receiver.url, by="test", allowed=LOOPBACK)
    await ask(database)
    left = "SELECT extract(epoch FROM next_at - clock_timestamp())::float, error FROM notice"
    await send(database, sender)
    [(seconds, error)] = await rows(database, left)
    assert 2 < seconds < 7
    assert error == "answered 500"
    await send(database, sender)
    assert len(receiver.received) == 1
    await due_now(database)
    await send(database, sender)
    [(seconds, _)] = await rows(database, left)
    assert 890 < seconds <= 900
    await due_now(database)
    await send(database, sender)
    assert await states(database) == [("request.opened", "sent", 3)]
    assert len({each.headers["Signoff-Delivery"] for each in receiver.received}) == 1
    await due_now(database)
    await send(database, sender)
    assert len(receiver.received) == 3


@pytest.mark.parametrize(
    ("status", "state"), [(410, "dead"), (302, "pending"), (404, "pending"), (429, "pending")]
)
async def test_what_an_answer_means(
    database: Database, sender: OutboundSender, receiver: Receiver, status: int, state: str
) -> None:
    """Gone is gone at once; redirects are not followed; everything else may be mended and is tried again."""
    async with a_receiver() as elsewhere:
        receiver.answers = [(status, {"Location": elsewhere.url})]
        await webhooks.add(database, "ops", receiver.url, by="test", allowed=LOOPBACK)
        await ask(database)
        await send(database, sender)
        assert await states(database) == [("request.opened", state, 1)]
        assert elsewhere.received == []


async def test_given_up_after_a_day_and_replayed(
    database: Database, sender: OutboundSender, receiver: Receiver
) -> None:
    """After sixteen attempts a notice is dead, logged and listed with its error; replayed, it arrives."""
    receiver.answers = [(500, {}), (200, {})]
    await webhooks.add(database, "ops", receiver.url, by="test", allowed=LOOPBACK)
    await ask(database)
    await write(database, "UPDATE notice SET attempts = 15")
    with capture_logs() as logs:
        await send(database, sender)
    assert [line["action"] for line in logs] == ["notice.dead"]
    [dead] = await webhooks.list_dead(database)
    assert (dead.target, dead.event, dead.attempts, dead.error) == (
        "ops",
        "request.opened",
        16,
        "answered 500",
    )
    [line] = await webhooks.list_webhooks(database)
    assert (line.pending, line.dead, line.last_sent_at) == (0, 1, None)
    assert await webhooks.list_dead(database, after=dead.id) == []
    assert await due(database) == []
    with pytest.raises(NotFound):
        await webhooks.replay(database, new_id())
    assert await webhooks.replay(database, dead.id) == 1
    await send(database, sender)
    assert await states(database) == [("request.opened", "sent", 1)]


def test_the_pauses_make_a_day() -> None:
    """The first pause is about 5 s, none is longer than six hours, and all of them together take about 24 h."""
    pauses = [outbound.retry_delay(attempt, None, 0.5) for attempt in range(1, outbound.ATTEMPTS)]
    assert pauses[0] == pytest.approx(5)
    assert max(pauses) == pytest.approx(6 * 3600)
    assert 22 < sum(pauses) / 3600 < 26
    assert outbound.retry_delay(1, None, 0.0) < outbound.retry_delay(1, None, 0.99)
    assert outbound.retry_delay(1, 1e9, 0.5) == 6 * 3600


async def test_a_target_that_takes_nothing_rests(
    database: Database, sender: OutboundSender, receiver: Receiver
) -> None:
    """Looks have a receiver that is away tried with the first ten notices, and then left alone for a while."""
    receiver.answers = [(500, {})] * 20
    await webhooks.add(database, "ops", receiver.url, by="test", allowed=LOOPBACK)
    for _ in range(12):
        await ask(database)
    [target] = await due(database)
    for _ in range(3):
        sender.found(str(target))
        await asyncio.gather(*list(sender._tasks.values()))
    assert len(receiver.received) == 10
    sender.look(str(target))  # replayed, say
    await asyncio.gather(*list(sender._tasks.values()))
    assert len(receiver.received) == 12


async def test_two_senders_tell_it_once(database: Database, receiver: Receiver) -> None:
    """Forty notices and two processes that look at the same moment: each notice arrives once."""
    await webhooks.add(database, "ops", receiver.url, by="test", allowed=LOOPBACK)
    for _ in range(40):
        await ask(database)
    senders = [a_sender(database), a_sender(database)]
    await send(database, *senders)
    for each in senders:
        await each.stop(1)
    assert len(receiver.received) == 40
    assert len({post.headers["Signoff-Delivery"] for post in receiver.received}) == 40


async def test_what_a_dead_sender_had_taken_is_told(
    database: Database, sender: OutboundSender, receiver: Receiver
) -> None:
    """Taken and not settled, it is nobody's for its lease; then a look finds it and it arrives."""
    await webhooks.add(database, "ops", receiver.url, by="test", allowed=LOOPBACK)
    await ask(database)
    [target] = await column(database, "SELECT webhook_id::text FROM notice")
    [taken] = await outbound.lease_due(database, target, 10)
    assert await outbound.lease_due(database, target, 10) == []
    assert await due(database) == []
    await due_now(database)
    assert await due(database) == [target]
    await send(database, sender)
    assert await states(database) == [("request.opened", "sent", 2)]
    assert not await outbound.mark_sent(database, taken)


async def test_removing_a_webhook_forgets_what_it_was_to_be_told(
    database: Database, sender: OutboundSender
) -> None:
    """What still waited is left out, its secret is gone, its name is free, and both acts are on record."""
    await webhooks.add(database, "ops", "https://example.com/hook?token=1", by="key:admin")
    await ask(database)
    await webhooks.remove(database, "ops", by="key:admin")
    assert await states(database) == [("request.opened", "skipped", 0)]
    assert await column(database, "SELECT secret FROM webhook") == [""]
    with pytest.raises(NotFound):
        await webhooks.remove(database, "ops", by="key:admin")
    await webhooks.add(database, "ops", "https://example.com/", by="key:admin")
    with pytest.raises(Conflict):
        await webhooks.add(database, "ops", "https://example.com/", by="key:admin")
    notices = await rows(
        database,
        "SELECT actor, event, detail ->> 'host' FROM audit_event WHERE subject = 'webhook:ops' ORDER BY seq",
    )
    assert notices == [
        ("key:admin", "webhook.added", "example.com"),
        ("key:admin", "webhook.removed", None),
        ("key:admin", "webhook.added", "example.com"),
    ]


async def test_a_fact_that_met_the_removal_is_not_told(
    database: Database, sender: OutboundSender, receiver: Receiver
) -> None:
    """A notice that was committed while its webhook was being removed is left out, too; replaying cannot send it."""
    await webhooks.add(database, "ops", receiver.url, by="test", allowed=LOOPBACK)
    await ask(database)
    await webhooks.remove(database, "ops", by="test")
    for state in ("pending", "dead"):
        await write(database, "UPDATE notice SET state = CAST(:state AS delivery_state)", state=state)
        await webhooks.replay(database)
        await send(database, sender)
        assert await column(database, "SELECT state::text FROM notice") == ["skipped"]
    assert receiver.received == []


async def test_each_post_has_a_connection_of_its_own(
    database: Database, sender: OutboundSender, receiver: Receiver
) -> None:
    """No name is posted to over a connection on which another one had shown its certificate."""
    await webhooks.add(database, "ops", receiver.url, by="test", allowed=LOOPBACK)
    for _ in range(3):
        await ask(database)
        await send(database, sender)
    assert len({post.peer for post in receiver.received}) == 3


@pytest.mark.parametrize("host", ["169.254.169.254", "169.254.43518"])
async def test_a_webhook_that_leads_inside_is_not_followed(
    database: Database, sender: OutboundSender, host: str
) -> None:
    """A webhook is not posted to a refused address, also if only the lookup of its name leads there; the reason is
    recorded.
    """
    await webhooks.add(database, "ops", "https://example.com/", by="test")
    await write(database, "UPDATE webhook SET url = :url", url=f"https://{host}/latest/meta-data")
    await ask(database)
    await send(database, sender)
    [error] = await column(database, "SELECT error FROM notice")
    assert "cloud metadata" in error


async def test_old_news_are_forgotten(database: Database, sender: OutboundSender, receiver: Receiver) -> None:
    """Notices sent more than a week ago are dropped; pending ones, and those given up, are not."""
    await webhooks.add(database, "ops", receiver.url, by="test", allowed=LOOPBACK)
    for _ in range(3):
        await ask(database)
    await write(database, AGE.replace("delivery", "notice"))
    ids = await column(database, "SELECT id FROM notice ORDER BY created_at")
    await write(database, "UPDATE notice SET state = 'sent' WHERE id = :id", id=ids[0])
    await write(database, "UPDATE notice SET state = 'dead' WHERE id = :id", id=ids[1])
    assert await forgetting.notices(database) == 1
    assert sorted(await column(database, "SELECT state::text FROM notice")) == ["dead", "pending"]
