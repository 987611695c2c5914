"""Messages for Slack, written with the fact; ``slackbot.delivery.drain`` sends them.

Priorities: what a person waits for, new cards and run threads, small print of cards, lines. Pending rows about
one card are one row (``coalesce_key``), drawn from stored facts when sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction
from agent.database.wakeups import Wakeup
from agent.domain.groups import HOLD_SECONDS
from agent.domain.request_view import Change
from agent.store.ids import new_id
from signoff.canonical import canonical_bytes
from signoff.description import bounded
from signoff.values import Person

URGENT, CARD, REDRAW, LINE = 0, 1, 2, 3

_ANSWERS = frozenset({"answer", "failed", "denied", "cancelled"})

GRANT_LINES_WAIT = 60.0

MAX_CHANGES = 10
"""An edit's changes in a thread's line."""

MAX_BRIEF = 1_000
"""Characters of a value in it; fewer are shown."""


@dataclass(frozen=True, slots=True)
class Destination:
    """One drain at a time sends to it."""

    team_id: str
    channel_id: str


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message for Slack to be written with its fact; what it says is drawn when it is sent."""

    kind: str  # run_root | run_line | card | thread_line | direct | digest
    destination: Destination
    body: Mapping[str, Any]
    request_id: UUID | None = None
    run_id: UUID | None = None
    priority: int = LINE
    coalesce_key: str | None = None
    agent: str | None = None
    tells: bool = False
    wait: float = 0.0
    """Seconds before it may be sent; later lines of its thread go with it."""


def telling(line: OutboxMessage) -> OutboxMessage:
    """The line is an outcome: whoever asked is told, as they have chosen (`notify_choice`)."""
    return replace(line, tells=True)


def card(destination: Destination, request_id: UUID, *, urgent: bool = True) -> OutboxMessage:
    """Return the message that posts or redraws a request's card; `urgent`: a person waits for it."""
    priority = URGENT if urgent else CARD
    return OutboxMessage(
        "card", destination, {}, request_id=request_id, priority=priority, coalesce_key=f"card:{request_id}"
    )


def redrawn_card(destination: Destination, request_id: UUID) -> OutboxMessage:
    """A card whose small print has changed: everything else goes first."""
    return replace(card(destination, request_id), priority=REDRAW)


def request_line(
    destination: Destination, request_id: UUID, line: str, by: Person | None = None, **facts: Any
) -> OutboxMessage:
    """Return a line for the thread of a request's card, of this kind and perhaps by a person."""
    who = {"team": by.team_id, "user": by.user_id} if by else {"team": None, "user": None}
    return OutboxMessage("thread_line", destination, {"line": line, **who, **facts}, request_id=request_id)


def grant_used_line(destination: Destination, grant_id: UUID, **facts: Any) -> OutboxMessage:
    """A line of which a thread gets one per minute."""
    return replace(request_line(destination, grant_id, "grant_used", **facts), wait=GRANT_LINES_WAIT)


def edited_line(
    destination: Destination,
    request_id: UUID,
    by: Person,
    revision: int,
    changes: Sequence[Change],
    money: Sequence[str] = (),
) -> OutboxMessage:
    """Long values are cut, surplus changes counted. `money`: the paths that policy declares."""
    shown = [
        {"path": each.path, "before": _brief(each.before), "after": _brief(each.after)}
        for each in changes[:MAX_CHANGES]
    ]
    more = len(changes) - len(shown)
    facts = {"changes": shown, "more": more, **({"money": list(money)} if money else {})}
    return request_line(destination, request_id, "edited", by, revision=revision, **facts)


def _brief(value: Any) -> Any:
    encoded = canonical_bytes(value).decode()
    return (
        value
        if len(encoded) <= MAX_BRIEF
        else bounded(value if isinstance(value, str) else encoded, MAX_BRIEF)
    )


def run_root(destination: Destination, run_id: UUID) -> OutboxMessage:
    """Return the message that posts or redraws the first message of a run's thread."""
    return OutboxMessage(
        "run_root", destination, {}, run_id=run_id, priority=CARD, coalesce_key=f"run:{run_id}"
    )


def run_line(destination: Destination, run_id: UUID, line: str, **facts: Any) -> OutboxMessage:
    """Return a line for a run's thread; its answer or another end is urgent, other lines are not."""
    priority = URGENT if line in _ANSWERS else LINE
    return OutboxMessage("run_line", destination, {"line": line, **facts}, run_id=run_id, priority=priority)


def unreachable_line(destination: Destination, run_id: UUID, request_id: UUID, **facts: Any) -> OutboxMessage:
    """A line of which a request has one pending."""
    body = {"line": "unreachable", "request": str(request_id), **facts}
    return OutboxMessage(
        "run_line", destination, body, run_id=run_id, coalesce_key=f"unreachable:{request_id}"
    )


def direct(
    destination: Destination,
    request_id: UUID | None,
    run_id: UUID | None,
    line: str,
    *,
    key: str | None = None,
    **facts: Any,
) -> OutboxMessage:
    """Return a direct message to a person; while one with the same `key` is pending, it is not repeated."""
    body = {"line": line, **facts}
    return OutboxMessage("direct", destination, body, request_id=request_id, run_id=run_id, coalesce_key=key)


async def was_enqueued(connection: Connection, request_id: UUID, key: str) -> bool:
    """Whether such a message was enqueued, sent or not."""
    found = await connection.execute(_WITH_KEY, {"request": request_id, "key": key})
    return bool(found.scalar_one())


