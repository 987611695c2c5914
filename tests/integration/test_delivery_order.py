"""Which message of a busy channel goes next: what people wait for before history, and every agent in its turn."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from agent.database.pools import Database
from agent.store import outbox
from agent.usecases import deliveries, pause, requests
from agent.usecases.due_messages import DueMessage, Sent
from slackbot.delivery.turns import Turns
from tests.integration import alone
from tests.integration.asking import (
    GRACE,
    REVIEWS,
    asked_as,
    ballot,
    column,
    question,
    reviewer,
    rule,
    start,
)


@dataclass
class Channel:
    """A channel in which one message is posted and one is changed in each second of a time of its own."""

    db: Database
    now: int = 0
    sent: list[DueMessage] = field(default_factory=list)
    lags: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    turns: Turns = field(init=False)
    cost: Callable[[DueMessage], float] = lambda _: 1.0
    _said_at: dict[UUID, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    _ts: Any = field(default_factory=lambda: itertools.count(1_000_000_000))  # long ago: no flood of cards

    def __post_init__(self) -> None:
        self.turns = Turns(lambda: self.now)

    async def open_run(self, agent: str) -> tuple[UUID, UUID]:
        """A run in this channel that asks people there; returns its id and the request's."""
        run_id, calls = await start(self.db, channel_id=REVIEWS.channel_id, agent=agent)
        opened = await requests.open(self.db, question(run_id, calls[0], rule(), agent=agent))
        return run_id, opened.request_id

    async def say(self, *messages: outbox.OutboxMessage) -> None:
        """These are to be told from now on."""
        async with self.db.transaction() as tx:
            outbox.enqueue(tx, messages)
        for each in messages:
            if each.body:
                self._said_at[each.run_id or each.request_id or UUID(int=0)][str(each.body["line"])] = (
                    self.now
                )

    async def pass_second(self) -> list[DueMessage]:
        """Send what may go in this second."""
        async with self.db.transaction() as tx:
            await tx.execute(
                text("UPDATE outlet SET next_at = clock_timestamp(), next_update_at = clock_timestamp()")
            )
        self.now += 1
        sent: list[DueMessage] = []
        look = await deliveries.take_next(self.db, REVIEWS, "test", served=self.turns.least_first)
        while look.due is not None:
            sent.append(look.due)
            self._note(look.due)
            previous = Sent(look.due, look.due.ts or f"{next(self._ts)}.0", pause=3600.0)
            look = await deliveries.take_next(
                self.db, REVIEWS, "test", served=self.turns.least_first, after=previous
            )
        self.sent += sent
        return sent

    async def send_all(self) -> None:
        """Until nothing is left."""
        while await self.pass_second():
            pass

    def _note(self, due: DueMessage) -> None:
        self.turns.charge(due.turn, self.cost(due))
        said_at = self._said_at[due.run_id or due.request_id or UUID(int=0)]
        for body in due.bodies:
            if (said := said_at.pop(str(body.get("line")), None)) is not None:
                self.lags[str(body["line"])].append(self.now - said)


def lines_of(due: DueMessage) -> list[object]:
    """The lines of a message."""
    return [body["line"] for body in due.bodies]


async def test_answers_overtake_history_in_a_busy_channel(database: Database) -> None:
    """At twenty runs a minute, more than Slack takes, an answer waits a second, and history until there is time."""
    channel = Channel(database)
    runs = []
    for second in range(60):
        if second % 3 == 0:
            runs.append(await channel.open_run("refunds"))
        run_id, request_id = runs[-1]
        if second % 3 == 1:
            line = outbox.request_line(REVIEWS, request_id, "approved")
            await channel.say(line, outbox.card(REVIEWS, request_id))
        if second % 3 == 2:
            line = outbox.request_line(REVIEWS, request_id, "succeeded")
            answer = outbox.run_line(REVIEWS, run_id, "answer", text="Done.")
            root = outbox.run_root(REVIEWS, run_id)
            await channel.say(line, answer, outbox.card(REVIEWS, request_id), root)
        await channel.pass_second()
    await channel.send_all()
    assert max(channel.lags["answer"]) == 1
    assert median(channel.lags["approved"]) > 10
    assert {line: len(lags) for line, lags in channel.lags.items()} == dict.fromkeys(channel.lags, 20)


async def test_an_answer_takes_the_earlier_lines_of_its_thread_along(database: Database) -> None:
    """History of other threads is overtaken; the answer's own thread stays in order, in one message."""
    channel = Channel(database)
    (first, _), (second, _) = [await channel.open_run("refunds") for _ in range(2)]
    for _ in range(4):
        await channel.pass_second()  # both roots and both cards
    await channel.say(
        outbox.run_line(REVIEWS, first, "retrying"), outbox.run_line(REVIEWS, second, "retrying")
    )
    await channel.say(outbox.run_line(REVIEWS, second, "answer", text="Done."))
    [posted] = [each for each in await channel.pass_second() if each.ts is None]
    assert posted.run_id == second
    assert lines_of(posted) == ["pending", "retrying", "answer"]
    [posted] = await channel.pass_second()
    assert lines_of(posted) == ["pending", "retrying"]


