"""Short ids: what they look like, and what they and beginnings of ids may mean."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from agent.domain.short_ids import parse_id_prefix, short_id

ONE = UUID("01a1fe02-bca4-717f-b0f4-4fa276d60b19")
NEXT = UUID("01a1fe02-bca4-717f-b0f4-4fa3a40c6f51")
"""Two ids as they are made one after the other in a millisecond: their first 24 digits are the same."""


def means(typed: str, whole: UUID) -> bool:
    wanted = parse_id_prefix(typed)
    return (
        wanted is not None
        and wanted.first <= whole <= wanted.last
        and bool(re.search(wanted.pattern, whole.hex))
    )


def test_neighbours_differ_in_their_short_form() -> None:
    """Sixteen characters distinguish two ids of one millisecond and process; a beginning of that length does not."""
    assert (short_id(ONE), short_id(NEXT)) == ("01a1fe02bca40b19", "01a1fe02bca46f51")
    assert means(short_id(ONE), ONE)
    assert not means(short_id(ONE), NEXT)


@pytest.mark.parametrize(
    "typed", ["0", "01a1fe02", "01a1fe02-bca4", "01A1FE02BCA4717F", str(ONE), ONE.hex, f" {ONE} "]
)
def test_a_beginning_and_a_whole_id_still_mean_it(typed: str) -> None:
    """However much of it, with dashes or without, in small letters or capitals."""
    assert means(typed, ONE)


@pytest.mark.parametrize("typed", ["", " ", "-", "zzz", "01a1fe0g", f"{ONE.hex}0", ".*", "0|1"])
def test_anything_else_means_nothing(typed: str) -> None:
    """Nothing that was typed gets into the pattern but hexadecimal digits."""
    assert parse_id_prefix(typed) is None
