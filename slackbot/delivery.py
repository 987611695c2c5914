"""The drain: says in Slack what the database says should be told, each thing once, in order, at Slack's pace.

One drain per channel at a time. A card is drawn from the facts at the moment it is sent, so what changed while
it waited is not told twice. A post whose answer was lost is looked for by its metadata before it is sent again.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import aiohttp
import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from agent import deliveries
from agent.deliveries import Due, OutletLease
from agent.domain.errors import SignoffError
from agent.domain.redaction import MaskedAction
from agent.domain.request import RequestView
from agent.faults import point
from agent.store import reads
from agent.store.database import Database
from slackbot import cards, secrets
from slackbot.cards import Card
from slackbot.identity import Directory

log = structlog.get_logger(__name__)

PACE = 1.0
"""Seconds between messages in one channel: Slack allows about one post a second there."""

PATIENCE = 5.0
"""A longer pause than this is not waited for; a hint brings the next drain."""

SETTLE = 3.0
"""How many seconds an ambiguous post gets to appear in the channel's history before it is looked for."""

PATIENT_LOOKS = 3
"""How often a card is put off because the machine was too busy to look for secrets; then it is masked."""

SLACK_TIMEOUT = 10
"""Seconds for one call to Slack."""

# The channel or the token has to be mended by people; what is to be told is kept and tried again.
MENDABLE = frozenset(
    {
        "not_in_channel",
        "channel_not_found",
        "is_archived",
        "restricted_action",
        "missing_scope",
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
    }
)


@dataclass(frozen=True, slots=True)
class Postponed(Exception):
    """Slack did not take it now. ``seconds`` until the next attempt; ``ambiguous``: it may have, after all."""

    seconds: float
    error: str
    ambiguous: bool = False
    whole_outlet: bool = False


class Drain:
    """Empties outlets. ``client`` must not retry on its own: a re-sent post would be a second card."""

    def __init__(
        self, db: Database, client: AsyncWebClient, directory: Directory, worker: str, *, pace: float = PACE
    ) -> None:
        self._db = db
        self._client = client
        self._directory = directory
        self._worker = worker
        self._pace = pace

    async def run(self, team_id: str, channel_id: str) -> None:
        """Tell this channel what is due, unless another drain is at it."""
        lease = await deliveries.lease_outlet(self._db, team_id, channel_id, self._worker)
        if lease is None:
            return
        try:
            await self._empty(lease)
        finally:
            await deliveries.release_outlet(self._db, lease)

    async def _empty(self, lease: OutletLease) -> None:
        wait = lease.wait
        while wait <= PATIENCE:
            await asyncio.sleep(wait)
            due = await deliveries.next_due(self._db, lease)
            if due is None:
                return
            held, wait = await self._deliver(lease, due)
            if not held:
                return

    async def _deliver(self, lease: OutletLease, due: Due) -> tuple[bool, float]:
        """Send one message. Returns whether the lease still holds, and the pause until the next."""
        try:
            ts = await self._send(lease, due)
        except Postponed as later:
            log.warning("not told yet", action="delivery.postponed", error=later.error, **_names(lease, due))
            held = await deliveries.postpone(
                self._db,
                lease,
                due,
                later.seconds,
                error=later.error,
                ambiguous=later.ambiguous,
                whole_outlet=later.whole_outlet,
            )
            return held, later.seconds if later.whole_outlet else 0.0
        except SlackApiError as error:
            code = _code(error)
            log.error("cannot be told", action="delivery.dead", error=code, **_names(lease, due))  # noqa: TRY400
            return await deliveries.dead(self._db, lease, due, code), 0.0
        return await deliveries.sent(self._db, lease, due, ts, pause=self._pace), self._pace

    async def _send(self, lease: OutletLease, due: Due) -> str | None:
        """Post or update. Returns the message's ``ts``; raises Postponed, or SlackApiError for good."""
        card = await self._draw(due)
        if card is None:
            return due.ts
        if due.ts is not None:
            return await self._update(lease, due, card)
        if due.ambiguous and (found := await self._find(lease, due)) is not None:
            return found
        await self._check_channel(lease, due)
        if not await deliveries.begin(self._db, lease, due):
            raise Postponed(0.0, "another drain has taken over", ambiguous=True)
        answer = await self._call(
            due,
            "chat.postMessage",
            channel=lease.channel_id,
            thread_ts=due.thread_ts if due.kind.endswith("_line") else None,
            text=card.text,
            blocks=card.blocks,
            metadata=card.metadata,
            parse="none",
            link_names=False,
            unfurl_links=False,
            unfurl_media=False,
        )
        point("after_card_accepted")
        return str(answer["ts"])

    async def _update(self, lease: OutletLease, due: Due, card: Card) -> str:
        await self._call(
            due,
            "chat.update",
            channel=lease.channel_id,
            ts=due.ts,
            text=card.text,
            blocks=card.blocks,
            metadata=card.metadata,
            parse="none",
            link_names=False,
        )
        return str(due.ts)

    async def _draw(self, due: Due) -> Card | None:
        """What it should look like now, without secrets; ``None`` when there is nothing to show any more."""
        if due.kind == "card" and due.request_id:
            view = await self._view(due.request_id)
            if view is None:
                return None
            shown = await secrets.clean_view(view)
            unseen = isinstance(shown.action, MaskedAction) and shown.action.unseen
            if unseen and due.attempts < PATIENT_LOOKS:
                raise Postponed(_back_off(due), "not looked through for secrets in time")
            return cards.request_card(shown, delivery_id=due.id)
        hidden = await self._hidden(due)
        if due.kind == "run_root" and due.run_id:
            async with self._db.connection() as connection:
                run = await reads.run_view(connection, due.run_id)
            return cards.run_root(await secrets.clean_run(run, hidden), delivery_id=due.id) if run else None
        draw = cards.thread_line if due.kind == "thread_line" else cards.run_line
        bodies = await secrets.clean_value([dict(body) for body in due.bodies], hidden)
        return cards.together([draw(body, delivery_id=due.id) for body in bodies], delivery_id=due.id)

    async def _view(self, request_id: UUID) -> RequestView | None:
        async with self._db.connection() as connection:
            return await reads.request_view(connection, request_id)

    async def _hidden(self, due: Due) -> secrets.Hidden:
        """Values that are secret by their name or by policy, because a result or an answer may say them again."""
        requests, arguments = {due.request_id} if due.request_id else set[UUID](), []
        if due.run_id:
            async with self._db.connection() as connection:
                calls = await reads.calls(connection, due.run_id)
            requests |= {call.request_id for call in calls if call.request_id}
            arguments = [call.raw_arguments for call in calls]
        views = [await self._view(request_id) for request_id in requests]
        of_requests = [each for view in views if view for each in secrets.hidden_in(view)]
        return (*of_requests, *secrets.hidden_values(map(_parsed, arguments)))

    async def _check_channel(self, lease: OutletLease, due: Due) -> None:
        """Cards hold what outsiders must not see: into a doubtful channel nothing is posted."""
        try:
            problem = await self._directory.channel_problem(lease.channel_id)
        except (SignoffError, TimeoutError) as error:
            raise Postponed(_back_off(due), f"the channel could not be looked up: {error}") from error
        if problem is not None:
            raise Postponed(_back_off(due, slowest=60.0), problem)

    async def _find(self, lease: OutletLease, due: Due) -> str | None:
        """The ``ts`` of an earlier post of this very delivery, if Slack took it after all."""
        await asyncio.sleep(SETTLE if due.attempts else 0.0)
        threaded = due.kind.endswith("_line")
        arguments: dict[str, Any] = {"channel": lease.channel_id, "include_all_metadata": True, "limit": 200}
        if threaded:
            arguments["ts"] = due.thread_ts
        method = "conversations.replies" if threaded else "conversations.history"
        cursor = ""
        for _ in range(5):
            page = await self._call(due, method, **arguments, **({"cursor": cursor} if cursor else {}))
            for message in page.get("messages", []):
                if _delivery_of(message) == str(due.id) and self._is_ours(message):
                    return str(message["ts"])
            cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return None
        return None

    def _is_ours(self, message: dict[str, Any]) -> bool:
        return message.get("user") == self._directory.own_bot_user_id

    async def _call(self, due: Due, method: str, **arguments: Any) -> dict[str, Any]:
        """One call to Slack, its failures sorted into: later, perhaps taken, never."""
        posts = method == "chat.postMessage"
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            async with asyncio.timeout(SLACK_TIMEOUT):
                answer = await self._client.api_call(
                    method,
                    json=given if posts or "blocks" in given else None,
                    params=None if posts or "blocks" in given else given,
                )
        except SlackApiError as error:
            raise _sorted(error, due, posts=posts) from error
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            words = f"{method}: {type(error).__name__}"
            raise Postponed(_back_off(due), words, ambiguous=posts or due.ambiguous) from error
        return dict(answer.data) if isinstance(answer.data, dict) else {}