async def test_a_decision_is_told_first_where_people_decided(database: Database) -> None:
    """The card's thread shows a rejection at once; the run's thread a second later, together with the answer."""
    channel = Channel(database)
    run_id, calls = await start(database, channel_id=REVIEWS.channel_id)
    request_id = (await requests.open(database, question(run_id, calls[0], rule()))).request_id
    await channel.send_all()
    asked = await asked_as(database, request_id, calls[0], run_id)
    no = replace(ballot(asked, reviewer(GRACE), "reject", reason="Wrong table"), place=None)
    await alone.vote(database, no)
    [posted] = [each for each in await channel.pass_second() if each.ts is None]
    assert (posted.request_id, lines_of(posted)) == (request_id, ["rejected"])
    await channel.say(outbox.run_line(REVIEWS, run_id, "answer", text="As you wish."))
    [posted] = [each for each in await channel.pass_second() if each.ts is None]
    assert (posted.run_id, lines_of(posted)) == (run_id, ["decided", "answer"])


@pytest.mark.parametrize("line", ["answer", "resumed"])
async def test_nothing_overtakes_a_line_of_its_thread_that_was_put_off(database: Database, line: str) -> None:
    """A line that Slack did not take keeps its place: what follows, an answer too, goes when that line may go again."""
    channel = Channel(database)
    run_id, _ = await channel.open_run("refunds")
    await channel.send_all()
    await channel.say(outbox.run_line(REVIEWS, run_id, "retrying"))
    later = "UPDATE delivery SET not_before = clock_timestamp() + interval '1 hour' WHERE state = 'pending'"
    await execute(database, later)
    await channel.say(outbox.run_line(REVIEWS, run_id, line))
    assert await channel.pass_second() == []
    await execute(database, "UPDATE delivery SET not_before = clock_timestamp()")
    [posted] = await channel.pass_second()
    assert lines_of(posted) == ["retrying", line]


async def test_a_flood_of_one_agent_delays_no_answer_of_another(database: Database) -> None:
    """Five answers and five changed cards of one agent wait: those of another go in the next second."""
    channel = Channel(database)
    noisy = [await channel.open_run("noisy") for _ in range(5)]
    quiet, quiet_request = await channel.open_run("quiet")
    await channel.send_all()
    for run_id, request_id in noisy:
        answer = outbox.run_line(REVIEWS, run_id, "answer", text="Done.")
        await channel.say(answer, outbox.card(REVIEWS, request_id))
    await channel.pass_second()
    await channel.say(
        outbox.run_line(REVIEWS, quiet, "answer", text="Done."), outbox.card(REVIEWS, quiet_request)
    )
    sent = await channel.pass_second()
    assert {each.request_id or each.run_id for each in sent} == {quiet, quiet_request}


async def test_large_messages_of_many_delay_no_small_one(database: Database) -> None:
    """Four agents send large answers all the time: every answer of a fifth goes next, not only its first."""
    channel = Channel(database, cost=lambda due: 0.35 if due.turn.endswith("honest") else 1.75)
    floods = [(await channel.open_run(f"flood{number}"))[0] for number in range(4)]
    honest, _ = await channel.open_run("honest")
    await channel.send_all()
    for number in range(4):
        for run_id in (*floods, honest) if number else floods:
            await channel.say(outbox.run_line(REVIEWS, run_id, "answer", text=f"{number}"))
        [posted] = [each for each in await channel.pass_second() if each.ts is None]
        assert posted.turn.endswith("honest") == bool(number)


async def test_what_a_person_just_did_goes_before_the_small_print_of_a_pause(database: Database) -> None:
    """A pause changes the runs' messages first; a vote then overtakes the waiting cards, and none of them is lost."""
    channel = Channel(database)
    waiting = [await channel.open_run("refunds") for _ in range(9)]
    await channel.send_all()
    channel.sent.clear()
    await pause.pause(database, "refunds", by="cli")
    for _ in waiting:
        await channel.pass_second()
    assert [each.run_id for each in channel.sent] == [run_id for run_id, _ in reversed(waiting)]
    await channel.pass_second()
    _, last = waiting[0]
    [call] = await column(database, f"SELECT call_id FROM approval_request WHERE id = '{last}'")
    asked = await asked_as(database, last, call, waiting[0][0])
    await alone.vote(database, replace(ballot(asked, reviewer(GRACE)), place=None))
    channel.sent.clear()
    changed = [each.request_id for each in await channel.pass_second() if each.ts is not None]
    assert changed == [last]
    await channel.send_all()
    redrawn = [each.request_id for each in channel.sent if each.kind == "card"]
    assert len(redrawn) == len(set(redrawn)) == 8


async def test_small_print_changes_at_half_the_pace(database: Database) -> None:
    """A card that only changes its small print waits longer after the last change than one that a person waits for."""
    channel = Channel(database)
    (_, first), (_, second) = [await channel.open_run("refunds") for _ in range(2)]
    await channel.send_all()
    await channel.say(outbox.redrawn_card(REVIEWS, first))
    await execute(database, "UPDATE outlet SET next_update_at = clock_timestamp()")
    look = await deliveries.take_next(database, REVIEWS, "test", redraw_after=100.0)
    assert look.due is None
    assert look.wait is not None
    assert 90 < look.wait <= 100
    await channel.say(outbox.card(REVIEWS, second))
    look = await deliveries.take_next(database, REVIEWS, "test", redraw_after=100.0)
    assert look.due is not None
    assert look.due.request_id == second
    await deliveries.store(database, Sent(look.due, look.due.ts, pause=0.0))
    await execute(database, "UPDATE outlet SET next_update_at = clock_timestamp() - interval '100 s'")
    look = await deliveries.take_next(database, REVIEWS, "test", redraw_after=100.0)
    assert look.due is not None
    assert look.due.request_id == first


async def execute(database: Database, sql: str) -> None:
    """One statement."""
    async with database.transaction() as tx:
        await tx.execute(text(sql))
