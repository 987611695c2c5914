"""What operators read once a week."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from agent.domain.observation import ObservedCount
from agent.domain.reports import Decisions, Outcomes, Report, Share
from agent.domain.week import PolicyUse, WorkNumbers, week_before, week_lines
from slackbot.cards import week_card

REPORT = Report(
    7,
    True,
    (0, 0, 2, 0, 0, 1),
    (0, 0, 0, 0, 3, 0),
    Outcomes({"approved": 30, "rejected": 6, "expired": 4}),
    ((date(2026, 11, 16), Outcomes()),),
    (),
    None,
    None,
    (),
    (),
    (),
    Share(5, 36),
    (),
    Decisions(12, 60.0),
    Decisions(24, 600.0),
)
USE = PolicyUse(
    200,
    (("never", 7), ("unmatched", 1)),
    ("a", "b", "c", "d", "e", "f", "g"),
    ("b", "c", "d", "e", "f", "g"),
    (ObservedCount("big", "v", judged=9, asks=2),),
)
WORK = WorkNumbers(attempts=120, doubtful=2, in_doubt=3, grants=5, ending=2)
NO_USE = PolicyUse(0, (), (), (), ())
NO_WORK = WorkNumbers(9, 0, 0, 3, 0)
NO_REPORT = replace(
    REPORT,
    waiting_by_age=(0,) * 6,
    outcomes=Outcomes({"approved": 2}),
    unread=Share(0, 2),
    together=Decisions(),
    alone=Decisions(2, 60.0),
)


def test_each_number_has_its_whole() -> None:
    """Each line counts a part of something, and long lists are counted."""
    assert {line.about: line.text for line in week_lines(REPORT, USE, WORK)} == {
        "waiting": "over 3 days: 1; 1 to 4 h: 2; 3 in all",
        "expired": "4 of 40 (10 %) requests that ended",
        "in_doubt": "2 of 120 (2 %) attempts that began; 3 calls wait to be settled",
        "unread": "5 of 36 (14 %) votes",
        "together": "12 of 36 (33 %) decisions",
        "grants": "2 of 5 (40 %) in force",
        "denied": "8 of 200 (4 %) evaluated actions (never: 7 and unmatched: 1)",
        "silent": "6 of 7 (86 %): b, c, d, e and 2 more",
        "observed": "big: would have asked 2 of 9 calls, of which 0 were asked anyway",
    }
    cut = {line.about: line.text for line in week_lines(replace(REPORT, cut=True), USE, WORK)}
    assert cut["expired"].endswith("that ended, the latest only")
    assert cut["unread"].endswith("votes on the latest requests")
    assert cut["together"].endswith("decisions, the latest only")
    many = replace(USE, observed=tuple(ObservedCount(f"c{n}", "v", judged=1) for n in range(25)))
    assert week_lines(NO_REPORT, many, NO_WORK)[-1].text.endswith("and 5 more")


def test_nothing_is_said_of_nothing() -> None:
    """What did not happen has no line, and a week of which there is nothing to say has none at all."""
    assert week_lines(NO_REPORT, NO_USE, NO_WORK) == []
    (line,) = week_lines(NO_REPORT, NO_USE, replace(NO_WORK, in_doubt=1))
    assert line.text == "1 call waits to be settled"


@pytest.mark.parametrize(
    ("inbox", "links"),
    [(None, 0), ("https://signoff.example/inbox", 9), ("http://127.0.0.1:8080/inbox", 0)],
)
def test_each_line_links_to_its_page(inbox: str | None, links: int) -> None:
    """Where there is an inbox page that cards link to, each line leads to what it counts, of the same days."""
    lines = [
        {"about": each.about, "title": each.title, "text": each.text}
        for each in week_lines(REPORT, USE, WORK)
    ]
    body: dict[str, Any] = {
        "since": "2026-11-16T00:00:00+00:00",
        "until": "2026-11-23T00:00:00+00:00",
        "lines": lines,
    }
    card = week_card(body, inbox=inbox)
    shown = str(card.blocks)
    assert "The week from 2026-11-16 to 2026-11-22" in shown
    assert shown.count("'type': 'link'") == shown.count("open the page") == links
    assert ("/reports?days=7&last=2026-11-22#policy" in shown) is (links > 0)
    assert "4 of 40 (10 %)" in card.text


def test_a_week_is_from_monday_to_monday() -> None:
    """On a Monday it is the week that has just ended."""
    monday = datetime(2026, 11, 23, tzinfo=UTC)
    for at in (monday, monday + timedelta(hours=9), monday + timedelta(days=6, hours=23)):
        assert week_before(at) == (monday - timedelta(days=7), monday)
