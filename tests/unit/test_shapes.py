"""What travels as JSON: times in one form, and a request without its secrets."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from pydantic import TypeAdapter, ValidationError

from slackbot.web.api.approve import DecideIn
from slackbot.web.api.shapes import Moment, ReviewOut, page, rfc3339

MOMENT: TypeAdapter[datetime] = TypeAdapter(Moment)


def test_times_are_written_in_utc() -> None:
    """A time with any offset is written as RFC 3339 in UTC, with a Z."""
    at = datetime(2026, 11, 21, 13, 20, 33, tzinfo=timezone(timedelta(hours=2)))
    assert rfc3339(at) == "2026-11-21T11:20:33Z"
    assert (
        MOMENT.dump_json(MOMENT.validate_python("2026-11-21T13:20:33.5+02:00"))
        == b'"2026-11-21T11:20:33.500000Z"'
    )


def test_an_answer_names_the_field_with_its_schema() -> None:
    """The description of `answer` names the field in which a question has its schema."""
    described = DecideIn.model_fields["answer"].description or ""
    assert re.findall(r"`(\w+)`", described) == ["answer_schema"]
    assert "answer_schema" in ReviewOut.model_fields


@pytest.mark.parametrize(
    "given",
    [
        "2026-11-21T11:20:33",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "",
        "0.5",
        "2026-11-21",
    ],
)
def test_times_that_name_no_moment_are_refused(given: str) -> None:
    """A time without an offset, or outside of the calendar, is an error of the caller."""
    with pytest.raises(ValidationError):
        MOMENT.validate_python(given)


def test_a_page_says_where_the_next_one_begins() -> None:
    """`next` is there exactly when there may be more, and times are written in one way."""
    assert page(["a"], UUID(int=1)).next == UUID(int=1).hex
    assert page([], None).next is None
    assert rfc3339(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00Z"
