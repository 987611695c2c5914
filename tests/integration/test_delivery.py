"""The drain: each thing told once, in order, at Slack's pace, whatever Slack does meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from agent.database.errors import DatabaseRefuses
from agent.database.pools import Database
from agent.database.precedence import Precedence, Rank
from agent.domain.request import Place
from agent.store import outbox
from agent.store.outbox import Destination
from agent.usecases import deliveries, requests
from signoff_demo.sandbox import SlackSandbox
from signoff_demo.sandbox.messages import Timestamps
from signoff_demo.sandbox.rate_limits import RateLimits
from slackbot import cards
from slackbot.delivery import drain as drain_module
from slackbot.delivery.drain import Drain
from slackbot.slack_api import client as slack_client
from slackbot.slack_api import messenger
from slackbot.slack_api.allowance import BURST
from slackbot.slack_api.client import SlackClient
from slackbot.slack_api.directory import Directory
from tests.integration import alone
from tests.integration.asking import (
    GRACE,
    LINUS,
    REVIEWS,
    TEAM,
    Asked,
    ask,
    ballot,
    column,
    programs_question,
    reviewer,
    rule,
)
from tests.integration.listeners.conftest import BOT, workspace
from tests.integration.service.conftest import until
from tests.statement_counter import counting

CHANNEL = REVIEWS.channel_id
POST, UPDATE = "chat.postMessage", "chat.update"


@dataclass
class Office:
    """A drain without pace, the sandbox that it speaks to, and what is stored."""

    slack: SlackSandbox
    db: Database
    directory: Directory
    drains: list[Drain] = field(default_factory=list)

    def drain(self, pace: float = 0.0, **options: Any) -> Drain:
        """Another drain, as in another process."""
        client = SlackClient(self.slack.bot_token, self.slack.api_url)
        return Drain(self.db, client, self.directory, f"drain-{len(self.drains)}", pace=pace, **options)

    def open_admin_channel(self) -> None:
        """Add operators to the workspace, and a drain for them."""
        self.slack.workspace.add_channel("C0ADMIN", "operators", ["U0ADA", BOT])
        self.drains[0] = self.drain(admin=Destination(TEAM, "C0ADMIN"))

    async def operator_messages(self) -> list[str]:
        """What operators have been told so far."""
        await self.tell_all("C0ADMIN")
        return [str(message["blocks"]) for message in self.slack.messages("C0ADMIN")]

    async def tell(self, channel: str = CHANNEL) -> None:
        """One look of the drain at the channel."""
        await self.drains[0].run(TEAM, channel)

    async def tell_once(self, messages: int) -> None:
        """The drain is stopped after so many messages, as when its process ends."""
        began = len(self.slack.calls_of(POST))
        message = asyncio.create_task(self.tell())
        await self.slack.wait_for(lambda: len(self.slack.calls_of(POST)) >= began + messages)
        message.cancel()
        await asyncio.gather(message, return_exceptions=True)

    async def tell_all(self, channel: str = CHANNEL, looks: int = 60) -> None:
        """Look repeatedly, without waiting for back-offs, until there is nothing left to send."""
        for _ in range(looks):
            await self.tell(channel)
            if not await self.pending(channel):
                return
            await self.hurry()
        raise AssertionError(await self.column("SELECT error FROM delivery WHERE state = 'pending'"))

    async def hurry(self) -> None:
        """What was put off is due now."""
        async with self.db.transaction() as tx:
            await tx.execute(text("UPDATE outlet SET next_at = clock_timestamp(), next_update_at = next_at"))
            await tx.execute(text("UPDATE delivery SET not_before = clock_timestamp()"))
        for drain in self.drains:
            drain._messenger._client._blocked_until.clear()

    async def lose_lease(self) -> None:
        """Let the sender's lease expire."""
        async with self.db.transaction() as tx:
            await tx.execute(text("UPDATE outlet SET lease_until = clock_timestamp()"))

    async def pending(self, channel: str = CHANNEL) -> int:
        """How much is pending there."""
        sql = "SELECT count(*) FROM delivery WHERE state = 'pending' AND channel_id = :channel"
        [count] = await self.column(sql, channel=channel)
        return int(count)

    async def execute(self, sql: str) -> None:
        """One statement."""
        async with self.db.transaction() as tx:
            await tx.execute(text(sql))

    async def column(self, sql: str, **parameters: Any) -> list[Any]:
        """The first column of a query."""
        return await column(self.db, sql, **parameters)

    def cards(self, channel: str = CHANNEL) -> list[dict[str, Any]]:
        """The request cards in the channel."""
        return [m for m in self.slack.messages(channel) if m["metadata"]["event_payload"].get("request")]

    def lines(self, card: dict[str, Any]) -> list[str]:
        """What the thread of a card says."""
        return [str(reply["blocks"]) for reply in self.slack.thread(CHANNEL, card["ts"])[1:]]

    async def approve(self, asked: Asked, person: Any = GRACE, ts: str | None = None) -> None:
        """A click on the card, or a word from elsewhere while there is none."""
        [stored] = await self.column("SELECT ts FROM card_place WHERE request_id = :id", id=asked.request_id)
        where = ts or stored
        place = Place(asked.nonce, "channel", CHANNEL, where) if where else None
        both = [reviewer(each) for each in (GRACE, LINUS)]
        await alone.vote(self.db, ballot(asked, reviewer(person), others=both, place=place))

    async def touch(self, asked: Asked) -> None:
        """The card's facts have changed."""
        async with self.db.transaction() as tx:
            outbox.enqueue(tx, [outbox.card(REVIEWS, asked.request_id)])


