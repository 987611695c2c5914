"""When schedules are due."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent.domain.cron import Cron

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("expression", "timezone", "following"),
    [
        ("0 9 * * 1", "UTC", ["Mon 23 09:00", "Mon 30 09:00"]),
        ("0 9 * * 1", "Europe/Berlin", ["Mon 23 08:00", "Mon 30 08:00"]),
        ("0 9 * * 0", "UTC", ["Sun 29 09:00"]),
        ("0 9 * * 7", "UTC", ["Sun 29 09:00"]),
        ("0 9 * * fri-sun", "UTC", ["Fri 27 09:00", "Sat 28 09:00", "Sun 29 09:00"]),
        ("0 9 * * 6-1", "UTC", ["Mon 23 09:00", "Sat 28 09:00"]),
        ("0 9 * * 1-5/2", "UTC", ["Mon 23 09:00", "Wed 25 09:00", "Fri 27 09:00"]),
        ("0 9 * * */3", "UTC", ["Wed 25 09:00", "Sat 28 09:00", "Sun 29 09:00"]),
        ("*/20 * * * *", "UTC", ["Mon 23 00:20", "Mon 23 00:40", "Mon 23 01:00"]),
        ("0 0 24 * *", "UTC", ["Tue 24 00:00"]),
    ],
)
def test_days_count_as_cron_counts_them(expression: str, timezone: str, following: list[str]) -> None:
    """Monday is 1 and Sunday is 0 or 7, ranges may go round the week, and the zone's clock is meant."""
    cron, found, at = Cron(expression, timezone), [], MONDAY
    for _ in following:
        at = cron.after(at)
        found.append(f"{at:%a %d %H:%M}")
    assert found == following


@pytest.mark.parametrize(
    ("expression", "timezone", "says"),
    [
        ("0 9 * *", "UTC", "five fields"),
        ("0 9 1 * 1", "UTC", "days of the month or days of the week"),
        ("0 9 * * * *", "UTC", "five fields"),
        ("@daily", "UTC", "five fields"),
        ("0 9 31 2 *", "UTC", "never comes"),
        ("0 0 30 2 *", "Europe/Berlin", "never comes"),
        ("0 0 31 4,6,9,nov *", "UTC", "never comes"),
        ("61 * * * *", "UTC", '"61" is not a minute: write 0 to 59'),
        ("0 24 * * *", "UTC", '"24" is not an hour: write 0 to 23'),
        ("0 9 0 * *", "UTC", "not a day of the month"),
        ("0 9 L * *", "UTC", "not a day of the month"),
        ("0 9 LW * *", "UTC", "not a day of the month"),
        ("0 9 15W * *", "UTC", "not a day of the month"),
        ("0 9 ? * 1", "UTC", "days of the month or days of the week"),
        ("0 9 * * 5L", "UTC", "not a day of the week"),
        ("0 9 * * fri#2", "UTC", "not a day of the week"),
        ("0 9 * * monday", "UTC", "not a day of the week"),
        ("0 9 * 13 *", "UTC", "not a month"),
        ("0 9 * mon *", "UTC", "not a month"),
        ("0 22-2 * * *", "UTC", "goes backwards; write 22-23,0-2"),
        ("*/0 * * * *", "UTC", "leads nowhere"),
        ("*/90 * * * *", "UTC", "leads nowhere"),
        ("0 9 * * 1/2", "UTC", "where the days end"),
        ("1,,2 * * * *", "UTC", "not a minute"),
        ("-5 * * * *", "UTC", "not a minute"),
        ("1-2-3 * * * *", "UTC", "not a minute"),
        ("٣ * * * *", "UTC", "not a minute"),
        ("1" * 5000 + " * * * *", "UTC", "not a minute"),
        ("*/" + "1" * 5000 + " * * * *", "UTC", "leads nowhere"),
        ("*/0020000 * * * *", "UTC", "leads nowhere"),
        ("", "UTC", "five fields"),
        ("0 9 * * 8", "UTC", "not a day of the week"),
        ("0 9 * * 1-", "UTC", "not a day of the week"),
        ("* * * * *", "Mars/Base", "no time zone"),
    ],
)
def test_what_is_no_schedule_is_refused(expression: str, timezone: str, says: str) -> None:
    """In words of a person who wrote it."""
    with pytest.raises(ValueError, match=says):
        Cron(expression, timezone)