async def find_told(connection: Connection, names: Sequence[str]) -> set[str]:
    """Those that a direct message has ``told``, sent or not."""
    return set((await connection.execute(_TOLD, {"names": names})).scalars())


def digest(destination: Destination, sender: str) -> OutboxMessage:
    """Return the message that posts or redraws a digest: that of a sender's requests without a card, or of a group."""
    key = f"digest:{destination.team_id}:{destination.channel_id}:{sender}"
    return OutboxMessage("digest", destination, {}, priority=CARD, coalesce_key=key, agent=sender)


def gathering(destination: Destination, batch: str) -> OutboxMessage:
    """Return what forms a group of the requests that are gathered under this name, once the others had time to come."""
    return replace(digest(destination, batch), wait=HOLD_SECONDS)


def digest_pointer(destination: Destination, sender: str, outdated: str, digest: str) -> OutboxMessage:
    """The message ``outdated`` then points to the current digest."""
    body = {"outdated": outdated, "digest": digest}
    return OutboxMessage("digest", destination, body, priority=CARD, agent=sender)


def enqueue(tx: Transaction, outgoing: Sequence[OutboxMessage]) -> None:
    """Wakes the channels' drains."""
    tx.add_rows(_INSERT, [_row(message) for message in outgoing], last=True)
    tx.wake(*(Wakeup.channel(message.destination.channel_id) for message in outgoing))


def _row(message: OutboxMessage) -> dict[str, Any]:
    return {
        "id": new_id(),
        "kind": message.kind,
        "priority": message.priority,
        "team_id": message.destination.team_id,
        "channel_id": message.destination.channel_id,
        "request_id": message.request_id,
        "run_id": message.run_id,
        "agent": message.agent,
        "body": dict(message.body),
        "coalesce_key": message.coalesce_key,
        "wait": message.wait,
        "tells": message.tells,
        "direct": new_id() if message.tells else None,
    }


_WITH_KEY = text("""
SELECT EXISTS (SELECT 1 FROM delivery WHERE request_id = :request AND coalesce_key = :key)
""")
_TOLD = text("""
SELECT name FROM unnest(CAST(:names AS text[])) AS name
WHERE EXISTS (SELECT FROM delivery WHERE kind = 'direct' AND body -> 'told' IS NOT NULL AND body -> 'told' ? name)
""")
# Of rows with one key only the first is inserted: a statement cannot update a row twice.
#
# A run in a thread tells of its requests' outcomes when it ends. What a program reports follows its approval, which is
# no outcome yet. Direct messages are found by polling; a run in that very conversation needs none.
#
# OFFSET 0: each row that tells is looked up by key. A join would hash whole tables for the hundred rows it expects.
_INSERT = text("""
WITH e AS (
    SELECT DISTINCT ON (coalesce(coalesce_key, id::text)) *
    FROM json_to_recordset(:rows) AS t (
        id uuid, kind delivery_kind, priority smallint, team_id text, channel_id text, request_id uuid, run_id uuid,
        agent text, body jsonb, coalesce_key text, wait float, tells boolean, direct uuid)
    ORDER BY coalesce(coalesce_key, id::text), priority, id
)
INSERT INTO delivery (id, kind, priority, team_id, channel_id, request_id, run_id, agent, body, coalesce_key,
                      not_before)
SELECT message.* FROM e
LEFT JOIN LATERAL (
    SELECT jsonb_build_object('tell', jsonb_build_object('team', who.team_id, 'user', who.user_id)) AS whom,
           CASE WHEN c.channel_id = e.channel_id THEN 'thread' ELSE coalesce(c.way, 'thread') END AS way, c.channel_id
    FROM (SELECT) AS one
    LEFT JOIN approval_request AS r ON r.id = e.request_id
    LEFT JOIN agent_run AS a ON a.id = coalesce(e.run_id, r.run_id)
    CROSS JOIN LATERAL (
        SELECT coalesce(r.requester_team_id, a.requester_team_id) AS team_id,
               coalesce(r.requester_user_id, a.requester_user_id) AS user_id) AS who
    LEFT JOIN notify_choice AS c ON c.team_id = who.team_id AND c.user_id = who.user_id
    WHERE e.tells AND who.user_id IS NOT NULL
      AND (r.id IS NULL OR a.channel_id IS NULL)
      AND (e.body ->> 'line' <> 'approved'
           OR EXISTS (SELECT FROM tool_call WHERE tool_call.id = r.call_id AND tool_call.executor = 'none'))
    OFFSET 0
) AS told ON true
CROSS JOIN LATERAL (
    SELECT e.id, e.kind, e.priority, e.team_id, e.channel_id, e.request_id, e.run_id, e.agent,
           CASE told.way WHEN 'thread' THEN e.body || told.whom ELSE e.body END, e.coalesce_key,
           clock_timestamp() + make_interval(secs => e.wait)
    UNION ALL
    SELECT e.direct, 'direct', 0, e.team_id, told.channel_id, e.request_id, e.run_id, NULL,
           e.body || told.whom || jsonb_build_object('of', e.kind), NULL, clock_timestamp()
    WHERE told.way = 'dm'
) AS message
ON CONFLICT (coalesce_key) WHERE state = 'pending' AND coalesce_key IS NOT NULL
DO UPDATE SET wanted = delivery.wanted + 1, priority = least(delivery.priority, excluded.priority)
""")
