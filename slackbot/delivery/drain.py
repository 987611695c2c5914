"""The drain: says in Slack what the database says should be told, each thing once, in order, at Slack's pace.

One drain per channel at a time. A card is drawn from the facts at the moment it is sent, so what changed while
it waited is not told twice. A post whose answer was lost is looked for by its metadata before it is sent again.
Trouble with a channel is told elsewhere.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any
from uuid import UUID

import structlog

from agent.database.errors import DatabaseError
from agent.database.pools import Database
from agent.domain.errors import LeaseLost
from agent.domain.masked_action import MaskedAction
from agent.domain.request import RequestView
from agent.fault_points import point
from agent.store import views
from agent.store.outbox import Destination
from agent.usecases import deliveries
from agent.usecases.deliveries import DestinationLease, DueMessage
from slackbot import cards, masking
from slackbot.cards import Card
from slackbot.delivery.reviewer_check import ReviewerCheck
from slackbot.slack_api.client import SlackClient, SlackError, SlackRefused, SlackUnavailable
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.error_codes import Meaning
from slackbot.slack_api.messenger import Messenger
from slackbot.slack_api.permalinks import Permalinks

log = structlog.get_logger(__name__)

PACE = 1.0
"""Seconds between new messages in one channel, and between changes there: Slack allows about one post a second in
a channel, and 50 changes a minute and more. It counts them apart, so a change does not wait for a post's second."""

PATIENCE = 5.0
"""A longer pause than this is not waited for: the next round finds what is due then."""

LOOK = 0.2
"""Seconds between looks while something has to wait: what may go out at once goes before it."""

SHARE = 5
"""A look at a long backlog takes its time; between two looks there is so many times as much."""

SETTLE = 3.0
"""How many seconds an ambiguous post gets to appear in the channel's history before it is looked for."""

PATIENT_LOOKS = 3
"""How often a card is put off because the machine was too busy to look for secrets; then it is masked."""

LONGEST = 30.0
LONGEST_FOR_PEOPLE = 60.0
LONGEST_UNKNOWN = 300.0
"""Seconds between attempts, at most: while Slack is away, while somebody has to mend something, and while Slack
refuses for a reason that we do not know."""

_LONGEST = {
    Meaning.CHANNEL: LONGEST_FOR_PEOPLE,
    Meaning.TOKEN: LONGEST_FOR_PEOPLE,
    Meaning.SUSPENDED: LONGEST_FOR_PEOPLE,
    Meaning.UNKNOWN: LONGEST_UNKNOWN,
}


class ChannelClosed(SlackError):
    """Nothing may be posted in this channel; why, as a sentence."""

    meaning = Meaning.CHANNEL


