"""Cron expressions in a time zone, computed by APScheduler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = ("minute", "hour", "day", "month", "day_of_week")
_RANGE = re.compile(r"(\w+)(?:-(\w+))?(?:/(\d+))?\Z", re.ASCII)


@dataclass(frozen=True)
class Cron:
    """Five fields and a time zone. Raises ValueError."""

    expression: str
    timezone: str

    def __post_init__(self) -> None:
        if self.after(datetime(2000, 1, 1, tzinfo=UTC)) is None:
            raise ValueError(f'"{self.expression}" never comes')

    @cached_property
    def _trigger(self) -> CronTrigger:
        fields = self.expression.split()
        if len(fields) != len(_FIELDS):
            raise ValueError(
                'a schedule has five fields, as in "0 9 * * 1": minute, hour, day, month, day of the week'
            )
        if fields[2] != "*" and fields[4] != "*":
            raise ValueError("name days of the month or days of the week, and * for the other ones")
        try:
            zone = ZoneInfo(self.timezone)
        except (ValueError, KeyError, OSError):
            raise ValueError(
                f'there is no time zone "{self.timezone}"; write it as in Europe/Berlin'
            ) from None
        fields[4] = _days_of_week(fields[4])
        return CronTrigger(timezone=zone, **dict(zip(_FIELDS, fields, strict=True)))

    def after(self, moment: datetime) -> datetime | None:
        """An hour repeated by a clock change counts once, unless the schedule is hourly."""
        found = self._following(moment)
        while found is not None and found.fold and not self.expression.split()[1].startswith("*"):
            found = self._following(found)
        return found.astimezone(UTC) if found else None

    def _following(self, moment: datetime) -> datetime | None:
        behind = moment.astimezone(UTC) + timedelta(
            microseconds=1
        )  # on the zone's own clock, `fold` would be lost
        found: datetime | None = self._trigger.get_next_fire_time(None, behind)
        return found

    def latest(self, first: datetime, now: datetime, grace: timedelta) -> datetime | None:
        at: datetime | None = first
        if first < now - grace:
            at = self.after(now - grace - timedelta(microseconds=1))
        latest = None
        while at is not None and at <= now:
            latest, at = at, self.after(at)
        return latest


def _days_of_week(field: str) -> str:
    """Cron's 1 is Monday (0 and 7 Sunday); APScheduler's 0 is Monday."""
    if field == "*" or field.startswith("*/"):
        return field if field == "*" else ",".join(_DAYS[:: int(field[2:] or 0)])
    return ",".join(dict.fromkeys(day for part in field.lower().split(",") for day in _days_in(part)))


def _days_in(part: str) -> Iterator[str]:
    match = _RANGE.match(part)
    if match is None:
        raise ValueError(f'"{part}" is not a day of the week: write 0 to 7, or sun to sat')
    first, last = _day(match[1]), _day(match[2] or match[1])
    if match[2] and last <= first:
        last += len(_DAYS)
    for number in range(first, last + 1, int(match[3] or 1)):
        yield _DAYS[number % len(_DAYS)]


def _day(word: str) -> int:
    if word in _DAYS:
        return _DAYS.index(word)
    if word in tuple("01234567"):
        return int(word)
    raise ValueError(f'"{word}" is not a day of the week: write 0 to 7, or sun to sat')
