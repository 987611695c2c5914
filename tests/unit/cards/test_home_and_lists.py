"""App Home, lists that page, the digest of a flood, and lines about edits and time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from agent.domain.request import ApprovalState, RequestStatus
from agent.domain.request_list import Count, HistoryLine, RequestLine
from agent.domain.run import RunStatus
from signoff.values import Person, Risk
from slackbot import cards
from tests.rendered import rendered
from tests.unit.cards.conftest import RULE, make_run

AT = datetime(2027, 1, 30, 9, 0, tzinfo=UTC)
LINK = "https://team.slack.com/archives/C0REVIEW/p1"
GRACE = Person("T0TEAM", "U0GRACE")
LINE = RequestLine(
    UUID(int=1),
    "Refund order 7",
    "refunds",
    Risk.HIGH,
    RequestStatus.WAITING,
    GRACE,
    AT,
    AT,
    "C0REVIEW",
    "1.1",
    0,
    2,
)

DECIDED = HistoryLine(
    UUID(int=2), "Refund order 8", "refunds", Risk.LOW, RequestStatus.REJECTED, GRACE, AT, AT, "C0REVIEW", "1.1", 0, 1,
    GRACE, AT, "Wrong amount", ("C0REVIEW", "1.1"),
)  # fmt: skip
DECIDED_BY = "decided by @U0GRACE, tomorrow at 8:47 PM · “Wrong amount” ·"
RUN = make_run(thread_ts="1.1", created_at=AT, updated_at=AT)


def buttons(referee: Any, blocks: Any) -> list[tuple[str, str]]:
    """Every button as (action_id, value)."""
    return [
        (p["action_id"], p["value"])
        for _, p in referee.walk(blocks)
        if p.get("type") == "button" and "value" in p
    ]


def test_home_shows_all_four_parts(samples: Any, referee: Any) -> None:
    """What waits, with the card's buttons at this place, then my requests, running agents and what was decided."""
    view = cards.home(
        cards.HomeView(
            [samples.view()],
            [LINE],
            [RUN],
            [DECIDED],
            Count(12),
            cancellable=frozenset({RUN.id}),
            links={DECIDED.id: LINK},
        )
    )
    referee.judge_view(view)
    words = referee.words(view)
    order = [
        "Waiting for me (12)",
        "price: 1,499.00 EUR",
        "order_id: 7",
        "My requests",
        "Refund order 7",
        "Running agents",
    ]
    order += [
        "Refund it",
        "Recently decided",
        "Refund order 8",
        "❌ Rejected",
        "decided by U0GRACE",
        "“Wrong amount”",
    ]
    places = [words.index(each) for each in order]
    assert places == sorted(places)
    made = dict(buttons(referee, view["blocks"]))
    assert {
        "signoff:approve",
        "signoff:reject",
        "signoff:details",
        "signoff:open",
        "signoff:cancel_run",
    } <= set(made)
    assert made["signoff:approve"].startswith(samples.view().place_nonce)
    assert cards.parse_id(made["signoff:cancel_run"]) == RUN.id
    assert LINK in str(view)


def test_home_says_of_what_waits_its_title_and_one_line(samples: Any) -> None:
    """Risk, agent, requester, deadline and channel stand once, below the title, and no title says them again."""
    shown = rendered(cards.home(cards.HomeView([samples.view()]))["blocks"])
    assert shown[:5] == [
        "Waiting for me",
        "Refund 1,499.00 for order 7",
        "High risk · agent refunds · for @U0ADA · until tomorrow at",
        "8:47 PM · #C0REVIEW",
        "Facts, looked up by the tool",
    ]
    assert " ".join(shown).count("High risk") == 1


@pytest.mark.parametrize(("order", "shown"), [(7, False), ("x" * 500, True)])
def test_home_repeats_no_argument_of_a_title(samples: Any, referee: Any, order: Any, shown: bool) -> None:
    """As on a card: it stands among the arguments only where the title is cut."""
    rule = RULE.model_copy(update={"description_template": "Refund order {args.order_id}"})
    view = samples.view(arguments={"order_id": order}, description=f"Refund order {order}")
    made = cards.home(cards.HomeView([replace(view, rule=rule)]))
    referee.judge_view(made)
    assert ("order_id: " in referee.words(made)) is shown


def test_home_without_anything(referee: Any) -> None:
    """Each part of an empty Home says that it is empty."""
    view = cards.home(cards.HomeView())
    referee.judge_view(view)
    assert referee.words(view).count("Nothing at the moment.") == 4


