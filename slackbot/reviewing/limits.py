"""Limits over time that every member may see: totals, each agent's use, the reader's own."""

from __future__ import annotations

from decimal import Decimal

from agent.database.pools import Database
from agent.domain.limits import Caller, Limit, LimitState, Use
from agent.domain.policy import Policy
from agent.store.ids import new_id
from agent.usecases import limits
from signoff.formats import Money
from signoff.json_paths import is_redacted
from signoff.values import Person
from slackbot.cards.limits import LimitLine

MAX_AGENTS = 10
"""Those with the most use."""


async def visible(db: Database, policy: Policy, person: Person) -> list[LimitLine]:
    """In the policy's order. Other requesters' use is shown to operators only."""
    shared = [limit for limit in policy.limits if limit.per != "requester"]
    found = await limits.by_subject(db, shared, most=MAX_AGENTS) if shared else []
    found = [each for each in found if not each.subject.startswith("requester:")]
    personal = [limit for limit in policy.limits if limit.per in ("requester", "key")]
    own = [Use(limit, limit.subject(Caller("", person)), None) for limit in personal]
    states = await limits.states(db, new_id(), own) if own else ()
    lines: list[LimitLine] = []
    for limit in policy.limits:
        hidden, money = _is_hidden(policy, limit), _money(policy, limit)
        named = [
            LimitLine(limit, _agent(each.subject), each.used, each.waiting, hidden, money)
            for each in found
            if each.limit == limit.name
        ]
        mine = [_own(state, hidden, money) for state in states if state.use.limit is limit]
        lines += [*named, *mine] or [LimitLine(limit, "", *_NOTHING, hidden, money)]
    return lines


def _own(state: LimitState, hidden: bool, money: Money) -> LimitLine:
    return LimitLine(state.use.limit, "you", state.used, state.waiting, hidden, money)


def _agent(subject: str) -> str:
    kind, _, name = subject.partition(":")
    return f"{kind} {name}" if kind in ("agent", "key") else ""


def _is_hidden(policy: Policy, limit: Limit) -> bool:
    root, *steps = limit.of.split(".")
    masks = [policy.defaults.redact, *(rule.redact for rule in policy.rules)]
    return any(is_redacted(tuple(steps), redact, root) for redact in masks)


def _money(policy: Policy, limit: Limit) -> Money:
    """Declared by `[defaults]`, or by a checkpoint for the very same tools."""
    same = (rule.money for rule in policy.rules if rule.action_pattern == limit.action_pattern)
    declared = {*policy.defaults.money, *(path for paths in same for path in paths)}
    return Money.declared(declared).below(*limit.of.split("."))


_NOTHING = (Decimal(0), Decimal(0))
