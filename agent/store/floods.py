"""A flood: more new requests of one sender than a channel may show. The rest is folded into a digest.

A folded request has no card and no thread. A sender is an agent, or a program's key, which may speak for many agents
but has one limit and one digest. Requests of a group (`store/groups.py`) are folded into the group's digest instead.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    extract,
    func,
    or_,
    select,
    text,
    update,
)

from agent.database.transaction import Connection, Transaction, fetch
from agent.domain.request import API, RequestStatus
from agent.store.outbox import Destination
from agent.store.tables import approval_request, card_place, delivery, digest_card, request_group


async def fold(connection: Connection, destination: Destination, cards_per_minute: int) -> list[str]:
    """Skip the cards of requests beyond the limit or already folded. Returns the names of their digests.

    A digest is outdated after a minute: nobody scrolls up to it.
    """
    here = {"team": destination.team_id, "channel": destination.channel_id}
    rows = await fetch(connection, _FOLD, **here, cards_per_minute=cards_per_minute)
    return [row.digest for row in rows]


async def unfold(connection: Connection, cards_per_minute: int) -> list[tuple[UUID, Destination, str]]:
    """Unfold what fits the limit (id, channel, sender): critical requests first, then a sender's people in turn."""
    rows = await connection.execute(_UNFOLD, {"cards_per_minute": cards_per_minute})
    return [(row.request_id, Destination(row.team_id, row.channel_id), row.sender) for row in rows]


async def place_digest(tx: Transaction, destination: Destination, sender: str, ts: str) -> str | None:
    """Make this message the digest while a request in it waits. Returns the previous digest.

    It has told of these requests. Also clears the sender's given-up digests.
    """
    here = {"team": destination.team_id, "channel": destination.channel_id, "sender": sender}
    before: str | None = (await tx.execute(_PLACE, {**here, "ts": ts})).scalar_one_or_none()
    return before


_SENDER: ColumnElement[str] = case(
    (approval_request.c.source == API, approval_request.c.principal), else_=approval_request.c.agent
)
"""A key, whatever agents it speaks for."""

_A_MINUTE_AGO: ColumnElement[str] = cast(
    cast(extract("epoch", func.clock_timestamp()) - 60, BigInteger), Text
)
"""As a Slack ``ts``, the time of posting."""

_unseen = and_(
    delivery.c.kind == "card",
    approval_request.c.status == RequestStatus.EXPIRED,
    card_place.c.told_at.is_(None),
)
"""Told in a message of its own (`store/unseen.py`)."""

_channel_card = and_(card_place.c.request_id == delivery.c.request_id, card_place.c.surface == "channel")


def _excess(what: ColumnElement[bool]) -> Select[tuple[UUID]]:
    """Critical and multi-approval requests are folded last."""
    important = or_(approval_request.c.risk == "critical", approval_request.c.approvals_required > 1)
    order = (delivery.c.kind, important.desc(), delivery.c.priority, delivery.c.id)
    rank = func.count().filter(~card_place.c.folded).over(partition_by=_SENDER, order_by=order)
    waiting = (
        select(delivery.c.id, card_place.c.folded, _SENDER.label("sender"), rank.label("rank"))
        .join(card_place, and_(_channel_card, card_place.c.ts.is_(None)))
        .join(approval_request, approval_request.c.id == delivery.c.request_id)
        .where(delivery.c.team_id == bindparam("team"), delivery.c.channel_id == bindparam("channel"))
        .where(delivery.c.state == "pending", ~delivery.c.ambiguous, what, ~_unseen)
        .subquery("waiting")
    )
    recent = (
        select(_SENDER.label("sender"), func.count().label("lately"))
        .join(card_place, card_place.c.request_id == approval_request.c.id)
        .where(card_place.c.team_id == bindparam("team"), card_place.c.channel_id == bindparam("channel"))
        .where(card_place.c.surface == "channel", card_place.c.ts >= _A_MINUTE_AGO)
        .group_by(_SENDER)
        .subquery("recent")
    )
    groups = (
        select(func.count())
        .where(
            request_group.c.team_id == bindparam("team"), request_group.c.channel_id == bindparam("channel")
        )
        .where(request_group.c.sender == waiting.c.sender)
        .where(or_(request_group.c.ts >= _A_MINUTE_AGO, request_group.c.ts.is_(None)))
        .scalar_subquery()
    )
    lately = func.coalesce(recent.c.lately, 0) + groups
    room = func.greatest(0, bindparam("cards_per_minute", type_=Integer) - lately)
    return (
        select(waiting.c.id)
        .outerjoin(recent, recent.c.sender == waiting.c.sender)
        .where(or_(waiting.c.folded, waiting.c.rank > room))
    )


