"""Read the query after `/approvals history` leniently: keys may be short, left out or misspelt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from agent.domain.request import RequestStatus
from agent.domain.short_ids import parse_id_prefix
from agent.domain.verdicts import ENDED
from signoff.errors import SignoffError
from slackbot.slack.listeners.run_starts import closest_name

MAX_DAYS = 36_500

FILTERS = "; the filters are agent, by, requester, decided, status, since, until and id."

ME = "me"
"""Whoever reads the list."""

_KEYS = {
    "agent": "agent",
    "by": "user",
    "person": "user",
    "user": "user",
    "status": "status",
    "outcome": "status",
    "requester": "requester",
    "for": "requester",
    "decided": "decider",
    "since": "since",
    "from": "since",
    "until": "until",
    "to": "until",
    "id": "id",
}
_STATUSES = {each.status.word: each.status for each in ENDED}
_ALSO = {
    "canceled": "withdrawn",
    "cancelled": "withdrawn",
    "denied": "rejected",
    "declined": "rejected",
    "accepted": "approved",
    "timeout": "expired",
}
_UNITS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}
_PERSON = re.compile(r"<@([UW][A-Z0-9]{1,30})(?:\|[^>]*)?>\Z", re.ASCII)
_ID = re.compile(r"[0-9a-fA-F]{8}[0-9a-fA-F-]{0,28}\Z", re.ASCII)
_AGO = re.compile(r"([0-9]{1,5})([hdwmy])\Z", re.ASCII)
_KEYED = re.compile(r"([A-Za-z]+)[:=](.+)\Z", re.DOTALL)

NOT_HISTORY = "Waiting requests are not history; see /approvals all."


class UnclearQuery(SignoffError):
    """`meant`: the probable word, or the query with it."""

    def __init__(self, problem: str, meant: str | None = None) -> None:
        super().__init__(problem)
        self.meant = meant


def read_query(text: str, agents: Sequence[str], now: datetime) -> dict[str, str]:
    """Raises UnclearQuery."""
    # "by: @grace" and "by @grace" are one filter each.
    joined = re.sub(r"\b([A-Za-z]+)\s*[:=]\s+", r"\1:", text)
    joined = re.sub(r"\b(by|since|from|until|to|for)\s+(?=\S)", r"\1:", joined, flags=re.IGNORECASE)
    query: dict[str, str] = {}
    words = joined.split()
    for at, word in enumerate(words):
        try:
            key, value = _read(word, agents, now)
        except UnclearQuery as unclear:
            if unclear.meant:
                unclear.meant = " ".join([*words[:at], unclear.meant, *words[at + 1 :]])
            raise
        query[key] = value
    return query


def _read(word: str, agents: Sequence[str], now: datetime) -> tuple[str, str]:
    keyed = _KEYED.match(word)
    if keyed is None:
        key = _guess(word, agents)
        return key, _value(key, word, agents, now)
    key = _key(keyed[1], keyed[2])
    try:
        return key, _value(key, keyed[2], agents, now)
    except UnclearQuery as unclear:
        unclear.meant = f"{keyed[1]}:{unclear.meant}" if unclear.meant else None
        raise


def _key(word: str, value: str) -> str:
    known = _KEYS.get(word.lower())
    if known is None:
        guess = closest_name(word, _KEYS)
        hint = f'; did you mean "{guess}:"?' if guess else FILTERS
        raise UnclearQuery(f'There is no filter "{word[:40]}:"{hint}', f"{guess}:{value}" if guess else None)
    return known


def _guess(word: str, agents: Sequence[str]) -> str:
    if _PERSON.match(word):
        return "user"
    if word.lower() == "mine":
        return "decider"
    if word in agents:
        return "agent"
    if word.lower() in (*_STATUSES, *_ALSO):
        return "status"
    if _ID.match(word) and not _is_date(word):
        return "id"
    if _AGO.match(word.lower()) or word[:1].isdigit() or word.lower() in ("today", "yesterday"):
        return "since"
    guess = closest_name(word, [*_STATUSES, *agents])
    hint = f'did you mean "{guess}"?' if guess else "filters look like agent:refunds by:@ada since:7d."
    raise UnclearQuery(f'"{word[:40]}" is not understood; {hint}', guess)


def _value(key: str, value: str, agents: Sequence[str], now: datetime) -> str:
    match key:
        case "user" | "requester" | "decider":
            if value.lower() in ("me", "mine"):
                return ME
            found = _PERSON.match(value)
            if found is None:
                raise UnclearQuery(
                    f'"{value[:40]}" is not a person; please choose one from the list after @.'
                )
            return found[1]
        case "status":
            return _status(value.lower())
        case "since":
            return _time(value.lower(), now, timedelta()).isoformat()
        case "until":
            return _time(value.lower(), now, timedelta(days=1)).isoformat()
        case "id":
            if parse_id_prefix(value) is None:
                raise UnclearQuery(f'"{value[:40]}" is not the beginning of an id.')
            return value
        case _:
            return _agent(value, agents)


def _status(value: str) -> str:
    known = _STATUSES.get(_ALSO.get(value, value))
    if known is None:
        if value == RequestStatus.WAITING.value:
            raise UnclearQuery(NOT_HISTORY)
        guess = closest_name(value, _STATUSES)
        hint = f'did you mean "{guess}"?' if guess else f"the statuses are {', '.join(_STATUSES)}."
        raise UnclearQuery(f'There is no status "{value[:40]}"; {hint}', guess)
    return known.value


def _agent(value: str, agents: Sequence[str]) -> str:
    """Former agents have a history, too, so an unknown name is questioned only if it looks misspelt."""
    guess = closest_name(value, agents)
    if value not in agents and guess is not None:
        raise UnclearQuery(f'There is no agent "{value[:60]}"; did you mean "{guess}"?', guess)
    return value[:200]


def _is_date(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _time(value: str, now: datetime, of_day: timedelta) -> datetime:
    """``of_day``: how far into a day its date, or its name, means."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if value == "today":
        return today + of_day
    if value == "yesterday":
        return today - timedelta(days=1) + of_day
    if ago := _AGO.match(value):
        return now - timedelta(days=min(int(ago[1]) * _UNITS[ago[2]], MAX_DAYS))
    try:
        at = datetime.fromisoformat(value.upper())
        if len(value) <= len("2026-11-01"):
            at += of_day
    except (ValueError, OverflowError):
        raise UnclearQuery(
            f'"{value[:40]}" is not a time; use 7d, 24h, 2w, yesterday or 2026-11-01.'
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
