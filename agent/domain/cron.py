"""Cron expressions in a time zone. cronsim finds the matching times of a clock that never changes; the rest is here."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)
_PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?\Z", re.ASCII)


@dataclass(frozen=True)
class Cron:
    """Five fields and a time zone.

    A time that the zone's clock skips comes at the first minute after the gap. One that the clock repeats comes once,
    or both times if the hours begin with `*`. Raises ValueError.
    """

    expression: str
    timezone: str

    def __post_init__(self) -> None:
        if self._zone is None:
            raise ValueError(f'there is no time zone "{self.timezone}"; write it as in Europe/Berlin')
        try:
            self.after(datetime(2000, 1, 1, tzinfo=UTC))
        except CronSimError:  # all that is left to refuse
            raise ValueError(f'"{self.expression}" never comes: no such month has that day') from None

    @cached_property
    def _zone(self) -> ZoneInfo | None:
        try:
            return ZoneInfo(self.timezone)
        except (ValueError, KeyError, OSError):
            return None

    @cached_property
    def _fields(self) -> tuple[str, ...]:
        """In cronsim's terms, which know fewer weekdays and more of everything else."""
        given = self.expression.split()
        if len(given) != len(_FIELDS):
            raise ValueError(
                'a schedule has five fields, as in "0 9 * * 1": minute, hour, day, month, day of the week'
            )
        if given[2] != "*" and given[4] != "*":
            raise ValueError("name days of the month or days of the week, and * for the other ones")
        return tuple(field.read(text) for field, text in zip(_FIELDS, given, strict=True))

    def after(self, moment: datetime) -> datetime:
        clock = moment.astimezone(self._zone)
        # If the clock is about to go back, it will show times again that it has shown before `moment`.
        back = _offset(clock) - _offset((moment + _DAY).astimezone(self._zone))
        begin = clock.replace(tzinfo=None, fold=0) - max(back, timedelta())
        later: list[datetime] = []
        for shown in CronSim(" ".join(self._fields), begin):
            moments = self._moments(shown)
            later += [each for each in moments if each > moment]
            if moments[0] > moment:  # as are the first moments of all times after this one
                break
        return min(later)

    def _moments(self, shown: datetime) -> list[datetime]:
        """When this time comes, on a clock that may skip or repeat it."""
        first, second = (shown.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first < second:
            return [first, second] if self.expression.split()[1].startswith("*") else [first]
        if first == second:
            return [first]
        # Skipped: read with the offset of after the gap, it lies before the gap, and the other way round.
        new = _offset(shown.replace(tzinfo=self._zone, fold=1))
        minutes = range(-((second - first) // _MINUTE))
        behind = bisect_left(
            minutes, True, key=lambda n: _offset((second + n * _MINUTE).astimezone(self._zone)) == new
        )
        return [second + behind * _MINUTE]

    def latest(self, first: datetime, now: datetime, grace: timedelta) -> datetime | None:
        at = first
        if first < now - grace:
            at = self.after(now - grace - timedelta(microseconds=1))
        latest = None
        while at <= now:
            latest, at = at, self.after(at)
        return latest


@dataclass(frozen=True)
class _Field:
    name: str
    first: int
    last: int
    words: tuple[str, ...] = ()
    wraps: bool = False

    def read(self, text: str) -> str:
        if text == "*":
            return text
        numbers = {number for part in text.lower().split(",") for number in self._numbers(part)}
        return ",".join(map(str, sorted(numbers)))

    def _numbers(self, part: str) -> Iterator[int]:
        match = _PART.match(part)
        if match is None:
            raise self._wrong(part)
        first, last, step = match.groups()
        if first is None:
            begin, end = self.first, self.last
        else:
            begin = self._number(first)
            end = self._number(last) if last else begin
        if step and first and not last:
            if self.wraps:
                raise ValueError(f'"{part}": write where the days end, as in 1-5/2')
            end = self.last
        if end < begin and self.wraps:
            end += 7
        if end < begin:
            raise ValueError(f'"{part}" goes backwards; write {begin}-{self.last},{self.first}-{end}')
        if step and (len(step) > 2 or int(step) not in range(1, end - begin + 2)):
            raise ValueError(f'"{part}": a step of {step} leads nowhere between {begin} and {end}')
        return (n % 7 if self.wraps else n for n in range(begin, end + 1, int(step or 1)))

    def _number(self, word: str) -> int:
        if word in self.words:
            return self.words.index(word) + (0 if self.wraps else self.first)
        most = 7 if self.wraps else self.last
        if not word.isdecimal() or len(word) > 2 or not self.first <= int(word) <= most:
            raise self._wrong(word)
        return int(word)

    def _wrong(self, word: str) -> ValueError:
        words = f", or {self.words[0]} to {self.words[-1]}" if self.words else ""
        most = 7 if self.wraps else self.last
        return ValueError(f'"{word}" is not {self.name}: write {self.first} to {most}{words}')


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field("a minute", 0, 59),
    _Field("an hour", 0, 23),
    _Field("a day of the month", 1, 31),
    _Field("a month", 1, 12, _MONTHS),
    _Field("a day of the week", 0, 6, _DAYS, wraps=True),
)


def _offset(clock: datetime) -> timedelta:
    return clock.utcoffset() or timedelta()