def _fold() -> Select[tuple[str]]:
    folded_line = and_(delivery.c.kind == "thread_line", card_place.c.folded, card_place.c.digest.is_(None))
    held = (
        select(
            delivery.c.id,
            card_place.c.nonce,
            card_place.c.folded,
            func.coalesce(card_place.c.digest, _SENDER).label("digest"),
        )
        .join(card_place, _channel_card)
        .join(approval_request, approval_request.c.id == delivery.c.request_id)
        .where(delivery.c.id.in_(_excess(or_(delivery.c.kind == "card", folded_line))))
        .where(delivery.c.state == "pending")
        .order_by(delivery.c.id)
        .with_for_update(of=[delivery, card_place], skip_locked=True)
        .cte("held")
    )
    skipped = update(delivery).values(state="skipped").where(delivery.c.id == held.c.id)
    folded = (
        update(card_place).values(folded=True).where(card_place.c.nonce == held.c.nonce, ~card_place.c.folded)
    )
    outdated = (
        update(digest_card)
        .values(outdated=True)
        .where(digest_card.c.team_id == bindparam("team"), digest_card.c.channel_id == bindparam("channel"))
        .where(digest_card.c.agent.in_(select(held.c.digest).where(~held.c.folded)))
        .where(digest_card.c.ts < _A_MINUTE_AGO)
    )
    digests = select(held.c.digest).distinct().order_by(held.c.digest)
    return digests.add_cte(skipped.cte("skipped"), folded.cte("folded_now"), outdated.cte("outdated_now"))