def test_home_with_a_thousand_stays_below_its_limits(samples: Any, referee: Any) -> None:
    """However much waits, a hundred blocks are enough, and buttons lead on."""
    pages = cards.Pages(cards.page_value("home", page=1), cards.page_value("home", page=3))
    waiting = [samples.view(id=UUID(int=n)) for n in range(1000)]
    lines = [replace(LINE, id=UUID(int=n)) for n in range(1000)]
    decided = [replace(DECIDED, id=UUID(int=n)) for n in range(1000)]
    runs = [replace(RUN, id=UUID(int=n)) for n in range(1000)]
    view = cards.home(
        cards.HomeView(
            waiting, lines, runs, decided, Count(1000), pages, pages, frozenset(r.id for r in runs)
        )
    )
    referee.judge_view(view)
    assert [name for name, _ in buttons(referee, view["blocks"])].count("signoff:page") == 2


def test_lists_page_by_buttons(referee: Any) -> None:
    """Each row opens its request; below stand Back and Next as far as there is somewhere to go."""
    forward = cards.page_value("mine", after="x")
    card = cards.request_list(
        [replace(LINE, id=UUID(int=n)) for n in range(30)], pages=cards.Pages(forward=forward)
    )
    referee.judge(card)
    made = buttons(referee, card.blocks)
    assert [cards.parse_id(value) for name, value in made if name == "signoff:open"] == [
        UUID(int=n) for n in range(20)
    ]
    assert made[-1] == ("signoff:page", forward)
    assert cards.parse_page_value(forward) == ("mine", {"after": "x"})
    referee.judge_view(cards.list_modal("Waiting for review", [card]))


def test_history_links_to_the_thread(referee: Any) -> None:
    """Who decided what when and why, with the way to the thread where it is known."""
    card = cards.history_list([DECIDED, replace(DECIDED, id=UUID(int=9))], links={DECIDED.id: LINK})
    referee.judge(card)
    assert [part["url"] for _, part in referee.walk(card.blocks) if part.get("type") == "link"] == [LINK]
    assert rendered(card.blocks)[1:3] == ["Refund order 8  ❌ Rejected", DECIDED_BY]
    assert "No decided request" in referee.words(cards.history_list([]).blocks)


def test_only_ones_own_runs_have_a_cancel_button(referee: Any) -> None:
    """Ending a run is asked twice, and offered for the runs that the caller names."""
    other = replace(RUN, id=UUID(int=4))
    card = cards.run_list([RUN, other], cancellable=frozenset({RUN.id}))
    referee.judge(card)
    (button,) = [part for _, part in referee.walk(card.blocks) if part.get("type") == "button"]
    assert (button["action_id"], button["value"]) == ("signoff:cancel_run", str(RUN.id))
    assert "withdrawn" in button["confirm"]["text"]["text"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "▶ Working"),
        ({"in_doubt": 1}, "⚠ In doubt, see its card or thread"),
        ({"paused_by": "cli:root"}, "⏸ Paused"),
        ({"sleeping_until": AT}, "💤 Sleeping until "),
        ({"sleeping_until": AT, "paused_by": "cli:root"}, "⏸ Paused"),
        ({"waiting": 1, "paused_by": "cli:root"}, "⏳ Waiting for review"),
    ],
)
def test_a_list_of_runs_says_what_each_one_does(referee: Any, changes: dict[str, Any], words: str) -> None:
    """Lists show what keeps a run from its next step, as the run's first message does."""
    run = replace(RUN, **changes)
    for card in (cards.run_list([run]), cards.run_root(run)):
        referee.judge(card)
        assert words in referee.words(card.blocks)


@pytest.mark.parametrize(
    ("approval", "words"),
    [
        (None, "✅ Approved"),
        (ApprovalState.VOID, "Approval void"),
        (ApprovalState.NOT_RUN, "Approved, not run"),
        (ApprovalState.IN_DOUBT, "Approved, in doubt"),
        (ApprovalState.RETRYING, "Failed, will be retried"),
    ],
)
def test_a_history_says_what_became_of_an_approval(
    referee: Any, approval: ApprovalState | None, words: str
) -> None:
    """The reviewer is named as the one who decided, not as the one who ran it."""
    line = replace(DECIDED, status=RequestStatus.APPROVED, approval=approval)
    card = cards.history_list([line])
    referee.judge(card)
    assert rendered(card.blocks)[1:3] == [f"Refund order 8  {words}", DECIDED_BY]


