"""When schedules are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agent.usecases.cron import Cron

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
        later = cron.after(at)
        assert later is not None
        at = later
        found.append(f"{at:%a %d %H:%M}")
    assert found == following


@pytest.mark.parametrize(
    ("expression", "timezone", "says"),
    [
        ("0 9 * *", "UTC", "five fields"),
        ("0 9 1 * 1", "UTC", "days of the month or days of the week"),
        ("0 9 31 2 *", "UTC", "never comes"),
        ("61 * * * *", "UTC", "61"),
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
    """When the clocks go forward it comes behind the gap, when they go back once; an hourly one comes each hour."""
    nightly, hourly = Cron("30 2 * * *", "Europe/Berlin"), Cron("30 * * * *", "Europe/Berlin")
    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert nightly.after(spring) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    first = nightly.after(autumn)
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert nightly.after(first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
    assert hourly.after(first) == first + HOUR