def test_only_the_latest_time_within_the_grace_is_made_up_for() -> None:
    """After a long silence one start makes up for all of them; beyond the grace time none does."""
    daily, often = Cron("0 9 * * *", "UTC"), Cron("* * * * *", "UTC")
    due = MONDAY + 9 * HOUR
    assert daily.latest(due, due + HOUR / 2, HOUR) == due
    assert daily.latest(due, due + 2 * HOUR, HOUR) is None
    assert daily.latest(due, due + timedelta(days=1, minutes=5), HOUR) == due + timedelta(days=1)
    assert often.latest(due, due + timedelta(days=400, seconds=30), HOUR) == due + timedelta(days=400)


def test_a_night_without_that_hour_and_one_with_two_of_it() -> None:
    """A skipped time comes at the first minute after the gap, a repeated one once; an hourly one comes each hour."""
    nightly, hourly = Cron("30 2 * * *", "Europe/Berlin"), Cron("30 * * * *", "Europe/Berlin")
    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert nightly.after(spring) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    first = nightly.after(autumn)
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert nightly.after(first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
    assert hourly.after(first) == first + HOUR


@pytest.mark.parametrize(
    ("expression", "timezone", "since", "following"),
    [
        ("0 0 * * *", "America/New_York", "2027-03-13T12Z", ["03-14 00:00", "03-15 00:00"]),
        ("0 0 * * 0", "America/New_York", "2027-03-13T12Z", ["03-14 00:00", "03-21 00:00"]),
        ("30 0 28 * *", "Europe/Berlin", "2027-03-01T00Z", ["03-28 00:30", "04-28 00:30"]),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T12Z", ["04-24 01:00", "04-25 00:00"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12Z", ["10-04 02:30", "10-05 02:15"]),
        ("0 2 * * *", "Antarctica/Troll", "2026-03-28T12Z", ["03-29 03:00", "03-30 02:00"]),
        ("0 9 * * 5", "Pacific/Apia", "2011-12-29T12Z", ["12-31 00:00", "01-06 09:00"]),
        ("0 */2 * * *", "Europe/Berlin", "2026-03-28T23Z", ["03-29 03:00", "03-29 04:00"]),
    ],
)
def test_no_time_is_lost_around_a_change(
    expression: str, timezone: str, since: str, following: list[str]
) -> None:
    """The days around a change of the clocks have their runs, whichever hour, half hour or whole day it skips."""
    zone, at, found = ZoneInfo(timezone), datetime.fromisoformat(since), []
    for _ in following:
        at = Cron(expression, timezone).after(at)
        found.append(at.astimezone(zone).strftime("%m-%d %H:%M"))
    assert found == following


# --- a reference that looks at each minute --------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A change of a zone's clock: at this moment it shows `new` instead of `old`."""

    zone: str
    at: datetime
    old: datetime
    new: datetime


Minute = tuple[datetime, datetime, bool, list[datetime]]
"""A moment, what the clock shows, whether it shows that again, and what it skipped just before."""


@cache
def changes() -> list[Change]:
    """One of each kind (when by the clock, how far), over all zones, since 1973 (until then, some had odd seconds)."""
    kinds: dict[tuple[object, ...], Change] = {}
    week = timedelta(weeks=1)
    for name in sorted(available_timezones()):
        zone, at = ZoneInfo(name), datetime(1973, 1, 1, tzinfo=UTC)
        while at.year < 2038:
            if at.astimezone(zone).utcoffset() != (at + week).astimezone(zone).utcoffset():
                found = _change(name, at, at + week)
                kinds.setdefault((found.old.time(), found.new - found.old), found)
            at += week
    return list(kinds.values())


