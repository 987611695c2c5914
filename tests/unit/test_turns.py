"""Whose message goes next in a channel."""

from __future__ import annotations

from slackbot.delivery.turns import HALF_LIFE, MAX_SENDERS, Turns


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_senders_of_equal_messages_take_turns() -> None:
    """The sender that was served longest ago goes first, and a new one before all."""
    turns = Turns(Clock())
    for turn in ("a", "b", "c", "a"):
        turns.charge(turn, 1.0)
    assert turns.least_first == ["b", "c", "a"]
    turns.charge("b", 1.0)
    assert turns.least_first == ["c", "a", "b"]


def test_who_sends_little_goes_before_all_whose_messages_take_long() -> None:
    """Each of ten floods has had one large card: another sender may have its second small one before them."""
    turns = Turns(Clock())
    turns.charge("honest", 0.35)
    for flood in range(10):
        turns.charge(f"flood{flood}", 1.75)
    assert turns.least_first[0] == "honest"


def test_what_was_used_long_ago_counts_less() -> None:
    """After a while a sender who had much is equal to one who has had little just now."""
    clock = Clock()
    turns = Turns(clock)
    turns.charge("flood", 7.0)
    clock.now = 3 * HALF_LIFE
    turns.charge("honest", 1.0)
    assert turns.least_first == ["flood", "honest"]


def test_few_senders_are_remembered() -> None:
    """Those who have used the most."""
    turns = Turns(Clock())
    for number in range(3 * MAX_SENDERS):
        turns.charge(f"agent{number}", 1.0 + number % 7)
    assert len(turns.least_first) == MAX_SENDERS
    assert "agent6" in turns.least_first