def _sorted(error: SlackApiError, due: Due, *, posts: bool) -> Exception:
    """429 and 5xx mean later (after a 5xx Slack may have taken a post); our own mistakes mean never."""
    response = error.response
    code, status = _code(error), int(getattr(response, "status_code", 0) or 0)
    if status == 429 or code in ("ratelimited", "rate_limited"):
        seconds = float((response.headers or {}).get("Retry-After") or 1)
        return Postponed(seconds, "Slack asks to slow down", whole_outlet=True, ambiguous=due.ambiguous)
    if status >= 500 or code in ("internal_error", "fatal_error", "service_unavailable", "request_timeout"):
        return Postponed(_back_off(due), f"Slack answers {code or status}", ambiguous=posts or due.ambiguous)
    if code in MENDABLE:
        return Postponed(_back_off(due, slowest=60.0), f"Slack refuses: {code}")
    return error


def _parsed(arguments: str) -> Any:
    """A call's arguments as the model wrote them; what is no JSON has no names that could hide anything."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None


def _code(error: SlackApiError) -> str:
    data = error.response.data if error.response is not None else None
    return str(data.get("error") or "") if isinstance(data, dict) else ""


def _back_off(due: Due, *, slowest: float = 30.0) -> float:
    """Seconds: 1, 2, 4 … up to the slowest."""
    return float(min(slowest, 2.0 ** min(due.attempts, 6)))


def _delivery_of(message: dict[str, Any]) -> str | None:
    metadata = message.get("metadata") or {}
    if metadata.get("event_type") != cards.EVENT_TYPE:
        return None
    found: str | None = (metadata.get("event_payload") or {}).get("delivery")
    return found


def _names(lease: OutletLease, due: Due) -> dict[str, Any]:
    return {
        "delivery": str(due.id),
        "kind": due.kind,
        "channel": lease.channel_id,
        "request": str(due.request_id) if due.request_id else None,
        "run": str(due.run_id) if due.run_id else None,
    }
