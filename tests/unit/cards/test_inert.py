"""Text from others: readable, countable, and unable to do anything."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff import visible_text
from signoff.visible_text import hidden_positions, one_line, visible
from slackbot.cards import inert, json_text

ANYTHING = st.text(st.characters(), max_size=200)
PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))
SPACED = st.lists(PRINTABLE | st.integers(1, 40).map(" ".__mul__), max_size=4).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bell\x07", "bell␇"),
        ("nul\x00", "nul␀"),
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("a" + "\u200b" * 40 + "b", "a⟦U+200B ×40⟧b"),
        ("x" + "".join(chr(0xE0000 + ord(c)) for c in "hidden"), "x⟦tag character ×6⟧"),
        ("\u3164", "⟦U+3164⟧"),
        ("a\ufe01", "a⟦U+FE01⟧"),
        ("a\ufe0f", "a⟦U+FE0F⟧"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f⟦U+FE0F⟧"),
        ("e" + "\u0301" * 10, "e" + "\u0301" * 3 + "⟦combining mark ×7⟧"),
        ("\ud800", "⟦U+D800⟧"),
        ("a\u2028b", "a⟦U+2028⟧b"),
        ("a\u00a0b\tc\u3000d", "a b c d"),
        ("naïve שלום 日本 👍🏽", "naïve שלום 日本 👍🏽"),
    ],
)
def test_what_cannot_be_seen_is_marked(text: str, shown: str) -> None:
    """Hidden characters become signs with their number; living scripts and emoji stay."""
    assert visible(text) == shown


@given(ANYTHING)
def test_no_hidden_character_survives(text: str) -> None:
    """Making text visible leaves nothing invisible, and doing it again changes nothing."""
    once = visible(text)
    assert not {once[at] for at in hidden_positions(once)} - {"\n"}
    assert visible(once) == once


@given(SPACED)
def test_printable_ascii_takes_a_short_way_to_the_same_end(text: str) -> None:
    """The fast path for printable ASCII gives what the rules for all texts give."""
    string = json_text.string.__wrapped__  # what it has written once it would not write again
    drawn = visible(text), one_line(text), string(text)
    with (
        patch.object(visible_text, "is_plain", return_value=False),
        patch.object(json_text, "is_plain", return_value=False),
    ):
        assert drawn == (visible(text), one_line(text), string(text))


def test_newlines_cannot_push_facts_off() -> None:
    """Five hundred newlines are one sign in a line, and one blank line in a quotation."""
    text = "top" + " \n" * 500 + "bottom"
    assert inert.line(text, 100) == "top ⏎ bottom"
    assert inert.paragraph(text, 100, 5) == "top\n\nbottom"


def test_spaces_cannot_push_facts_off() -> None:
    """A run of spaces is one space."""
    assert inert.line("a" + " " * 5000 + "b", 100) == "a b"


@given(ANYTHING, st.integers(40, 120))
def test_cut_text_says_how_much_is_missing(text: str, limit: int) -> None:
    """A cut line stays within its limit as Slack counts, and shown plus missing is all there was."""
    whole, short = inert.line(text, 10**6), inert.line(text, limit)
    assert inert.weight(short) <= limit
    if short != whole:
        shown, _, count = short.removesuffix(" more characters").rpartition("… ")
        assert whole.startswith(shown)
        assert len(shown) + int(count.replace(",", "")) == len(whole)


@given(ANYTHING, st.integers(40, 300), st.integers(1, 5))
def test_cut_paragraph_says_how_much_is_missing(text: str, limit: int, max_lines: int) -> None:
    """The same for quotations, which are cut at a number of lines, too."""
    whole, short = inert.paragraph(text, 10**6, 10**6), inert.paragraph(text, limit, max_lines)
    assert inert.weight(short) <= limit
    assert short.count("\n") < max_lines
    if short != whole:
        shown, _, count = short.removesuffix(" more characters").rpartition("… ")
        assert whole.startswith(shown)
        assert len(shown) + int(count.replace(",", "")) == len(whole)


def test_entities_are_counted_and_never_cut() -> None:
    """Escaping happens before cutting: a limit counts `&lt;` as four, and none is left in halves."""
    for limit in range(40, 80):
        shown = inert.mrkdwn("<&>" * 100, limit)
        assert len(shown) <= limit
        assert not shown.replace("&lt;", "").replace("&gt;", "").replace("&amp;", "").count("&")


@given(ANYTHING)
def test_mrkdwn_is_dead(referee: Any, text: str) -> None:
    """No text comes alive in a place that Slack reads as mrkdwn."""
    referee.mrkdwn(inert.mrkdwn(text, 500), frozenset())


def test_no_cut_brings_mrkdwn_to_life(referee: Any) -> None:
    """A text that ends in the middle of a word is as dead as the whole."""
    for limit in range(40, 80):
        referee.mrkdwn(inert.mrkdwn("_it_was_www.example.com:so:d_" * 100, limit), frozenset())


def test_our_own_signs_cannot_be_borrowed() -> None:
    """A line from somebody else cannot begin with the sign that our status lines begin with."""
    assert inert.line("✅ Approved by the boss", 100) == "⟦U+2705⟧ Approved by the boss"
    assert inert.line("⚠\ufe0f x", 100) == "⟦U+26A0⟧ x"


@pytest.mark.parametrize("sign", "✅☑✔✓❎❌✖✗✘☒🗹🗸🗙⨯⊗√🮱⛔🚫🛑⏳⌛⚠▶↩🟢🔴🟡🟠🟩🟥🚦🆗🆇Ⓧ")
def test_what_looks_like_a_verdict_is_no_sign(sign: str) -> None:
    """Ticks, crosses and traffic lights in foreign text are shown as their numbers."""
    assert inert.line(f"{sign} Approved", 100) == f"⟦U+{ord(sign):04X}⟧ Approved"


def test_other_symbols_stay() -> None:
    """Emoji, arrows, flags and mathematics are readable as they are."""
    text = "3 × 4 → ≤ 12 ★ 🎉 👍 🇲🇽 日本語"
    assert inert.line(text, 100) == text


def test_weight_is_slacks_length() -> None:
    """`&`, `<` and `>` count as entities, characters beyond the first plane as two."""
    assert [inert.weight(text) for text in ("a", "&", "<>", "👍", "é")] == [1, 5, 8, 2, 1]
