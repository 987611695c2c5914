"""The filters of a list: what a URL asks for, and what the page offers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Request

from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.request_list import RequestFilter, RequestKind, RequestOrder
from signoff.values import Person, Risk
from slackbot.cards import parse_id
from slackbot.masking.search_words import search_words
from slackbot.reviewing.listing import ListPage
from slackbot.web.http.context import WebContext

Choice = TypeVar("Choice", bound=StrEnum)

DUE: Mapping[str, tuple[str, timedelta]] = {
    "1h": ("within an hour", timedelta(hours=1)),
    "24h": ("within a day", timedelta(days=1)),
    "7d": ("within a week", timedelta(days=7)),
}
ORDERS: Mapping[RequestOrder, str] = {
    RequestOrder.OLDEST: "Oldest first",
    RequestOrder.NEWEST: "Newest first",
    RequestOrder.DEADLINE: "Deadline first",
    RequestOrder.RISK: "Highest risk first",
}
_USER = re.compile(r"[UW][A-Z0-9]{1,30}\Z", re.ASCII)


_NAMES = (
    "q",
    "status",
    "agent",
    "rule",
    "risk",
    "due",
    "requester",
    "person",
    "decider",
    "channel",
    "since",
    "until",
    "together",
    "voter",
    "sort",
)
_OF_HISTORY = {"status", "person", "decider", "since", "until", "together", "voter"}
IN_DOUBT = ExecutionStatus.IN_DOUBT.value
LONGEST = 200
"""Characters per query value."""


@dataclass(frozen=True, slots=True)
class FilterOffer:
    """People and channels are pairs of id and name."""

    agents: Sequence[str]
    rules: Sequence[str]
    requesters: Sequence[tuple[str, str]]
    people: Sequence[tuple[str, str]]
    channels: Sequence[tuple[str, str]]
    due: Sequence[tuple[str, str]] = tuple((name, words) for name, (words, _) in DUE.items())
    orders: Sequence[tuple[str, str]] = tuple((order.value, words) for order, words in ORDERS.items())


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A URL's filters, parsed leniently: invalid ones are skipped and listed in ``unclear``."""

    asked: Mapping[str, str]
    unclear: list[str] = field(default_factory=list)

    @classmethod
    def of_waiting(cls, request: Request) -> ListQuery:
        """Inbox lists ignore filters of the history."""
        query = cls.of_history(request)
        return cls({name: "" if name in _OF_HISTORY else value for name, value in query.asked.items()})

    @classmethod
    def of_history(cls, request: Request) -> ListQuery:
        return cls({name: request.query_params.get(name, "")[:LONGEST] for name in _NAMES})

    @property
    def narrows(self) -> bool:
        return any(value for name, value in self.asked.items() if name != "sort")

    @property
    def filtered_or_sorted(self) -> bool:
        """Whether anything but words is asked for."""
        return any(value for name, value in self.asked.items() if name != "q")

    def address(self, path: str, **more: str) -> str:
        query = {name: value for name, value in {**self.asked, **more}.items() if value}
        return f"{path}?{urlencode(query)}" if query else path

    def turns(self, path: str, list_page: ListPage[Any]) -> dict[str, str | None]:
        def to(cursor: object) -> str | None:
            return None if cursor is None else self.address(path, at=str(cursor))

        return {"back": to(list_page.back), "forward": to(list_page.forward)}

    @property
    def form(self) -> UUID | None:
        """The form of several requests whose votes the history shows."""
        return parse_id(self.asked["together"])

    @property
    def searches(self) -> bool:
        """Whether the history is of all kinds without a choice: a search, or the votes of a form."""
        return bool(self.asked["q"] or self.form)

    def kind(self) -> RequestKind:
        status = self.asked["status"]
        if status in set(RequestKind):
            return RequestKind(status)
        return RequestKind.ANY if self.searches and not status else RequestKind.DECIDED

    def order(self, otherwise: RequestOrder) -> RequestOrder:
        return self._read(self.asked["sort"], _offered_order, "There is no sort order “{}”.") or otherwise

    def read(self, ctx: WebContext) -> RequestFilter:
        asked = self.asked["status"]
        status = "" if asked in {*RequestKind, IN_DOUBT} else asked
        due = DUE.get(self.asked["due"])
        if self.asked["due"] and due is None:
            self.unclear.append(f"There is no deadline “{self.asked['due']}”.")
        return RequestFilter(
            status=self._read(status, RequestStatus, "There is no status “{}”."),
            agent=self.asked["agent"],
            checkpoint_id=self.asked["rule"],
            risk=self._read(self.asked["risk"], Risk, "There is no risk “{}”."),
            requester=self._person(ctx, self.asked["requester"]),
            person=self._person(ctx, self.asked["person"]),
            decider=self._person(ctx, self.asked["decider"]),
            channel_id=self.asked["channel"],
            since=self._time("since", timedelta()),
            until=self._time("until", timedelta(days=1)),
            ends_before=datetime.now(UTC) + due[1] if due else None,
            words=self._words(),
            in_doubt=asked == IN_DOUBT or None,
            together=self._form(),
            voter=self._person(ctx, self.asked["voter"]),
        )

    def _form(self) -> UUID | None:
        if (given := self.asked["together"]) and self.form is None:
            self.unclear.append(f"There is no form “{given}”.")
        return self.form

    def _words(self) -> tuple[str, ...]:
        given = self.asked["q"].strip()
        words = tuple(search_words(given))
        if given and not words:
            self.unclear.append(f"There is no word or number in “{given}”.")
        return words

    def _read(self, given: str | None, kind: Callable[[str], Choice], unknown: str) -> Choice | None:
        if not given:
            return None
        try:
            return kind(given)
        except ValueError:
            self.unclear.append(unknown.format(given))
            return None

    def _person(self, ctx: WebContext, given: str) -> Person | None:
        if given and not _USER.match(given):
            self.unclear.append("Name a person by their Slack id.")
            return None
        return Person(ctx.slack.team_id, given) if given else None

    def _time(self, name: str, of_day: timedelta) -> datetime | None:
        """``of_day``: how far into a day its date means."""
        given = self.asked[name]
        try:
            at = datetime.fromisoformat(given) if given else None
            if at is not None and len(given) <= len("2026-11-01"):
                at += of_day
        except (ValueError, OverflowError):
            self.unclear.append(f"“{given}” is not a date like 2026-11-01.")
            return None
        return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)


def _offered_order(name: str) -> RequestOrder:
    if (order := RequestOrder(name)) not in ORDERS:
        raise ValueError(name)
    return order
