"""A place in a list, as it travels in a button."""

from __future__ import annotations

from uuid import UUID

import pytest

from slackbot.cards import page_value
from slackbot.cards.cursor import LONGEST, Cursor

IDS = [UUID(int=number) for number in range(1, 60)]


def walked(count: int) -> Cursor:
    cursor = Cursor()
    for step in IDS[:count]:
        cursor = cursor.forward(step)
    return cursor


def test_back_undoes_forward() -> None:
    """Every page knows the one before it, and the first has none."""
    assert Cursor().back is None
    assert walked(3).back == walked(2)
    assert walked(3).after == IDS[2]


@pytest.mark.parametrize("count", [0, 1, LONGEST, 50])
def test_it_survives_its_button(count: int) -> None:
    """What is written is read back, and two of them always fit a button's value."""
    cursor = walked(count)
    assert Cursor.read(str(cursor)) == cursor
    assert len(page_value("home", waiting=cursor, mine=cursor)) <= 2000


def test_far_into_a_list_back_still_leads_somewhere() -> None:
    """Beyond what is remembered, Back ends at the first page."""
    cursor: Cursor | None = walked(50)
    for _ in range(LONGEST):
        assert cursor is not None
        cursor = cursor.back
    assert cursor == Cursor()


@pytest.mark.parametrize("text", [None, "", "x", "0" * 31, f"{'0' * 32}.", "'; DROP", "0" * 64])
def test_what_we_never_wrote_is_the_first_page(text: str | None) -> None:
    """A button's value is a claim."""
    assert Cursor.read(text) == Cursor()