def _change(name: str, before: datetime, after: datetime) -> Change:
    zone = ZoneInfo(name)
    old = before.astimezone(zone).utcoffset()
    while after - before > timedelta(minutes=1):
        middle = before + (after - before) // 2
        middle = middle.replace(second=0, microsecond=0)
        if middle.astimezone(zone).utcoffset() == old:
            before = middle
        else:
            after = middle
    shown = [(each.astimezone(zone).replace(tzinfo=None, fold=0)) for each in (before, after)]
    return Change(name, after, shown[0] + timedelta(minutes=1), shown[1])


@lru_cache(maxsize=4)
def minutes(change: Change) -> list[Minute]:
    """From some hours before the change until the end of the next day."""
    zone, minute = ZoneInfo(change.zone), timedelta(minutes=1)
    found: list[Minute] = []
    seen: set[datetime] = set()
    at = change.at - timedelta(hours=13)
    following = at.astimezone(zone).replace(tzinfo=None, fold=0)
    while at < change.at + timedelta(hours=37):
        shown = at.astimezone(zone).replace(tzinfo=None, fold=0)
        skipped = []
        while following < shown:
            skipped.append(following)
            following += minute
        found.append((at, shown, shown in seen, skipped))
        seen.add(shown)
        at, following = at + minute, shown + minute
    return found


def expected(change: Change, fields: Sequence[Container[int]], every_hour: bool) -> list[datetime]:
    minute, hour, day, month, weekday = fields

    def matches(shown: datetime) -> bool:
        return (
            shown.minute in minute
            and shown.hour in hour
            and shown.day in day
            and shown.month in month
            and shown.isoweekday() % 7 in weekday
        )

    return [
        at
        for at, shown, again, skipped in minutes(change)
        if (matches(shown) and (every_hour or not again)) or any(map(matches, skipped))
    ]


def found(change: Change, expression: str) -> list[datetime]:
    cron, (first, *_, last) = Cron(expression, change.zone), [at for at, *_ in minutes(change)]
    times, at = [], cron.after(first - timedelta(seconds=1))
    while at <= last:
        times.append(at)
        at = cron.after(at)
    return times


ALL = (range(60), range(24), range(1, 32), range(1, 13), range(7))


def ways(change: Change) -> dict[str, Sequence[Container[int]]]:
    """Schedules near the change, on its date and on others."""
    _, _, days, months, weekdays = ALL
    shown = change.old
    minute, hour, day, month, weekday = (
        shown.minute,
        shown.hour,
        shown.day,
        shown.month,
        shown.isoweekday() % 7,
    )
    before, later = (hour - 1) % 24, (hour + 1) % 24
    return {
        "*/7 * * * *": (range(0, 60, 7), *ALL[1:]),
        "30 * * * *": ([30], *ALL[1:]),
        "0 */2 * * *": ([0], range(0, 24, 2), *ALL[2:]),
        "15 */12 * * *": ([15], (0, 12), *ALL[2:]),
        "0 0 * * *": ([0], [0], *ALL[2:]),
        "0,30 0-4 * * *": ((0, 30), range(5), *ALL[2:]),
        f"* {hour} * * *": (ALL[0], [hour], *ALL[2:]),
        f"{minute} {hour} * * *": ([minute], [hour], *ALL[2:]),
        f"45 {before} * * *": ([45], [before], *ALL[2:]),
        f"15 {later} * * *": ([15], [later], *ALL[2:]),
        f"15,45 {hour},{before} * * *": ((15, 45), (hour, before), *ALL[2:]),
        f"15 {hour} {day} * *": ([15], [hour], [day], months, weekdays),
        f"0 0 {day} {month} *": ([0], [0], [day], [month], weekdays),
        f"15 0 * * {weekday}": ([15], [0], days, months, [weekday]),
        f"59 23 * {month} {weekday}": ([59], [23], days, [month], [weekday]),
        f"30 1 * * {weekday}-{(weekday + 1) % 7}": ([30], [1], days, months, (weekday, (weekday + 1) % 7)),
        f"0 9 * * {(weekday - 1) % 7}": ([0], [9], days, months, [(weekday - 1) % 7]),
    }


