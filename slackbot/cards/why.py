"""Why people are asked, in lines: for Details and for the page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.domain.explanation import ExplainedCheckpoint, WhyAsked, paths_read
from agent.domain.request_view import RequestView
from agent.domain.rules import DERIVED
from agent.domain.short_ids import short_id
from agent.domain.templates import MISSING, value_and_money_at
from signoff.formats import Money
from slackbot.cards import inert, json_text, limits, scalars

TITLE = "Why am I asked?"
MAX_WHY = 500
MAX_VALUE = 200


def lines(view: RequestView, why: WhyAsked | None) -> list[str]:
    """Both have their secrets masked."""
    return [] if why is None else list(_lines(view, why))


def _lines(view: RequestView, why: WhyAsked) -> Iterator[str]:
    if view.checkpoint_id in DERIVED:
        yield "A question is always for people" if view.is_question else DERIVED[view.checkpoint_id]
    elif why.rule is not None:
        yield _checkpoint(why.rule)
        yield from (_value(view, path) for path in paths_read(view.rule.when or ""))
    yield from (f"Limit {limits.line(view, each)}" for each in limits.in_order(view) if each.reached)
    yield from (f"Grant {short_id(each.id)} does not cover it: {each.because}" for each in why.grants)
    yield from map(_checkpoint, why.others)


def _checkpoint(explained: ExplainedCheckpoint) -> str:
    return inert.line(f"Checkpoint {explained.checkpoint_id} {explained.result}: {explained.why}", MAX_WHY)


def _value(view: RequestView, path: str) -> str:
    """`facts.price is 1,499.00`."""
    known = {
        "args": json_text.arguments_of(view.action),
        "facts": view.facts or {},
        "agent": view.agent,
        "requester": view.requester.user_id if view.requester else None,
    }
    value, money = value_and_money_at(re.findall(r"\w+", path), known, Money.declared(view.rule.money))
    said = "missing" if value is MISSING else scalars.words(value, money)
    return inert.line(f"{path} is {said}", MAX_VALUE)