@pytest.fixture
async def office(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    """An empty review channel."""
    monkeypatch.setattr(drain_module, "SETTLE", 0.0)
    async with SlackSandbox(workspace(), rate_limits=False, echo=False) as slack:
        directory = Directory(SlackClient(slack.bot_token, slack.api_url), TEAM, BOT)
        office = Office(slack, database, directory)
        office.drains.append(office.drain())
        yield office


# --- once, whatever happens -------------------------------------------------------------------------------


async def test_messages_give_way_to_deadlines_that_pass(office: Office) -> None:
    """While very many requests expire, a channel gets no messages; afterwards it does."""
    office.db.precedence = Precedence(dict.fromkeys(Rank, 3600))
    await ask(office.db)
    with office.db.precedence.at_work(Rank.SWEEP), counting() as counted:
        telling = asyncio.create_task(office.tell())
        for _ in range(20):
            await asyncio.sleep(0)
        assert counted.statements == []
    await telling
    assert len(office.cards()) == 1


@pytest.mark.parametrize("fault", ["http_500", "reset_before_accept", "reset_after_accept"])
@pytest.mark.parametrize("which", ["card", "line"])
async def test_a_post_whose_answer_is_lost_stands_there_once(office: Office, fault: str, which: str) -> None:
    """A 500, a reset before and a reset after Slack took it: looked for by its metadata, then sent or found."""
    asked = await ask(office.db, rule(approvals_required=2))
    if which == "line":
        await office.tell_all()
        await office.approve(asked)
    getattr(office.slack.faults, fault)(POST)
    await office.tell()
    assert await office.pending() == 1
    await office.hurry()
    await office.tell_all()
    [card] = office.cards()
    assert await office.column("SELECT ts FROM card_place") == [card["ts"]]
    assert len(office.lines(card)) == (which == "line")


async def test_a_line_that_may_stand_there_is_looked_for_alone(office: Office) -> None:
    """What joins a thread while its last line is in doubt is not taken for sent when that line is found."""
    asked = await ask(office.db, rule(approvals_required=2))
    await office.tell_all()
    await office.approve(asked, GRACE)
    office.slack.faults.reset_after_accept(POST)
    await office.tell()
    await office.approve(asked, LINUS)
    await office.hurry()
    await office.tell_all()
    first, second = office.lines(office.cards()[0])
    assert "U0GRACE" in first
    assert "U0LINUS" in second


@pytest.mark.parametrize("accepted", [True, False])
async def test_a_post_that_is_not_answered_in_time_stands_there_once(
    office: Office, monkeypatch: pytest.MonkeyPatch, accepted: bool
) -> None:
    """Slack hangs, with or without having taken the card: there is one in the end."""
    monkeypatch.setattr(slack_client, "TIMEOUT", 0.2)
    await ask(office.db)
    (office.slack.faults.slow if accepted else office.slack.faults.hang)(POST, 0.4)
    await office.tell()
    assert await office.pending() == 1
    await office.tell_all()
    assert len(office.cards()) == 1


async def test_a_card_that_is_found_shows_the_present_state(office: Office) -> None:
    """Decided between the lost answer and the next attempt: the found card is brought up to date, not just kept."""
    asked = await ask(office.db)
    office.slack.faults.reset_after_accept(POST)
    await office.tell()
    await office.approve(asked, ts=office.cards()[0]["ts"])
    await office.tell_all()
    [card] = office.cards()
    assert "signoff:approve" not in str(card["blocks"])
    assert "Approved" in str(card["blocks"])


async def test_what_cannot_be_looked_for_is_not_sent_again(office: Office) -> None:
    """While the channel's history cannot be read, a card that may be there already is not posted a second time."""
    await ask(office.db)
    office.slack.faults.reset_after_accept(POST)
    await office.tell()
    for error in ("not_in_channel", "missing_scope", "internal_error"):
        office.slack.faults.error("conversations.history", error)
        await office.hurry()
        await office.tell()
        assert await office.column("SELECT ambiguous FROM delivery WHERE kind = 'card'") == [True]
    await office.tell_all()
    assert len(office.slack.calls_of(POST)) == 1
    assert len(office.cards()) == 1


def talk(
    office: Office, monkeypatch: pytest.MonkeyPatch, thread_ts: str | None = None, *, age: float
) -> None:
    """Ada has posted more messages than a search of one page reads, so many seconds ago."""
    said = {"type": "message", "user": "U0ADA", "text": "and", "metadata": {"event_payload": {}}}
    with in_the_past(monkeypatch, age):
        for _ in range(210):
            office.slack.workspace.messages.add(CHANNEL, said, thread_ts)


@contextmanager
def in_the_past(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    """Slack takes what is posted for so much older."""
    when = Timestamps.next
    with monkeypatch.context() as past:
        past.setattr(Timestamps, "next", lambda its: f"{float(when(its)) - seconds:.6f}")
        yield


@pytest.mark.parametrize("fault", ["http_500", "reset_after_accept"])
async def test_a_long_thread_hides_no_line(
    office: Office, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Only what was posted since the attempt is searched, however long the line has waited: it stands there once."""
    monkeypatch.setattr(messenger, "PAGES", 1)
    asked = await ask(office.db, rule(approvals_required=2))
    await office.tell_all()
    [card] = office.cards()
    talk(office, monkeypatch, card["ts"], age=3600)
    await office.approve(asked)
    await office.execute("UPDATE delivery SET created_at = created_at - interval '2 hours'")
    getattr(office.slack.faults, fault)(POST)
    await office.tell_all()
    thread = office.slack.thread(CHANNEL, card["ts"])
    assert sum("U0GRACE" in str(reply.get("blocks")) for reply in thread[1:]) == 1


async def test_what_may_lie_beyond_the_search_is_not_sent_again(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More has been posted since the attempt than is searched: operators are told, and the card stays in doubt."""
    monkeypatch.setattr(messenger, "PAGES", 1)
    office.open_admin_channel()
    await ask(office.db)
    office.slack.faults.reset_after_accept(POST)
    await office.tell()
    talk(office, monkeypatch, age=0)
    await office.hurry()
    await office.tell()
    assert len(office.cards()) == 1
    assert await office.column("SELECT ambiguous FROM delivery WHERE kind = 'card'") == [True]
    [message] = await office.operator_messages()
    assert "too many messages to find out whether Slack accepted one" in message
    monkeypatch.setattr(messenger, "PAGES", 2)
    await office.tell_all()
    assert await office.column("SELECT ts FROM card_place") == [office.cards()[0]["ts"]]


async def test_an_outage_at_random_loses_and_doubles_nothing(office: Office) -> None:
    """Every kind of failure at random: each card once, each line once, threads in the order of events."""
    await play_outage(office, cards=8, seed=7)


async def play_outage(office: Office, *, cards: int, seed: int) -> None:
    """So many requests with two votes each, while Slack fails three calls out of ten."""
    faults = office.slack.faults
    faults.http_500("*", times=None, probability=0.1, seed=seed)
    faults.reset_before_accept(POST, times=None, probability=0.1, seed=seed + 1)
    faults.reset_after_accept("*", times=None, probability=0.1, seed=seed + 2)
    # Each of another agent: many of one would be a flood.
    asked = [await ask(office.db, rule(approvals_required=2), agent=f"agent-{n}") for n in range(cards)]
    await office.tell_all(looks=cards * 20)
    for each in asked:
        await office.approve(each, GRACE)
    await office.tell_all(looks=cards * 20)
    for each in asked:
        await office.approve(each, LINUS)
    await office.tell_all(looks=cards * 20)
    shown = office.cards()
    assert Counter(m["metadata"]["event_payload"]["request"] for m in shown) == {
        str(each.request_id): 1 for each in asked
    }
    for card in shown:
        said = office.lines(card)
        assert len(said) == 2, said
        assert "U0GRACE" in said[0]
        assert "U0LINUS" in said[1]
        assert "signoff:approve" not in str(card["blocks"])


# --- when Slack wants us to wait --------------------------------------------------------------------------


async def test_retry_after_is_honoured(office: Office) -> None:
    """After a 429 nothing is sent to the channel before the time is over, and then at once."""
    await ask(office.db)
    office.slack.faults.ratelimited(POST, retry_after=1)
    await office.tell()
    first, second = office.slack.calls_of(POST)
    assert second.at - first.at >= 1.0
    assert len(office.cards()) == 1


async def test_a_long_retry_after_is_left_to_a_later_drain(office: Office) -> None:
    """Nobody waits half a minute: the drain goes, nothing is due before then, and a drain that comes sends nothing."""
    await ask(office.db)
    office.slack.faults.ratelimited(POST, retry_after=30)
    await office.tell()
    await office.tell()
    assert len(office.slack.calls_of(POST)) == 1
    assert await office.pending() == 1
    assert CHANNEL not in await deliveries.channels_due(office.db, TEAM)
    [seconds] = await office.column(_SECONDS_OF_REST)
    assert 28 < seconds <= 31


async def test_a_clock_that_went_back_stops_no_channel(office: Office) -> None:
    """What was put off until a time that is hours away now is due when the longest pause is over."""
    await ask(office.db)
    await office.execute("UPDATE delivery SET not_before = clock_timestamp() + interval '5 hours'")
    await office.execute(
        """INSERT INTO outlet (team_id, channel_id, next_at, lease_worker, lease_until)
           SELECT 'T0SIGNOFF', 'C0REVIEW', at, 'dead', at
           FROM (SELECT clock_timestamp() + interval '5 hours' AS at) AS t"""
    )
    [late] = await office.column("SELECT count(*) FROM delivery WHERE state = 'pending'")
    assert await deliveries.bound_pauses(office.db) == late + 1  # and the channel
    assert await deliveries.bound_pauses(office.db) == 0
    assert await office.column(
        """SELECT max(d.not_before) <= clock_timestamp() + interval '10 minutes'
              AND max(o.next_at) <= clock_timestamp() + interval '10 minutes'
              AND max(o.lease_until) <= clock_timestamp() + interval '10 seconds'
           FROM delivery AS d CROSS JOIN outlet AS o"""
    ) == [True]


async def test_a_429_for_updates_counts_in_every_channel(office: Office) -> None:
    """Slack counts chat.update over the whole workspace: one channel's 429 silences the others' updates."""
    here = await ask(office.db)
    there = await ask(office.db, destination=Destination(TEAM, "C0AGENTS"))
    for channel in (CHANNEL, "C0AGENTS"):
        await office.tell_all(channel)
    office.slack.faults.ratelimited(UPDATE, retry_after=30)
    await office.approve(here)
    await requests.withdraw(office.db, there.request_id, None, None)
    await office.tell()
    await office.tell("C0AGENTS")
    assert len(office.slack.calls_of(UPDATE)) == 1


async def test_the_normal_pace_meets_no_limit(office: Office) -> None:
    """With Slack's limit of a message per second and channel, and no burst allowed, there is not a single 429."""
    office.slack.rate_limits.enabled = True
    office.slack.rate_limits.burst = 1
    for _ in range(3):
        await ask(office.db)
    await office.drain(pace=drain_module.PACE).run(TEAM, CHANNEL)
    assert [call.outcome for call in office.slack.calls_of(POST)] == ["ok"] * 3
    assert isinstance(office.slack.rate_limits, RateLimits)


async def test_a_decision_does_not_wait_for_the_pace_of_posts(office: Office) -> None:
    """While new cards keep to one a second, the card that was decided meanwhile changes between two of them."""
    office.slack.rate_limits.enabled = True
    office.slack.rate_limits.burst = 1
    asked = [await ask(office.db) for _ in range(3)]
    message = asyncio.create_task(office.drain(pace=drain_module.PACE).run(TEAM, CHANNEL))
    await office.slack.wait_for(office.cards)
    await until(lambda: office.column("SELECT 1 FROM card_place WHERE ts IS NOT NULL"))
    await office.approve(asked[0])
    await message
    sent = [call for call in office.slack.calls if call.method in (POST, UPDATE)]
    assert [call.method for call in sent[:3]] == [POST, UPDATE, POST]
    assert {call.outcome for call in sent} == {"ok"}


async def test_a_429_for_posts_does_not_hold_up_changes(office: Office) -> None:
    """Slack wants no new message for half a minute: the card decided meanwhile loses its buttons nevertheless."""
    first = await ask(office.db)
    await office.tell_all()
    await ask(office.db)
    office.slack.faults.ratelimited(POST, retry_after=30)
    await office.tell()
    await office.approve(first)
    await office.tell()
    assert [call.outcome for call in office.slack.calls_of(UPDATE)] == ["ok"]


async def test_changes_keep_to_a_pace_of_their_own(office: Office) -> None:
    """Cards decided at once change one after the other: a few soon after a rest, then each after the pace."""
    cards = [await ask(office.db) for _ in range(2)]
    await office.tell_all()
    drain = office.drain(pace=60.0)
    for _ in range(BURST - 1):
        drain._changes[CHANNEL].spend(monotonic())
    for asked in cards:
        await office.approve(asked)
        await drain.run(TEAM, CHANNEL)
    assert len(office.slack.calls_of(UPDATE)) == 1
    assert CHANNEL not in await deliveries.channels_due(office.db, TEAM)
    [seconds] = await office.column(_SECONDS_OF_REST)
    assert seconds > 50


async def test_what_a_digest_stands_for_brings_no_drain_for_nothing(office: Office) -> None:
    """A folded request's line is put away at once, also while Slack wants silence: nothing is left that looks due."""
    folded = await ask(office.db)
    await office.execute("UPDATE card_place SET folded = true")
    await office.tell_all()
    await ask(office.db)
    office.slack.faults.ratelimited(POST, retry_after=30)
    await office.tell()
    async with office.db.transaction() as tx:
        outbox.enqueue(tx, [outbox.request_line(REVIEWS, folded.request_id, "reminder")])
    assert CHANNEL in await deliveries.channels_due(office.db, TEAM)
    await office.tell()
    assert CHANNEL not in await deliveries.channels_due(office.db, TEAM)
    assert await office.column("SELECT DISTINCT state::text FROM delivery WHERE kind = 'thread_line'") == [
        "skipped"
    ]


async def test_a_thread_whose_first_line_is_put_off_is_put_off(office: Office) -> None:
    """What cannot go before a line that failed is not looked at until that is due again."""
    asked = await ask(office.db)
    await office.tell_all()
    async with office.db.transaction() as tx:
        for number in range(24):
            outbox.enqueue(tx, [outbox.request_line(REVIEWS, asked.request_id, "reminder", text=str(number))])
    office.slack.faults.http_500(POST)
    await office.tell()
    late = "SELECT count(*) FROM delivery WHERE kind = 'thread_line' AND not_before > clock_timestamp()"
    assert await office.column(late) == [24]
    await office.tell_all()
    [card] = office.cards()
    assert len(office.lines(card)) >= 2


async def test_a_drain_that_is_to_leave_begins_no_further_message(office: Office) -> None:
    """A service that stops ends the message it is at; what else waits in the channel is left to others."""
    await ask(office.db)
    await ask(office.db)
    drain = office.drain(pace=1.0)
    message = asyncio.create_task(drain.run(TEAM, CHANNEL))
    await office.slack.wait_for(office.cards)
    drain.leave()
    await message
    assert len(office.cards()) == 1
    assert await office.pending() >= 1


async def test_slack_away_is_not_asked_in_a_circle(office: Office) -> None:
    """Nobody answers at all: the drain ends, what it has to say is kept, and is due again in the future."""
    await ask(office.db)
    await office.slack.stop()
    await office.tell()
    assert await office.pending() == 1
    assert office.drains[0].problem is not None
    assert CHANNEL not in await deliveries.channels_due(office.db, TEAM)
    [seconds] = await office.column(_SECONDS_OF_REST)
    assert seconds > 0.5


# --- order ------------------------------------------------------------------------------------------------


async def test_decided_cards_go_before_new_ones_and_lines_last(office: Office) -> None:
    """The update that takes buttons away, then new questions, then what is said in threads."""
    first = await ask(office.db)
    await office.tell_all()
    second, third = await ask(office.db), await ask(office.db)
    await office.approve(first)
    began = len(office.slack.calls)
    await office.tell()
    sent = [call for call in office.slack.calls[began:] if call.method in (POST, UPDATE)]
    assert [call.method for call in sent] == [UPDATE, POST, POST, POST]
    assert [
        str(each.request_id) in str(call.args) for each, call in zip((second, third), sent[1:3], strict=True)
    ] == [
        True,
        True,
    ]
    assert "thread_ts" in sent[3].args


async def test_a_decision_changes_the_message_of_its_run(office: Office) -> None:
    """The run waits, with a link to its card; once people have decided, its first message says that it works."""
    asked = await ask(office.db)
    await office.tell_all()
    await office.tell_all("C0AGENTS")
    [root], [card] = office.slack.messages("C0AGENTS"), office.slack.messages(CHANNEL)
    assert root["text"].startswith("⏳ Waiting for review")
    link = f"https://{office.slack.workspace.team.domain}.slack.com/archives/{CHANNEL}/p{card['ts'].replace('.', '')}"
    assert {"type": "link", "url": link, "text": "open the card"} in _first_words(root)
    await office.approve(asked)
    await office.tell_all("C0AGENTS")
    [root] = office.slack.messages("C0AGENTS")
    assert root["text"].startswith("▶ Working")
    assert "open the card" not in str(_first_words(root))


async def test_a_run_whose_card_is_not_posted_yet_has_no_link(office: Office) -> None:
    """Nothing waits for the card: its run is shown without the link."""
    await ask(office.db)
    await office.tell_all("C0AGENTS")
    [root] = office.slack.messages("C0AGENTS")
    assert "open the card" not in str(_first_words(root))


def _first_words(message: dict[str, Any]) -> list[dict[str, Any]]:
    words: list[dict[str, Any]] = message["blocks"][0]["elements"][0]["elements"]
    return words


async def test_twenty_changes_are_one_update(office: Office) -> None:
    """Changes while the channel was silent are shown as they are now, once."""
    asked = await ask(office.db)
    await office.tell_all()
    for _ in range(20):
        await office.touch(asked)
    await office.tell()
    assert len(office.slack.calls_of(UPDATE)) == 1
    assert await office.pending() == 0


async def test_lines_of_a_thread_that_wait_together_are_one_message(office: Office) -> None:
    """Two votes before the card could be posted: the card first, then one reply with both, in order."""
    asked = await ask(office.db, rule(approvals_required=2))
    await office.approve(asked, GRACE)
    await office.approve(asked, LINUS)
    await office.tell()
    [card] = office.cards()
    [line] = office.lines(card)
    assert line.index("U0GRACE") < line.index("U0LINUS")


# --- who speaks -------------------------------------------------------------------------------------------


async def test_of_two_drains_one_speaks(office: Office) -> None:
    """Started at the same moment in two processes: each message is sent once."""
    for _ in range(3):
        await ask(office.db)
    other = office.drain()
    await asyncio.gather(office.tell(), other.run(TEAM, CHANNEL))
    await office.tell_all()
    assert len(office.slack.calls_of(POST)) == 3


async def test_a_drain_that_lost_its_lease_writes_nothing(office: Office) -> None:
    """Overtaken while Slack was slow: the answer is not stored, and the new holder finds the card."""
    await ask(office.db)
    office.slack.faults.slow(POST, 0.5)
    slow = asyncio.create_task(office.tell())
    await office.slack.wait_for(office.cards)
    await office.lose_lease()
    taken = (await deliveries.take_next(office.db, REVIEWS, "another")).due
    assert taken is not None
    await slow
    assert await office.column("SELECT ts FROM card_place") == [None]
    assert await office.column("SELECT lease_worker FROM outlet WHERE channel_id = :c", c=CHANNEL) == [
        "another"
    ]
    await deliveries.release(office.db, taken)
    await office.tell_all()
    [card] = office.cards()
    assert await office.column("SELECT ts FROM card_place") == [card["ts"]]
    assert len(office.slack.calls_of(POST)) == 1


async def test_what_a_dead_drain_may_have_posted_is_looked_for(office: Office) -> None:
    """A drain dies between taking a card and hearing of it: the next one looks for the card, then posts it once."""
    await ask(office.db)
    await deliveries.take_next(office.db, REVIEWS, "dead")
    await office.lose_lease()
    await office.tell_all()
    assert len(office.slack.calls_of("conversations.history")) == 1
    assert len(office.cards()) == 1


async def test_the_first_attempt_counts_for_the_search(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack accepted a card an hour ago, and a drain that took it again has died: the card is found."""
    await ask(office.db)
    office.slack.faults.reset_after_accept(POST)
    with in_the_past(monkeypatch, 3600):
        await office.tell()
    await office.execute("UPDATE delivery SET sent_at = sent_at - interval '1 hour'")
    await office.hurry()
    await deliveries.take_next(office.db, REVIEWS, "dead")
    await office.lose_lease()
    await office.tell_all()
    assert len(office.cards()) == 1


async def test_a_channel_does_not_wait_for_a_lease_that_could_not_be_released(
    office: Office, owner: psycopg.Connection[Any]
) -> None:
    """The database fails while Slack takes a message; when it works again, the same drain continues at once."""
    await ask(office.db)
    office.slack.faults.slow(POST, 0.5)
    telling = asyncio.create_task(office.tell())
    await office.slack.wait_for(office.cards)
    owner.execute("ALTER TABLE outlet RENAME TO outlet_away")
    try:
        for attempt in (telling, office.tell()):
            with pytest.raises(DatabaseRefuses):
                await attempt
    finally:
        owner.execute("ALTER TABLE outlet_away RENAME TO outlet")
    await office.tell()
    assert await office.pending() == 0
    assert len(office.slack.calls_of(POST)) == 1


async def test_a_drain_that_was_slow_posts_only_while_its_lease_holds(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time has passed since the card was taken, and another drain has the channel: the first one does not post."""
    monkeypatch.setattr(drain_module, "FRESH", 0.0)
    await ask(office.db)
    taken: list[deliveries.NextMessage] = []

    async def overtaken(_: str) -> str | None:
        await office.lose_lease()
        taken.append(await deliveries.take_next(office.db, REVIEWS, "another"))
        return None

    monkeypatch.setattr(office.directory, "channel_problem", overtaken)
    await office.tell()
    assert taken[0].due is not None
    assert taken[0].due.ambiguous
    assert office.slack.calls_of(POST) == []


async def test_a_card_that_is_changing_is_left_for_the_next_look(office: Office) -> None:
    """While a transaction is about to change a card that waits, a drain neither waits for it nor takes the channel."""
    asked = await ask(office.db)
    async with office.db.transaction() as tx:
        outbox.enqueue(tx, [outbox.card(REVIEWS, asked.request_id)])
        await tx.flush()
        look = await deliveries.take_next(office.db, REVIEWS, "another")
        assert (look.due, look.wait) == (None, deliveries.LOCKED)
    await office.tell_all()
    assert len(office.cards()) == 1


# --- a flood ----------------------------------------------------------------------------------------------


async def test_a_flood_becomes_a_digest(office: Office) -> None:
    """Sixty at once: ten cards and one digest, another agent's card at once, and every folded request decidable."""
    asked = [await ask(office.db) for _ in range(60)]
    await office.tell_once(5)
    other = await ask(office.db, agent="reports")
    began = len(office.slack.calls_of(POST))
    await office.tell_all()
    posts = office.slack.calls_of(POST)
    assert str(other.request_id) in str(posts[began].args["metadata"])
    assert len(posts) == 12
    [digest] = [m for m in office.slack.messages(CHANNEL) if m not in office.cards()]
    assert "50 requests from agent refunds wait" in digest["text"]

    folded = await office.column("SELECT request_id FROM card_place WHERE folded ORDER BY request_id")
    assert sorted(folded) == sorted(each.request_id for each in asked[10:])
    updates = len(office.slack.calls_of(UPDATE))
    for each in (each for each in asked if each.request_id in folded):
        nonce = await requests.create_place(office.db, each.request_id, "modal", GRACE)
        place = Place(nonce, "modal", None, None)
        await alone.vote(office.db, ballot(each, reviewer(GRACE), place=place))
    await office.tell_all()
    assert len(office.slack.calls_of(POST)) == 12
    assert len(office.slack.calls_of(UPDATE)) == updates + 1
    assert await office.column(
        "SELECT DISTINCT status::text FROM approval_request WHERE id = ANY(:ids)", ids=folded
    ) == ["approved"]
    [digest] = [m for m in office.slack.messages(CHANNEL) if m not in office.cards()]
    assert "No request from agent refunds still waits" in digest["text"]
    assert await office.column("SELECT count(*) FROM digest_card") == [0]  # the next flood gets its own


async def test_a_flood_gets_its_cards_minute_by_minute(office: Office) -> None:
    """After a minute as many folded requests as fit get cards, what others ask among the first, until none is left.

    What is critical, or needs several people, has its card at once.
    """
    for _ in range(17):
        await ask(office.db)
    others = [await ask(office.db, requester=LINUS) for _ in range(2)]
    weighty = [
        await ask(office.db, rule(**terms)) for terms in ({"approvals_required": 2}, {"risk": "critical"})
    ]
    await office.tell_all()
    shown = {card["metadata"]["event_payload"]["request"] for card in office.cards()}
    assert len(shown) == 10
    assert {str(each.request_id) for each in weighty} <= shown
    assert await deliveries.unfold(office.db) == 0  # the minute is not over

    await office.execute(A_MINUTE_PASSES)
    assert await deliveries.unfold(office.db) == 10
    assert await deliveries.unfold(office.db) == 0
    await office.tell_all()
    shown = {card["metadata"]["event_payload"]["request"] for card in office.cards()}
    assert len(shown) == 20
    assert {str(each.request_id) for each in others} <= shown

    await office.execute(A_MINUTE_PASSES)
    assert await deliveries.unfold(office.db) == 1
    await office.tell_all()
    assert len(office.cards()) == 21
    assert await office.column("SELECT count(*) FROM digest_card") == [0]


@pytest.mark.parametrize("age", [0, 61])
async def test_a_later_flood_gets_a_new_digest(office: Office, monkeypatch: Any, age: int) -> None:
    """Older than a minute, a digest is posted again and becomes a pointer to that; only what is new mentions people."""
    when = Timestamps.next
    monkeypatch.setattr(Timestamps, "next", lambda its: f"{float(when(its)) - age:.6f}")
    office.drains[0] = office.drain(cards_per_minute=1)
    grace = rule(notify=("U0GRACE",))

    async def digests(requests: int) -> list[dict[str, Any]]:
        asked.extend([await ask(office.db, grace) for _ in range(requests)])
        await office.tell_all()
        return [message for message in office.slack.messages(CHANNEL) if message not in office.cards()]

    asked: list[Asked] = []
    [digest] = await digests(3)
    assert digest["text"].endswith("2 requests from agent refunds wait for review <@U0GRACE>")
    *old, digest = await digests(2)
    if not age:
        assert (old, digest["text"][-40:]) == ([], "4 requests from agent refunds wait for review"[-40:])
        return
    assert digest["text"].endswith("3 requests from agent refunds wait for review <@U0GRACE>")
    assert digest["ts"].replace(".", "") in str(old[0]["blocks"])
    assert "More requests from agent refunds have come since" in old[0]["text"]
    await office.approve(asked[-1])
    [old_now, digest] = await digests(0)
    assert old_now == old[0]
    assert digest["text"].endswith("2 requests from agent refunds wait for review")
    assert "U0GRACE" not in str(digest["blocks"])


async def test_a_pointer_to_a_digest_that_was_deleted_stays_deleted(office: Office, monkeypatch: Any) -> None:
    """The old digest is gone when it should become a pointer: nothing is posted for it, and nobody is informed."""
    when = Timestamps.next
    monkeypatch.setattr(Timestamps, "next", lambda its: f"{float(when(its)) - 61:.6f}")
    office.open_admin_channel()
    office.drains[0] = office.drain(cards_per_minute=1, admin=Destination(TEAM, "C0ADMIN"))
    for _ in range(3):
        await ask(office.db)
    await office.tell_all()
    office.slack.faults.error(UPDATE, "message_not_found")
    for _ in range(2):
        await ask(office.db)
    await office.tell_all()
    assert len(office.slack.calls_of(POST)) == 4
    assert await office.operator_messages() == []


async def test_policy_says_how_many_cards_come_in_a_minute(office: Office) -> None:
    """With a limit of two, the third card is folded, and a limit of three unfolds three."""
    office.drains[0] = office.drain(cards_per_minute=2)
    for _ in range(6):
        await ask(office.db)
    await office.tell_all()
    assert len(office.cards()) == 2
    await office.execute(A_MINUTE_PASSES)
    assert await deliveries.unfold(office.db, cards_per_minute=3) == 3


async def test_a_key_under_many_names_is_one_flood(office: Office) -> None:
    """Thirty requests of one key, each in another agent's name: ten cards, one digest of the key, one change of it."""
    names = [f"agent-{number}" for number in range(30)]
    asked = [
        await requests.open(office.db, programs_question(rule(), agent=name, client_id=name))
        for name in names
    ]
    await office.tell_all()
    assert len(office.slack.calls_of(POST)) == 11
    [digest] = [m for m in office.slack.messages(CHANNEL) if m not in office.cards()]
    assert "20 requests from the key ci wait" in digest["text"]
    for each in asked[10:]:
        assert await requests.withdraw(office.db, each.request_id, None, None, principal="key:ci")
    await office.tell_all()
    [digest] = [m for m in office.slack.messages(CHANNEL) if m not in office.cards()]
    assert "No request from the key ci still waits" in digest["text"]


# --- what cannot be told ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["not_in_channel", "is_archived", "channel_not_found", "invalid_auth"])
async def test_what_people_can_mend_is_kept_and_tried_again(office: Office, code: str) -> None:
    """The card waits with Slack's reason until the channel or the token is mended."""
    await ask(office.db)
    office.slack.faults.error(POST, code)
    await office.tell()
    assert code in (await office.column("SELECT error FROM delivery WHERE kind = 'card'"))[0]
    await office.tell_all()
    assert len(office.cards()) == 1


async def test_an_error_that_nobody_knows_drops_no_card(office: Office) -> None:
    """Slack answers a card with a code of its own invention: it is tried again, told to operators once, and posted."""
    office.open_admin_channel()
    asked = await ask(office.db)
    office.slack.faults.error(POST, "channel_is_dreaming", times=5)
    for attempt in range(5):
        await office.tell()
        assert await office.column(_STATE_OF_CARDS) == [
            "pending Slack answers with the error channel_is_dreaming; Signoff tries again"
        ]
        [seconds] = await office.column(_SECONDS_OF_REST)
        assert 2**attempt - 1 < seconds <= 2**attempt
        await office.hurry()
    await office.tell_all()
    [card] = office.cards()
    assert len(office.slack.calls_of(POST)) == 6
    [message] = await office.operator_messages()
    assert "channel_is_dreaming" in message
    await office.tell_all("C0AGENTS")
    [root] = office.slack.messages("C0AGENTS")
    assert "channel_is_dreaming" in str(office.slack.thread("C0AGENTS", root["ts"]))

    office.slack.faults.error(UPDATE, "is_inactive", times=2)
    await office.approve(asked)
    await office.tell_all()
    assert "signoff:approve" in str(card["blocks"])
    assert "Approved" in str(office.cards()[0]["blocks"])
    assert len(await office.operator_messages()) == 2


async def test_an_error_that_nobody_knows_is_tried_again_every_five_minutes(office: Office) -> None:
    """However often Slack has refused a card, five minutes later it is tried again."""
    await ask(office.db)
    await office.execute("UPDATE delivery SET attempts = 40")
    office.slack.faults.error(POST, "channel_is_dreaming")
    await office.tell()
    [seconds] = await office.column(_SECONDS_OF_REST)
    assert 295 < seconds <= 300


async def test_an_error_that_nobody_knows_is_told_once_beside_what_works(office: Office) -> None:
    """A card is refused with one code, changes of others with a second, new cards are posted: two causes, two lines."""
    office.open_admin_channel()
    stand = [await ask(office.db) for _ in range(3)]
    await office.tell_all()
    await ask(office.db)
    office.slack.faults.error(UPDATE, "is_inactive", times=None)
    for number, each in enumerate(stand):
        office.slack.faults.error(POST, "channel_is_dreaming")
        await office.touch(each)
        await office.tell()
        await ask(office.db)
        await office.tell()
        assert len(office.cards()) == 4 + number
        messages = await office.operator_messages()
        assert [code in str(messages) for code in ("channel_is_dreaming", "is_inactive")] == [True, True]
        assert len(messages) == 2
        await office.hurry()
    office.slack.faults.clear()
    await office.tell_all()
    assert len(office.cards()) == 7
    office.slack.faults.error(POST, "channel_is_dreaming")
    await ask(office.db)
    await office.tell()
    assert len(await office.operator_messages()) == 3  # it was well in between


@pytest.mark.parametrize("trouble", ["left", "archived", "shared", "pending"])
async def test_nothing_is_posted_into_a_doubtful_channel(office: Office, trouble: str) -> None:
    """Not a member, archived, shared with outsiders or about to be: no post is even tried; mended, it comes."""
    place = office.slack.workspace.channels[CHANNEL]
    if trouble == "left":
        place.members.discard(BOT)
    place.is_archived = trouble == "archived"
    place.is_ext_shared = trouble == "shared"
    place.is_pending_ext_shared = trouble == "pending"
    await ask(office.db)
    await office.tell()
    assert office.slack.calls_of(POST) == []
    assert await office.column("SELECT state::text FROM delivery WHERE kind = 'card'") == ["pending"]
    place.members.add(BOT)
    place.is_archived = place.is_ext_shared = place.is_pending_ext_shared = False
    office.directory.forget(CHANNEL)
    await office.tell_all()
    assert len(office.cards()) == 1


@pytest.mark.parametrize("trouble", ["archive", "leave"])
async def test_trouble_with_a_channel_is_told_elsewhere_once(office: Office, trouble: str) -> None:
    """The requests stay open; each run's thread and the admin channel are informed once, and again after a recovery."""
    slack = office.slack
    office.open_admin_channel()
    await ask(office.db)
    await office.tell_all()  # the channel is known to be well, so Slack is the first to refuse

    for times in (1, 2):
        if trouble == "archive":
            slack.workspace.archive(CHANNEL, "U0ADA")
        else:
            slack.workspace.leave(CHANNEL, BOT)
            office.directory.forget(CHANNEL)  # as `member_left_channel` does
        before = await office.column("SELECT count(*) FROM approval_request")
        await ask(office.db)
        await ask(office.db)
        for _ in range(3):
            await office.tell()
            await office.hurry()
        await office.tell_all("C0ADMIN")
        await office.tell_all("C0AGENTS")
        messages = slack.messages("C0ADMIN")
        assert len(messages) == times
        assert "signoff doctor" in messages[-1]["text"]
        assert ("is archived" if trouble == "archive" else "not a member") in str(messages[-1]["blocks"])
        threads = [slack.thread("C0AGENTS", root["ts"]) for root in slack.messages("C0AGENTS")]
        heard = [str(thread).count("A card could not be posted") // 2 for thread in threads]
        assert sorted(heard) == [0] + [1] * (2 * times)
        assert await office.column("SELECT count(*) FROM approval_request WHERE status = 'waiting'") == [
            before[0] + 2
        ]
        slack.workspace.channels[CHANNEL].is_archived = False
        slack.workspace.join(CHANNEL, BOT)
        office.directory.forget(CHANNEL)
        await office.tell_all()
        assert len(office.cards()) == before[0] + 2


async def test_a_look_up_that_fails_is_no_permission(office: Office) -> None:
    """Whether the channel is shared is not known: nothing is posted until it is."""
    await ask(office.db)
    office.slack.faults.http_500("conversations.info")
    await office.tell()
    assert office.slack.calls_of(POST) == []
    await office.tell_all()
    assert len(office.cards()) == 1


async def test_what_slack_refuses_takes_its_turn_too(office: Office) -> None:
    """After a message that is refused the channel rests as after one that was sent: Slack counts both."""
    await ask(office.db)
    await ask(office.db)
    office.slack.faults.error(POST, "channel_is_dreaming", times=2)
    await office.drain(pace=0.3).run(TEAM, CHANNEL)
    first, second = office.slack.calls_of(POST)
    assert second.at - first.at >= 0.3
    assert len(office.cards()) == 0


async def test_the_same_card_twice_in_one_transaction_is_one(office: Office) -> None:
    """Two reasons to draw a card again, at the same time, are one pending update."""
    asked = await ask(office.db)
    await office.tell_all()
    async with office.db.transaction() as tx:
        outbox.enqueue(tx, [outbox.card(REVIEWS, asked.request_id)] * 2)
    assert await office.pending() == 1


async def test_a_card_that_cannot_be_drawn_holds_up_no_other(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake of ours about one request is logged and deferred; the others are sent."""
    bad, good = await ask(office.db), await ask(office.db)
    draw = cards.request_card

    def broken(view: Any, **more: Any) -> Any:
        if view.id == bad.request_id:
            raise RuntimeError("cannot draw this")
        return draw(view, **more)

    monkeypatch.setattr(cards, "request_card", broken)
    await office.tell()
    [card] = office.cards()
    assert card["metadata"]["event_payload"]["request"] == str(good.request_id)
    assert await office.column("SELECT error FROM delivery WHERE state = 'pending' AND kind = 'card'") == [
        "RuntimeError: cannot draw this"
    ]
    assert CHANNEL not in await deliveries.channels_due(office.db, TEAM)
    [seconds] = await office.column(_SECONDS_OF_REST)
    assert seconds > 0.5


async def test_small_print_leaves_half_the_pace_to_people(office: Office) -> None:
    """Cards that nobody waits for are changed at most once in two paces."""
    asked = [await ask(office.db) for _ in range(3)]
    await office.tell_all()
    async with office.db.transaction() as tx:
        outbox.enqueue(tx, [outbox.redrawn_card(REVIEWS, each.request_id) for each in asked])
    await office.drain(pace=0.5).run(TEAM, CHANNEL)
    times = [call.at for call in office.slack.calls_of(UPDATE)]
    assert len(times) == 3
    assert min(later - sooner for sooner, later in pairwise(times)) >= 2 * 0.5


A_MINUTE_PASSES = "UPDATE card_place SET ts = (CAST(ts AS numeric) - 61)::text WHERE ts IS NOT NULL"
_STATE_OF_CARDS = (
    "SELECT state::text || ' ' || coalesce(error, '') FROM delivery WHERE kind = 'card' ORDER BY id"
)
# Before that nothing is told there.
_SECONDS_OF_REST = """
SELECT extract(epoch FROM min(greatest(d.not_before, CASE WHEN p.ts IS NULL THEN o.next_at ELSE o.next_update_at END))
                          - clock_timestamp())::float
FROM delivery AS d JOIN outlet AS o USING (team_id, channel_id)
LEFT JOIN card_place AS p ON p.request_id = d.request_id AND p.surface = 'channel'
WHERE d.state = 'pending' AND d.kind = 'card' AND d.channel_id = 'C0REVIEW'
"""