_FOLD = _fold()
_PLACE = text("""
WITH waits AS (SELECT FROM card_place AS p JOIN approval_request AS r ON r.id = p.request_id
               WHERE p.folded AND p.digest IS NULL AND p.team_id = :team AND p.channel_id = :channel
                 AND CASE r.source WHEN 'api' THEN r.principal ELSE r.agent END = :sender AND r.status = 'waiting'
               LIMIT 1),
former AS (SELECT ts FROM digest_card WHERE team_id = :team AND channel_id = :channel AND agent = :sender),
ended AS (DELETE FROM digest_card WHERE team_id = :team AND channel_id = :channel AND agent = :sender
          AND NOT EXISTS (SELECT FROM waits)),
told AS (UPDATE card_place AS p SET told_at = clock_timestamp() FROM approval_request AS r
         WHERE p.folded AND p.digest IS NULL AND p.surface = 'channel' AND p.ts IS NULL AND p.told_at IS NULL
           AND p.team_id = :team AND p.channel_id = :channel AND r.id = p.request_id AND r.status = 'waiting'
           AND CASE r.source WHEN 'api' THEN r.principal ELSE r.agent END = :sender),
mended AS (UPDATE delivery SET state = 'skipped' WHERE state = 'dead' AND kind = 'digest'
           AND team_id = :team AND channel_id = :channel AND agent = :sender),
placed AS (
    INSERT INTO digest_card (team_id, channel_id, agent, ts)
    SELECT CAST(:team AS text), CAST(:channel AS text), CAST(:sender AS text), CAST(:ts AS text) FROM waits
    ON CONFLICT (team_id, channel_id, agent) DO UPDATE
    SET ts = excluded.ts, outdated = digest_card.outdated AND digest_card.ts = excluded.ts)
SELECT ts FROM former WHERE ts <> :ts
""")
# Digests are few and end with their last waiting request. Slack may have rejected one in every form.
_UNFOLD = text("""
WITH digest AS MATERIALIZED (
    SELECT team_id, channel_id, agent AS sender FROM digest_card
    UNION SELECT team_id, channel_id, agent FROM delivery
    WHERE state = 'dead' AND kind = 'digest' AND agent NOT LIKE 'group:%'
), waits AS (
    SELECT p.nonce, p.request_id, d.team_id, d.channel_id, d.sender,
           r.risk = 'critical' OR r.approvals_required > 1 AS important,
           row_number() OVER (PARTITION BY d.team_id, d.channel_id, d.sender, r.requester_user_id ORDER BY r.id) AS turn
    FROM digest AS d
    JOIN card_place AS p ON p.folded AND p.digest IS NULL AND p.ts IS NULL
     AND p.team_id = d.team_id AND p.channel_id = d.channel_id
    JOIN approval_request AS r ON r.id = p.request_id AND r.status = 'waiting'
     AND CASE r.source WHEN 'api' THEN r.principal ELSE r.agent END = d.sender
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY team_id, channel_id, sender
                                 ORDER BY important DESC, turn, request_id) AS rank FROM waits
), busy AS (
    SELECT d.team_id, d.channel_id, d.sender, count(*) AS cards
    FROM digest AS d
    JOIN card_place AS q ON q.team_id = d.team_id AND q.channel_id = d.channel_id AND q.surface = 'channel'
     AND q.ts >= CAST(CAST(extract(epoch FROM clock_timestamp()) - 60 AS bigint) AS text)
    JOIN approval_request AS s ON s.id = q.request_id
     AND CASE s.source WHEN 'api' THEN s.principal ELSE s.agent END = d.sender
    GROUP BY d.team_id, d.channel_id, d.sender
), grouped AS (
    SELECT d.team_id, d.channel_id, d.sender, count(*) AS cards
    FROM digest AS d
    JOIN request_group AS g ON g.team_id = d.team_id AND g.channel_id = d.channel_id AND g.sender = d.sender
     AND (g.ts IS NULL OR g.ts >= CAST(CAST(extract(epoch FROM clock_timestamp()) - 60 AS bigint) AS text))
    GROUP BY d.team_id, d.channel_id, d.sender
), queued AS (
    SELECT d.team_id, d.channel_id, d.sender, count(*) AS cards
    FROM digest AS d
    JOIN delivery AS e ON e.team_id = d.team_id AND e.channel_id = d.channel_id
     AND e.state = 'pending' AND e.kind = 'card' AND e.priority < 2
    JOIN card_place AS q ON q.request_id = e.request_id AND q.surface = 'channel' AND q.ts IS NULL
    JOIN approval_request AS s ON s.id = e.request_id
     AND CASE s.source WHEN 'api' THEN s.principal ELSE s.agent END = d.sender
    GROUP BY d.team_id, d.channel_id, d.sender
), chosen AS (
    SELECT ranked.* FROM ranked
    LEFT JOIN busy USING (team_id, channel_id, sender)
    LEFT JOIN grouped USING (team_id, channel_id, sender)
    LEFT JOIN queued USING (team_id, channel_id, sender)
    WHERE rank <= CAST(:cards_per_minute AS int) - coalesce(busy.cards, 0) - coalesce(grouped.cards, 0)
                  - coalesce(queued.cards, 0)
), held AS (
    SELECT p.nonce FROM card_place AS p WHERE p.nonce IN (SELECT nonce FROM chosen)
    ORDER BY p.nonce FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE card_place AS p SET folded = false
FROM held JOIN chosen ON chosen.nonce = held.nonce
WHERE p.nonce = held.nonce AND p.folded
RETURNING chosen.request_id, chosen.team_id, chosen.channel_id, chosen.sender
""")
