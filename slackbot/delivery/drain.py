"""Send one channel's due messages, each once, in order, at Slack's pace.

At most one drain per channel. A card is drawn when it is sent, so changes while it waits need no second message. An
unconfirmed post is looked up by its metadata before it is sent again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from time import monotonic
from typing import Any

import structlog

from agent.database.errors import DatabaseError
from agent.database.pools import Database
from agent.database.precedence import Rank
from agent.domain.errors import LeaseLost
from agent.domain.rules import CARDS_PER_MINUTE, GROUP_FROM
from agent.fault_points import point
from agent.store.outbox import Destination
from agent.usecases import deliveries
from agent.usecases.due_messages import Closed, Dead, DueMessage, Outcome, Postponed, Sent, Unreached
from agent.usecases.undelivered import report_plain_card
from slackbot.cards import Card
from slackbot.delivery.drawing import MessageDrawing
from slackbot.delivery.failures import ChannelClosed, DrawingFailed, Failures
from slackbot.delivery.reviewer_check import ReviewerCheck
from slackbot.delivery.turns import Turns
from slackbot.delivery.unseen import find_unseen
from slackbot.slack_api.allowance import Allowance
from slackbot.slack_api.client import SlackClient, SlackError, SlackRefused, SlackUnavailable
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.error_codes import Meaning
from slackbot.slack_api.messenger import Messenger
from slackbot.slack_api.permalinks import Permalinks

log = structlog.get_logger(__name__)

PACE = 1.0
"""Seconds between posts, and between updates, in a channel. Slack counts them separately: about one post a second, 50
or more updates a minute."""
STEP = 0.25
"""Fraction of the pace between a few updates after a pause."""
REDRAW_AFTER = 2 - STEP
"""Fractions of the pace that small print waits beyond it: at most 30 such updates a minute leave room for people's."""

PATIENCE = 5.0
"""Seconds that the drain waits for the pace; later messages are left to the poller."""

LOOK = 0.2
"""Minimum seconds between polls that find nothing."""

FRESH = 0.5
"""Seconds after which a lease is renewed before a call to Slack, which may take almost as long."""

LEAST = 0.25
"""Seconds charged to the sender per message besides drawing and sending: many small messages must not delay a large
one for long."""

SETTLE = 3.0
"""Seconds for an unconfirmed post to appear in the channel's history."""