def test_a_flood_is_one_card_with_a_list_behind_it(referee: Any) -> None:
    """How many, of which agent, for which tools, by when; the buttons are about the requests of that agent."""
    flood = cards.FloodDigest("refunds", 37, Risk.HIGH, {"process_refund": 30, "mail": 7}, AT, ("S0FINANCE",))
    card = cards.flood_digest_card(flood, delivery_id="d")
    referee.judge(card)
    words = referee.words(card.blocks)
    assert "37 requests from agent refunds wait for review" in words
    assert "30 × process_refund" in words
    assert card.text.startswith(
        "Up to high risk: 37 requests from agent refunds wait for review <!subteam^S0FINANCE>"
    )
    assert [(action, cards.parse_page_value(value)) for action, value in buttons(referee, card.blocks)] == [
        ("signoff:list", ("waiting", {"agent": "refunds", "folded": "yes"})),
        ("signoff:decide_together", ("together", {"agent": "refunds"})),
    ]
    of_key = cards.flood_digest_card(replace(flood, sender="key:ci"), delivery_id="d")
    assert "37 requests from the key ci wait for review" in referee.words(of_key.blocks)
    pages = [cards.parse_page_value(value) for _, value in buttons(referee, of_key.blocks)]
    assert pages == [("waiting", {"key": "ci", "folded": "yes"}), ("together", {"key": "ci"})]


def test_a_digest_that_has_served_leads_to_no_list(referee: Any) -> None:
    """When nothing in it waits any more the digest says so; a digest replaced by a newer one links to that."""
    ended = cards.flood_digest_card(cards.FloodDigest("refunds", 0, Risk.LOW), delivery_id="d")
    outdated = cards.outdated_digest_card(
        "key:<!here>", "https://team.slack.com/archives/C0REVIEW/p1", delivery_id="d"
    )
    for card in (ended, outdated):
        referee.judge(card)
        assert buttons(referee, card.blocks) == []
    assert "No request from agent refunds still waits in this message" in referee.words(ended.blocks)
    assert "https://team.slack.com/archives/C0REVIEW/p1" in str(outdated.blocks)
    assert "<!here>" not in outdated.text


def test_an_edit_is_a_diff_in_the_thread(referee: Any) -> None:
    """Who changed which argument from what to what; changes that are not kept with the line are counted."""
    changes = [{"path": "$.amount", "before": 1499, "after": 1200}]
    edited = {"line": "edited", "user": "U0GRACE", "changes": changes, "money": ["args.amount"]}
    card = cards.thread_line({**edited, "more": 0})
    referee.judge(card)
    words = referee.words(card.blocks)
    assert words.startswith("↩ Edited: earlier votes do not count")
    assert "by U0GRACE" in words
    assert "amount: 1,499.00 → 1,200.00" in words
    assert "more" not in words
    undeclared = cards.thread_line({**edited, "money": None})
    assert "amount: 1499 → 1200" in referee.words(undeclared.blocks)
    many = cards.thread_line({**edited, "more": 12})
    referee.judge(many)
    assert rendered(many.blocks)[-2:] == ["• amount: 1,499.00 → 1,200.00", "… and 12 more"]


@pytest.mark.parametrize("line", ["reminder", "escalated"])
def test_time_calls_those_who_can_still_help(referee: Any, line: str) -> None:
    """A reminder and an escalation mention the people of the fact, and no text that is no id."""
    body = {"line": line, "people": ["U0GRACE", "S0FINANCE", "<!here>", "channel"], "at": AT.isoformat()}
    card = cards.thread_line(body)
    referee.judge(card)
    assert card.text.endswith(" <@U0GRACE> <!subteam^S0FINANCE>")
    words = referee.words(card.blocks)
    assert "U0GRACE S0FINANCE" in words
    assert "until 2027-01-30 09:00 UTC" in words


@pytest.mark.parametrize("odd", ["", "x", "[]", "[1,{}]", '["a",{"b":1}]', '["a",[]]', "[" * 5000, None, 7])
def test_page_values_that_we_never_wrote_are_nothing(odd: object) -> None:
    """A value is read back only in the form that we write."""
    assert cards.parse_page_value(odd) is None
    assert cards.parse_id(odd) is None


def test_page_values_have_their_limit() -> None:
    """Slack takes 2,000 characters; more is a mistake of ours, told at once."""
    assert cards.parse_page_value(cards.page_value("x", a=None, b=2)) == ("x", {"b": "2"})
    with pytest.raises(ValueError, match="2,000"):
        cards.page_value("x", a="é" * 400)


def test_a_run_that_has_answered_says_what_still_waits():
    """An answer given while people still decide is not called completed."""
    answered = replace(RUN, status=RunStatus.COMPLETED, waiting=2)
    assert "2 requests wait for review" in str(cards.run_list([answered]).blocks)
    assert "Completed" in str(cards.run_list([replace(answered, waiting=0)]).blocks)