class Drain:
    """Empties destinations."""

    def __init__(
        self,
        db: Database,
        client: SlackClient,
        directory: Directory,
        worker: str,
        *,
        pace: float = PACE,
        admin: Destination | None = None,
    ) -> None:
        self._db = db
        self._permalinks = Permalinks(client)
        self._messenger = Messenger(client, directory.own_bot_user_id)
        self._directory = directory
        self._worker = worker
        self._pace = pace
        self._admin = admin
        self.reviewers = ReviewerCheck(db, directory, admin)
        self.leaving = False
        """The service stops: no further message is begun."""

        self.problem: str | None = None
        """Why what was to be said last was not said; None when it was. For health checks."""

    async def run(self, team_id: str, channel_id: str) -> None:
        """Tell this channel what is due, unless another drain is at it."""
        lease = await deliveries.lease_destination(self._db, team_id, channel_id, self._worker)
        if lease is None:
            return
        try:
            await self._empty(lease)
        finally:
            await deliveries.release_destination(self._db, lease)

    async def _empty(self, lease: DestinationLease) -> None:
        while not self.leaving:
            began = monotonic()
            due = await deliveries.next_due(self._db, lease)
            if due is None or due.wait > PATIENCE:
                return
            if due.wait:
                # What goes before a new message is a decided card. Before a change goes only a new message: no hurry.
                look = max(self._pace if due.ts else LOOK, SHARE * (monotonic() - began))
                await asyncio.sleep(min(due.wait, look))
            elif not await self._deliver(lease, due):
                return

    async def _deliver(self, lease: DestinationLease, due: DueMessage) -> bool:
        """Send one message. Returns whether the lease still holds."""
        try:
            ts = await self._send(lease, due)
        except SlackError as error:
            if not isinstance(error, SlackRefused) or error.meaning not in (Meaning.MESSAGE, Meaning.CLOSED):
                return await self._put_off(lease, due, error, _LONGEST.get(error.meaning, LONGEST))
            log.error("cannot be told", action="delivery.dead", error=error.code, **_names(lease, due))  # noqa: TRY400
            # Slack counts what it refuses, too: a channel whose messages are gone is not gone through at full speed.
            return await deliveries.mark_dead(self._db, lease, due, error.code, pause=self._pace)
        except LeaseLost:
            return False
        except DatabaseError:
            raise  # whoever comes next finds everything as it is
        except Exception as error:
            # A mistake of ours about one message must not keep all others in its channel waiting.
            log.exception("cannot be told yet", action="delivery.broken", **_names(lease, due))
            words = f"{type(error).__name__}: {error}"[:300]
            return await self._put_off(lease, due, SlackUnavailable(words, taken=True), LONGEST_FOR_PEOPLE)
        self.problem = None
        return await deliveries.mark_sent(self._db, lease, due, ts, pause=self._pace)

    async def _put_off(
        self, lease: DestinationLease, due: DueMessage, later: SlackError, slowest: float
    ) -> bool:
        """Back-off: 1, 2, 4 … seconds, or what Slack asked for, which then counts for all its like here."""
        self.problem = words = _cause(later)
        log.warning("not told yet", action="delivery.postponed", error=words, **_names(lease, due))
        unknown = later.meaning is Meaning.UNKNOWN
        if unknown and due.error != words:
            # Before the message is put off: after a crash in between, the next attempt still reports it.
            await deliveries.report_trouble(self._db, lease, due, words, self._admin)
        held = await deliveries.postpone(
            self._db,
            lease,
            due,
            later.seconds or min(slowest, 2.0 ** min(due.attempts, 9)),
            error=words,
            # A change can be repeated: whether Slack has made it already matters for posts only.
            ambiguous=(later.taken and due.ts is None) or due.ambiguous,
            whole_destination=later.seconds > 0,
            pause=self._pace if unknown else 0.0,
        )
        if held and later.meaning is Meaning.CHANNEL:
            await deliveries.report_trouble(
                self._db, lease, due, await self._trouble(lease, words), self._admin
            )
        return held

    async def _trouble(self, lease: DestinationLease, words: str) -> str:
        """What is wrong with the channel, in the same words whether Slack refused or we saw it before."""
        self._directory.forget_channel(lease.channel_id)
        try:
            return await self._directory.channel_problem(lease.channel_id) or words
        except (SlackError, TimeoutError):
            return words

    async def _send(self, lease: DestinationLease, due: DueMessage) -> str | None:
        """Post or update. Returns the message's ``ts``. Raises SlackError and LeaseLost."""
        card = await self._draw(lease, due)
        if card is None:
            return due.ts
        if due.ts is not None:
            if not await deliveries.renew(self._db, lease):
                raise _taken_over(lease)
            await self._messenger.update(lease.channel_id, due.ts, card)
            return due.ts
        thread_ts = due.thread_ts if due.kind.endswith("_line") else None
        if due.ambiguous and (found := await self._find(lease, due, thread_ts)) is not None:
            return found
        await self._check_channel(lease)
        if not await deliveries.mark_sending(self._db, lease, due):
            raise _taken_over(lease)
        ts = await self._messenger.post(lease.channel_id, card, thread_ts)
        if due.kind == "card":
            point("after_card_accepted")
        return ts

    async def _find(self, lease: DestinationLease, due: DueMessage, thread_ts: str | None) -> str | None:
        """An earlier post of this very delivery that Slack took after all; a card is brought up to date."""
        await asyncio.sleep(SETTLE if due.attempts else 0.0)
        found = await self._messenger.find(lease.channel_id, str(due.id), thread_ts)
        if found is not None and thread_ts is None:
            if not await deliveries.mark_sending(self._db, lease, due):
                raise _taken_over(lease)
            if (card := await self._draw(lease, due)) is not None:
                await self._messenger.update(lease.channel_id, found, card)
        return found

    async def _draw(self, lease: DestinationLease, due: DueMessage) -> Card | None:
        """What it should look like now, without secrets; ``None`` when there is nothing to show any more."""
        if due.kind == "card" and due.request_id:
            return await self._draw_request(due, due.request_id)
        if due.agent is not None:
            return await self._draw_digest(lease, due, due.agent)
        hidden = await self._hidden(due)
        if due.kind == "run_root" and due.run_id:
            async with self._db.connection() as connection:
                run = await views.run_view(connection, due.run_id)
            return cards.run_root(await masking.clean_run(run, hidden), delivery_id=due.id) if run else None
        draw = (
            cards.thread_line if due.kind == "thread_line" else cards.run_line
        )  # also for words to operators
        bodies = await masking.clean_value([dict(body) for body in due.bodies], hidden)
        return cards.combine_lines([draw(body, delivery_id=due.id) for body in bodies], delivery_id=due.id)

    async def _draw_digest(self, lease: DestinationLease, due: DueMessage, agent: str) -> Card:
        async with self._db.connection() as connection:
            flood = await views.flood(connection, lease.team_id, lease.channel_id, agent)
        digest = cards.FloodDigest(
            agent, flood.waiting, flood.highest, flood.tools, flood.first_deadline, flood.notify
        )
        return cards.flood_digest_card(digest, delivery_id=due.id)

    async def _view(self, request_id: UUID) -> RequestView | None:
        async with self._db.connection() as connection:
            return await views.request_view(connection, request_id)

    async def _hidden(self, due: DueMessage) -> masking.Hidden:
        """Values that are secret by their name or by policy, because a result or an answer may say them again."""
        hidden: masking.Hidden = ()
        if due.request_id and (view := await self._view(due.request_id)):
            hidden = masking.hidden_in(view)
        if due.run_id:
            async with self._db.connection() as connection:
                values = await views.values_of(connection, [due.run_id])
            hidden += masking.hidden_in_run(values.get(due.run_id))
        return hidden

    async def _draw_request(self, due: DueMessage, request_id: UUID) -> Card | None:
        view = await self._view(request_id)
        if view is None:
            return None
        self.reviewers.begin(view)
        shown = await masking.clean_view(view)
        if isinstance(shown.action, MaskedAction) and shown.action.unseen and due.attempts < PATIENT_LOOKS:
            raise SlackUnavailable("not looked through for secrets in time")
        names = await self._directory.names(view.approvers)
        shown = await self._permalinks.to_new_card(shown)
        return cards.request_card(shown, names=names, delivery_id=due.id)

    async def _check_channel(self, lease: DestinationLease) -> None:
        """Cards hold what outsiders must not see: into a doubtful channel nothing is posted."""
        try:
            problem = await self._directory.channel_problem(lease.channel_id)
        except (SlackError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise SlackUnavailable(f"the channel could not be looked up: {why}") from error
        if problem is not None:
            raise ChannelClosed(problem)


def _taken_over(lease: DestinationLease) -> LeaseLost:
    return LeaseLost(f"another drain speaks in {lease.channel_id}")


def _cause(error: SlackError) -> str:
    """In words. Operators are told once per cause, so a code is the same cause whichever method it came from."""
    if isinstance(error, SlackRefused) and error.meaning is Meaning.UNKNOWN:
        return f"Slack answers with the error {error.code}; Signoff tries again"
    return str(error)


def _names(lease: DestinationLease, due: DueMessage) -> dict[str, Any]:
    return {
        "delivery": str(due.id),
        "kind": due.kind,
        "channel": lease.channel_id,
        "request": str(due.request_id) if due.request_id else None,
        "run": str(due.run_id) if due.run_id else None,
    }