class Drain:
    """A sender of due messages: `run` posts one channel's in order, and draws each when it is sent."""

    def __init__(
        self,
        db: Database,
        client: SlackClient,
        directory: Directory,
        worker: str,
        *,
        pace: float = PACE,
        admin: Destination | None = None,
        cards_per_minute: int = CARDS_PER_MINUTE,
        group_from: int = GROUP_FROM,
        inbox: str | None = None,
        tell_requester: bool = True,
    ) -> None:
        self._db = db
        self._messenger = Messenger(client, directory.own_bot_user_id)
        self._directory = directory
        self._worker = worker
        self._pace = pace
        self._admin = admin
        self._cards_per_minute, self._group_from = cards_per_minute, group_from
        self._awake: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._turns: defaultdict[str, Turns] = defaultdict(Turns)
        self._unreleased: dict[str, DueMessage] = {}
        self._changes = defaultdict[str, Allowance](lambda: Allowance(STEP * pace, pace))
        self.reviewers = ReviewerCheck(db, directory, admin)
        self._drawing = MessageDrawing(
            db, directory, Permalinks(client), self.reviewers, inbox, tell_requester=tell_requester
        )
        self._failures = Failures(db, directory, admin, pace)
        self._leaving = False
        self.problem: str | None = None

    def follow(self, admin: Destination | None, cards_per_minute: int, group_from: int = GROUP_FROM) -> None:
        self._admin, self._cards_per_minute, self._group_from = admin, cards_per_minute, group_from
        self.reviewers.admin = self._failures.admin = admin

    def wake(self, channel_id: str) -> None:
        self._awake[channel_id].set()

    def leave(self) -> None:
        """Begin no further message."""
        self._leaving = True
        for awake in self._awake.values():
            awake.set()

    async def run(self, team_id: str, channel_id: str) -> None:
        here, awake, turns = (
            Destination(team_id, channel_id),
            self._awake[channel_id],
            self._turns[channel_id],
        )
        due: DueMessage | None = None
        outcome: Outcome | None = None
        idle = 0
        try:
            if (former := self._unreleased.get(channel_id)) is not None:
                await self._release(former)
            while not self._leaving:
                awake.clear()
                if outcome is None:  # outcomes are stored at once
                    await self._db.precedence.give_way(Rank.BACKGROUND)
                began = monotonic()
                look = await deliveries.take_next(
                    self._db,
                    here,
                    self._worker,
                    served=turns.least_first,
                    after=outcome,
                    cards_per_minute=self._cards_per_minute,
                    group_from=self._group_from,
                    redraw_after=REDRAW_AFTER * self._pace,
                )
                due, outcome, idle = look.due, None, idle + 1
                if due is not None:
                    await self._db.precedence.give_way(Rank.BACKGROUND)
                    outcome, idle = await self._deliver(due, began), 0
                    turns.charge(due.turn, LEAST + monotonic() - began)
                elif not await _rest(awake, look.wait, self._least(look, idle)):
                    return
            if outcome is not None:
                await deliveries.store(self._db, outcome)
        except BaseException:
            if due is not None:
                await self._release(due)
            raise

    async def _release(self, due: DueMessage) -> None:
        """While the database is away, the next run retries until the lease expires."""
        channel_id = due.destination.channel_id
        self._unreleased[channel_id] = due
        await deliveries.release(self._db, due)
        del self._unreleased[channel_id]

    def _least(self, look: deliveries.NextMessage, idle: int) -> float:
        if look.rests and look.wait is not None:
            return min(look.wait, self._pace)
        return LOOK if idle > 1 else 0.0

    async def _deliver(self, due: DueMessage, began: float) -> Outcome | None:
        """The message was taken at ``began``. ``None``: the lease is lost."""
        try:
            sent = await self._tell_unseen(due) if due.unseen else None
            sent = sent or await self._sent(due, began)
        except SlackError as error:
            return await self._fail(due, error)
        except LeaseLost:
            return None
        except DatabaseError:
            raise  # the next drain finds everything unchanged
        except Exception as error:
            # Our own error in one message must not block the channel.
            log.exception("cannot be sent yet", action="delivery.broken", **_names(due))
            return await self._fail(due, DrawingFailed(error))
        self.problem = None
        return sent

    async def _sent(self, due: DueMessage, began: float) -> Sent:
        ts = await self._send(due, began)
        if due.ts is None:
            return Sent(due, ts, self._pace)
        return Sent(due, ts, self._changes[due.destination.channel_id].spend(monotonic()))

    async def _tell_unseen(self, due: DueMessage) -> Sent | None:
        """Tell of all requests that expired unseen here. ``None``: this one's card was seen. Raises SlackError."""
        unseen = await find_unseen(self._db, self._messenger, due, SETTLE)
        if unseen is None:
            return None
        if due.request_id is not None and due.request_id not in unseen.request_ids:
            return Sent(due, None, 0.0, (due.request_id,))  # a digest or this message told of it
        card = await self._drawing.draw_unseen(due, unseen.request_ids)
        await self._check_channel(due.destination.channel_id)
        await self._hold(due, 0.0)
        ts = await self._say(due, card, unseen.ts, None)
        point("after_card_accepted")
        return Sent(due, ts, self._pace, unseen.request_ids)

    async def _fail(self, due: DueMessage, error: SlackError) -> Outcome:
        outcome = await self._failures.outcome(due, error)
        if isinstance(outcome, Postponed):
            self.problem = outcome.error
            log.warning(
                "message not sent; will be retried",
                action="delivery.postponed",
                error=outcome.error,
                **_names(due),
            )
        elif isinstance(outcome, Dead):
            log.error("message given up", action="delivery.dead", error=outcome.error, **_names(due))
        elif isinstance(outcome, Closed):
            log.warning("card can no longer be changed", action="delivery.closed", **_names(due))
        elif isinstance(outcome, Unreached):
            log.warning(
                "requests expired unseen; operators are told instead of the channel",
                action="delivery.unreached",
                error=outcome.why,
                **_names(due),
            )
        else:
            log.info("message to update no longer exists", action="delivery.gone", **_names(due))
        return outcome

    async def _send(self, due: DueMessage, began: float) -> str | None:
        """Raises SlackError and LeaseLost."""
        channel_id = due.destination.channel_id
        thread_ts = due.thread_ts if due.kind.endswith("_line") else None
        posted = due.ts
        if posted is None and due.ambiguous:
            posted = await self._find(due, thread_ts)
            if posted is not None and thread_ts is not None:
                return posted
        card = await self._drawing.draw(due, posted=posted is not None)
        if card is None:
            return posted
        if posted is not None:
            await self._hold(due, began)
            return await self._say(due, card, posted, None)
        await self._check_channel(channel_id)
        await self._hold(due, began)
        ts = await self._say(due, card, None, thread_ts)
        if due.kind in ("card", "digest"):
            point("after_card_accepted")
        return ts

    async def _say(self, due: DueMessage, card: Card, ts: str | None, thread_ts: str | None) -> str:
        """If Slack refuses the blocks, send the plain form."""
        here = due.destination.channel_id
        try:
            return await self._messenger.say(here, card, ts=ts, thread_ts=thread_ts)
        except SlackRefused as error:
            if error.meaning is not Meaning.MESSAGE:
                raise
            log.error(  # noqa: TRY400
                "Slack refused the message; sending a plain version",
                action="delivery.plain",
                error=error.code,
                **_names(due),
            )
            plain = await self._drawing.draw_plainly(due, card, error.code)
            await self._hold(due, 0.0)
            said = await self._messenger.say(here, plain, ts=ts, thread_ts=thread_ts)
            await report_plain_card(self._db, due, error.code, self._admin)
            return said

    async def _find(self, due: DueMessage, thread_ts: str | None) -> str | None:
        await asyncio.sleep(SETTLE if due.attempts else 0.0)
        return await self._messenger.find(due.destination.channel_id, str(due.id), thread_ts, due.since)

    async def _hold(self, due: DueMessage, began: float) -> None:
        """Renew the lease if it might end before Slack answers. Raises LeaseLost."""
        if monotonic() - began > FRESH and not await deliveries.renew(self._db, due):
            raise LeaseLost(f"another drain posts in {due.destination.channel_id}")

    async def _check_channel(self, channel_id: str) -> None:
        """Raise ChannelClosed, or SlackUnavailable in doubt: outsiders must not see cards."""
        try:
            problem = await self._directory.channel_problem(channel_id)
        except (SlackError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise SlackUnavailable(f"the channel could not be looked up: {why}") from error
        if problem is not None:
            raise ChannelClosed(problem)


async def _rest(awake: asyncio.Event, seconds: float | None, least: float) -> bool:
    """Wait for the pace, or for a message that may go earlier. False: nothing to wait for."""
    if not awake.is_set() and (seconds is None or seconds > PATIENCE):
        return False
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.sleep(least)
            await awake.wait()
    return True


def _names(due: DueMessage) -> dict[str, Any]:
    return {
        "delivery": str(due.id),
        "kind": due.kind,
        "channel": due.destination.channel_id,
        "request": str(due.request_id) if due.request_id else None,
        "run": str(due.run_id) if due.run_id else None,
    }
