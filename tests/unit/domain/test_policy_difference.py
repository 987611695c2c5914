"""What a policy changes, in lines."""

from __future__ import annotations

import pytest

from agent.domain.policy_difference import MAX_LINES, difference

BASE = """
[defaults]
timeout = "1d"
approvers = ["U0ADA"]

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "process_refund"
when = "facts.price > 100.0"

[[checkpoint]]
checkpoint_id = "deletions"
action_pattern = "delete_*"

[[limit]]
name = "daily"
max = 10
"""
NAMED = """
[[checkpoint]]
checkpoint_id = "never"
action_pattern = "drop_*"
verdict = "deny"
"""


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (BASE, BASE + NAMED, ['added: checkpoint never (denies "drop_*")']),
        (BASE + NAMED, BASE, ['removed: checkpoint never (denies "drop_*")']),
        (BASE, BASE.replace('"1d"', '"2h"'), ['changed: [defaults]: timeout "1d" → "2h"']),
        (BASE, BASE.replace("max = 10", "max = 20"), ["changed: limit daily: max 10 → 20"]),
        (BASE, BASE.replace('timeout = "1d"\n', ""), ['changed: [defaults]: timeout "1d" → not set']),
        (
            BASE,
            BASE.replace('["U0ADA"]', '["U0BEA", "U0CAT"]'),
            ['changed: [defaults]: approvers added ["U0BEA", "U0CAT"], removed ["U0ADA"]'],
        ),
        (
            BASE,
            BASE.replace("> 100.0", "> 1000.0"),
            ['changed: checkpoint refunds: when "facts.price > 100.0" → "facts.price > 1000.0"'],
        ),
        (
            BASE,
            BASE.replace('"refunds"', '"refund"'),
            ["added: checkpoint refund", "removed: checkpoint refunds"],
        ),
        (BASE, f"# why\n{BASE}", ["only comments or layout"]),
        ("= broken", BASE, ["the earlier text cannot be compared"]),
        ('[[checkpoint]]\naction_pattern = "x"', BASE, ["the earlier text cannot be compared"]),
    ],
)
def test_each_change_is_a_line(before: str, after: str, lines: list[str]) -> None:
    """Tables by name, keys with before and after, lists by what came and went; layout is no change."""
    found = difference(before, after)
    assert len(found) == len(lines)
    assert all(line.startswith(start) for line, start in zip(found, lines, strict=True)), found


def test_the_order_of_checkpoints_is_told() -> None:
    """The first checkpoint that matches decides, so a move is a change."""
    head, first, second = BASE.partition("[[limit]]")[0].split("[[checkpoint]]")
    moved = "[[checkpoint]]".join([head, second, f"{first}\n"])
    assert difference(BASE.partition("[[limit]]")[0], moved) == [
        "changed: the order of checkpoints, from checkpoint deletions on"
    ]


def test_long_texts_show_where_they_differ_and_long_lists_are_counted() -> None:
    """A change at a long condition's end is visible, and no number of changes makes an unreadable message."""
    long = 'when = "' + "args.a > 1 && " * 40 + 'args.end > {}"'
    old, new = (BASE.replace('when = "facts.price > 100.0"', long.format(end)) for end in (1, 2))
    (line,) = difference(old, new)
    assert "args.end > 1" in line
    assert "args.end > 2" in line
    many = "".join(
        f'[[checkpoint]]\ncheckpoint_id = "c{n}"\naction_pattern = "x"\n' for n in range(MAX_LINES + 5)
    )
    lines = difference("", many)
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "and 5 more"


@pytest.mark.parametrize("length", [60, 120, 400])
@pytest.mark.parametrize("fill", range(0, 170, 7))
def test_a_long_word_is_shown_whole_or_not_at_all(fill: int, length: int) -> None:
    """Words may be secrets, and nobody recognises a part of one: wherever it stands, and wherever the texts differ."""
    word = "ab1" * (length // 3)
    old, new = (
        BASE.replace("facts.price > 100.0", f"{'x ' * fill}{word}{end} {'y ' * 90}") for end in ("Q", "R")
    )
    for line in difference(old, new):
        rest = line.replace(f"{word}Q", "").replace(f"{word}R", "")
        assert "ab1" not in rest, line