def test_every_change_of_every_zone_is_as_a_look_at_each_minute_finds() -> None:
    """Around each kind of change in any zone, a schedule comes at exactly the minutes that the rules name."""
    assert {round((each.new - each.old) / HOUR, 1) for each in changes()} >= {-2, -1, -0.5, 0.5, 1, 2, 24}
    for change in changes():
        for expression, fields in ways(change).items():
            every_hour = expression.split()[1].startswith("*")
            assert found(change, expression) == expected(change, fields, every_hour), (change, expression)


WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@st.composite
def parts(draw: st.DrawFn, first: int, last: int, words: Sequence[str] = ()) -> tuple[str, set[int]]:
    """One field, as text and as the numbers that it means."""

    def written(number: int) -> str:
        names = [str(number), f"{number:02}"]
        if (words and number != len(words) == 7) or len(words) == 12:  # "0-Sun" is one day, "0-7" the week
            names += [words[number % 7 if len(words) == 7 else number - 1].title()]
        return draw(st.sampled_from(names))

    begin, end = draw(st.tuples(st.integers(first, last), st.integers(first, last)))
    wraps = len(words) == 7
    if end < begin and not wraps:
        begin, end = end, begin
    numbers = range(begin, end + 1) if begin <= end else range(begin, end + 8)
    step = draw(st.integers(1, len(numbers)))
    match draw(st.sampled_from(("all", "steps", "one", "range", "range in steps", "from"))):
        case "all":
            return "*", set(range(first, last + 1))
        case "steps":
            step = min(step, last - first + (not wraps))
            return f"*/{step}", set(range(first, last + (not wraps), step))
        case "one":
            return written(begin), {begin}
        case "range":
            return f"{written(begin)}-{written(end)}", set(numbers)
        case "from" if not wraps:
            rest = range(begin, last + 1)
            step = min(step, len(rest))
            return f"{begin}/{step}", set(rest[::step])
        case _:
            return f"{written(begin)}-{written(end)}/{step}", set(numbers[::step])


@st.composite
def fields_of(draw: st.DrawFn, first: int, last: int, words: Sequence[str] = ()) -> tuple[str, set[int]]:
    several = draw(st.lists(parts(first, last, words), min_size=1, max_size=3))
    return ",".join(text for text, _ in several), {each for _, numbers in several for each in numbers}


MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
HOURS, DAYS, MONTHS_OF_YEAR = fields_of(0, 23), fields_of(1, 31), fields_of(1, 12, MONTHS)
ANY_DAY = st.just(("*", set(range(1, 32))))


@given(
    st.data(),
    st.tuples(fields_of(0, 59), HOURS, MONTHS_OF_YEAR),
    st.one_of(st.tuples(DAYS, ANY_DAY), st.tuples(ANY_DAY, fields_of(0, 7, WEEKDAYS))),
)
@settings(deadline=None, max_examples=60)
def test_any_expression_is_as_a_look_at_each_minute_finds(
    data: st.DataObject, times: Any, dates: Any
) -> None:
    """Lists, ranges (also round the week), steps and names mean what cron says, around a change of the clocks too."""
    change = data.draw(st.sampled_from(changes()))
    (minute, hour, month), (day, weekday) = times, dates
    assume(any(number <= monthrange(2000, each)[1] for each in month[1] for number in day[1]))
    expression = " ".join(text for text, _ in (minute, hour, day, month, weekday))
    meant = [numbers for _, numbers in (minute, hour, day, month)] + [{each % 7 for each in weekday[1]}]
    assert found(change, expression) == expected(change, meant, every_hour=hour[0].startswith("*"))
