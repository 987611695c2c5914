"""Limits over time: how much may run in a sliding window without a person.

A limit never loosens a policy: without room, an action that would run is asked about or denied. Approved actions
count, but are not refused. JSON numbers are read as exact decimals. What cannot be counted (a missing field, text,
boolean, NaN, infinity, negative number) is asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Context, Decimal
from functools import cached_property, reduce
from typing import Any, Literal

from agent.domain.expression import matches_from_start
from agent.domain.field_constraints import exact_number
from signoff.formats import NO_MONEY, Money
from signoff.values import Action, Person

OF_KEYS = "key:"
"""How the principals of API keys begin."""

COUNT = "count"
"""``of`` a limit that counts calls."""

LONGEST = timedelta(days=31)
"""Uses are kept as long, so that a longer window is correct at once."""

Per = Literal["agent", "requester", "key", "all"]
Then = Literal["ask", "deny"]

_MAX_DIGITS = 30
_NONE = Decimal(0)
_EXACT = Context(prec=2_000)
"""More digits than any sum of JSON numbers."""


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom an action's uses count."""

    agent: str
    requester: Person | None = None
    key: str | None = None
    """The principal of the API key that asks, or that started the run."""
    names_agent: bool = False
    """The key names its agent itself, so the name separates nothing."""

    @classmethod
    def of_principal(
        cls, principal: str, agent: str, requester: Person | None, *, names_agent: bool = False
    ) -> Caller:
        """``principal``: ``key:ci``, or that of a person, whose runs have no key."""
        key = principal if principal.startswith(OF_KEYS) else None
        return cls(agent, requester, key, names_agent=names_agent)


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on what may run within a sliding time window before people are asked or a call is denied."""

    name: str
    """Uses are counted under this name, whatever the policy."""
    action_pattern: str
    of: str
    """``count``, or a path: ``facts.price``, ``args.order.amount``."""
    per: Per
    within: timedelta
    max: Decimal
    then: Then = "ask"

    @property
    def reads_facts(self) -> bool:
        return self.of.startswith("facts.")

    def names(self, tool: str) -> bool:
        return matches_from_start(self.action_pattern, tool)

    def amount(self, action: Action, facts: Mapping[str, Any] | None) -> Decimal | None:
        """The action's use, or ``None`` if unknown."""
        if self.of == COUNT:
            return Decimal(1)
        root, *steps = self.of.split(".")
        value: Any = action.arguments if root == "args" else facts
        for step in steps:
            if not isinstance(value, Mapping) or step not in value:
                return None
            value = value[step]
        exact = exact_number(value)
        return None if exact is None or exact < 0 else exact.copy_abs()  # no -0

    def subject(self, caller: Caller) -> str:
        """Never a name that the caller chose: a key that names its agent itself counts as itself.

        Runs that no key started count for their requester, also per key. Those without a requester share a subject.
        """
        by_key = self.per == "key" or (self.per == "agent" and caller.names_agent)
        if by_key and caller.key is not None:
            return caller.key
        if self.per == "agent":
            return f"agent:{caller.agent}"
        if self.per == "all":
            return "all"
        person = caller.requester
        return f"requester:{person.team_id}/{person.user_id}" if person else "requester:nobody"

    @property
    def described(self) -> str:
        """`limit "refunds": 5,000 of facts.price in 24h for each agent, then ask`."""
        what = "calls" if self.of == COUNT else f"of {self.of}"
        whose = "all together" if self.per == "all" else f"for each {self.per}"
        return f'limit "{self.name}": {written(self.max)} {what} in {length(self.within)} {whose}, then {self.then}'

    def snapshot(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "action_pattern": self.action_pattern,
            "of": self.of,
            "per": self.per,
            "within": self.within.total_seconds(),
            "max": str(self.max),
            "then": self.then,
        }


@dataclass(frozen=True, slots=True)
class Use:
    """What one action uses of a limit, for the subject that it counts for; amount None: unknown."""

    limit: Limit
    subject: str
    amount: Decimal | None

    @property
    def key(self) -> tuple[str, str]:
        """Locks are taken in this order."""
        return self.limit.name, self.subject


@dataclass(frozen=True)
class LimitState:
    """A limit without the action's own reservations."""

    use: Use
    used: Decimal
    """By calls that ran, are running, or are in doubt."""
    waiting: Decimal
    """By calls that wait for people or have not begun."""

    @cached_property
    def verdict(self) -> Literal["run", "ask", "deny"]:
        """Waiting calls may still be rejected, so they never cause a denial."""
        amount, limit = self.use.amount, self.use.limit
        if amount is None:
            return "ask"
        if add(self.used, amount) > limit.max:
            return limit.then
        return "run" if add(self.used, self.waiting, amount) <= limit.max else "ask"

    @property
    def shown(self) -> dict[str, Any]:
        limit = self.use.limit
        numbers = {"used": str(self.used), "waiting": str(self.waiting), "max": str(limit.max)}
        about = {"name": limit.name, "of": limit.of, "within": limit.within.total_seconds()}
        return {**about, **numbers, "reached": self.verdict != "run"}

    @property
    def because(self) -> str:
        limit, amount = self.use.limit, self.use.amount
        name = f'limit "{limit.name}"'
        if amount is None:
            return f"{name}: {limit.of} is not a number of 0 or more, so it cannot be counted"
        taken = f"{written(self.used)} of {written(limit.max)} used in {length(limit.within)}"
        wait = f", {written(self.waiting)} wait for people" if self.waiting else ""
        more = "this adds one" if limit.of == COUNT else f"this takes {written(amount)} more"
        return f"{name}: {taken}{wait}, and {more}"


@dataclass(frozen=True, slots=True)
class LimitView:
    """A limit as it stood when people were asked, as the request shows it."""

    name: str
    of: str
    within: timedelta
    used: Decimal
    waiting: Decimal
    max: Decimal
    reached: bool
    """Perhaps not the only reason for asking."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> LimitView:
        """Reads ``LimitState.shown``."""
        numbers = {name: Decimal(stored[name]) for name in ("used", "waiting", "max")}
        within = timedelta(seconds=stored["within"])
        return cls(name=stored["name"], of=stored["of"], within=within, reached=stored["reached"], **numbers)


def add(*amounts: Decimal) -> Decimal:
    """Return the sum of the amounts without rounding (up to 2,000 digits), or 0 for no amounts."""
    return reduce(_EXACT.add, amounts, _NONE)


def decisive(states: Sequence[LimitState]) -> LimitState | None:
    """The state that denies, or else the first that asks."""
    for verdict in ("deny", "ask"):
        for state in states:
            if state.verdict == verdict:
                return state
    return None


def written(amount: Decimal, money: Money = NO_MONEY) -> str:
    """``4,960`` or ``12.5``: all digits; with an exponent if too many. Money has two after the point."""
    if (shown := money.shown(amount)) is not None:
        return shown
    places = -int(amount.as_tuple().exponent)
    if amount.adjusted() >= _MAX_DIGITS or places >= _MAX_DIGITS:
        return str(amount)
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.{places}f}"


def length(window: timedelta) -> str:
    """A window such as ``24h``, ``7d`` or ``1h30m``."""
    seconds = round(window.total_seconds())
    if seconds % 86_400 == 0 and seconds > 86_400:
        return f"{seconds // 86_400}d"
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number)
