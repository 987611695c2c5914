"""In which channels something may be told now. `next_delivery` has the same conditions for one channel."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Subquery,
    Text,
    and_,
    bindparam,
    case,
    cast,
    exists,
    extract,
    false,
    func,
    or_,
    select,
    true,
)

from agent.domain.request import API
from agent.store.tables import (
    agent_run,
    approval_request,
    card_place,
    delivery,
    destination,
    digest_card,
)

_now = func.clock_timestamp()
_team: ColumnElement[str] = bindparam("team")
_channel: ColumnElement[str] = bindparam("channel")
_channel_card = and_(card_place.c.request_id == delivery.c.request_id, card_place.c.surface == "channel")
_earlier = delivery.alias("earlier")
_earlier_line = exists().where(
    _earlier.c.state == "pending",
    _earlier.c.kind == delivery.c.kind,
    _earlier.c.id < delivery.c.id,
    or_(_earlier.c.request_id == delivery.c.request_id, _earlier.c.run_id == delivery.c.run_id),
)
# A line waits for its root, and for every earlier line of its own thread. In this order: the last look costs most.
_in_turn = case(
    (delivery.c.kind.in_(["card", "run_root", "direct", "digest"]), true()),
    (func.coalesce(card_place.c.ts, agent_run.c.thread_ts).is_(None), false()),
    else_=~_earlier_line,
)
_root_ts = func.coalesce(
    card_place.c.ts, agent_run.c.thread_ts, delivery.c.body["outdated"].astext, digest_card.c.ts
)
# What changes a message that stands; Slack counts these apart from new messages, and so do we.
_is_change = delivery.c.kind.in_(["card", "run_root", "digest"])
_ready_at = case(
    (and_(_is_change, _root_ts.is_not(None)), destination.c.next_update_at), else_=destination.c.next_at
)
# The first part says nothing new, but spares a look at every line while new messages rest.
_is_ready = and_(or_(destination.c.next_at <= _now, _is_change), _ready_at <= _now)
_places = (
    delivery.outerjoin(
        digest_card,
        and_(
            digest_card.c.team_id == delivery.c.team_id,
            digest_card.c.channel_id == delivery.c.channel_id,
            digest_card.c.agent == delivery.c.agent,
            ~digest_card.c.outdated,
        ),
    )
    .outerjoin(card_place, _channel_card)
    .outerjoin(agent_run, agent_run.c.id == delivery.c.run_id)
)
_pending = and_(delivery.c.team_id == _team, delivery.c.state == "pending")


SENDER: ColumnElement[str] = case(
    (approval_request.c.source == API, approval_request.c.principal), else_=approval_request.c.agent
)
"""Who brings a request into a channel: an agent of ours, or the key of a program, whatever agents it speaks for."""

A_MINUTE_AGO: ColumnElement[str] = cast(cast(extract("epoch", _now) - 60, BigInteger), Text)
"""As a ``ts`` of Slack, which is the time of posting."""


def recent_cards() -> Subquery:
    """How many cards each sender has had in the channel within a minute."""
    return (
        select(SENDER.label("sender"), func.count().label("lately"))
        .join(card_place, card_place.c.request_id == approval_request.c.id)
        .where(card_place.c.team_id == _team, card_place.c.channel_id == _channel)
        .where(card_place.c.surface == "channel", card_place.c.ts >= A_MINUTE_AGO)
        .group_by(SENDER)
        .subquery("recent")
    )


def _channels_due() -> Select[tuple[str]]:
    """Each channel costs one step through the index; a line whose thread has no root yet makes no channel due."""
    each = (
        select(func.min(delivery.c.channel_id).label("channel_id"))
        .where(_pending)
        .cte("each", recursive=True)
    )
    following = select(func.min(delivery.c.channel_id)).where(
        _pending, delivery.c.channel_id > each.c.channel_id
    )
    each = each.union_all(select(following.scalar_subquery()).where(each.c.channel_id.is_not(None)))
    here = and_(_pending, delivery.c.channel_id == each.c.channel_id)
    may_go = or_(destination.c.next_at.is_(None), _is_ready)
    goes = exists(select(1).select_from(_places).where(here, delivery.c.not_before <= _now, _in_turn, may_go))
    folded = and_(_channel_card, card_place.c.folded, card_place.c.ts.is_(None))
    is_left = exists(
        select(1)
        .select_from(delivery.join(card_place, folded))
        .where(here, delivery.c.kind.in_(["card", "thread_line"]), ~delivery.c.ambiguous)
    )
    lease = and_(destination.c.team_id == _team, destination.c.channel_id == each.c.channel_id)
    return (
        select(each.c.channel_id)
        .select_from(each.outerjoin(destination, lease))
        .where(
            each.c.channel_id.is_not(None),
            or_(destination.c.lease_until.is_(None), destination.c.lease_until <= _now),
            or_(goes, is_left),
        )
        .order_by(func.random())
    )


CHANNELS_DUE = _channels_due()
