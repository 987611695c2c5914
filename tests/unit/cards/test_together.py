"""The form for several requests and a group's message: in full or not at all, and within Slack's limits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.domain.request import RequestStatus
from agent.domain.request_view import RequestView
from signoff.values import Risk
from slackbot.cards.group_digest import GroupDigest, group_digest_card, titled_line
from slackbot.cards.lines import thread_line
from slackbot.cards.together_form import (
    MOST,
    LeftOut,
    RowOutcome,
    TogetherForm,
    apart,
    claim_of,
    nothing_together,
    read_claim,
    read_together,
    summary,
    together_modal,
    together_outcome,
)
from slackbot.cards.values import page_value
from tests.unit.cards.conftest import CREATED, GRACE, decided, make_view
from tests.unit.cards.test_fuzz import OBJECT, QUICK
from tests.unit.cards.test_injection import ATTACKS

NOT_SLOW = settings(QUICK, max_examples=60)
FORM = UUID(int=99)
SHAPES = st.recursive(
    st.integers(1, 60),  # a leaf's length
    lambda inner: st.one_of(
        st.lists(inner, max_size=8), st.dictionaries(st.integers(0, 9), inner, max_size=8)
    ),
    max_leaves=40,
)


def asked(number: int = 1, **changes: Any) -> RequestView:
    """A waiting refund of medium risk, without an amount in its title."""
    given = {"id": UUID(int=number), "risk": Risk.MEDIUM, "description": f"Refund order {number}"}
    return make_view(**given | changes)


def marked(shape: Any, numbers: Iterator[int]) -> tuple[Any, list[str]]:
    """A value of this shape whose leaves, and keys, are words that occur nowhere else, and these words."""
    if isinstance(shape, int):
        word = f"w{next(numbers)}" + "x" * shape
        return word, [word]
    parts = [marked(each, numbers) for each in (shape.values() if isinstance(shape, dict) else shape)]
    words = [word for _, found in parts for word in found]
    if isinstance(shape, list):
        return [value for value, _ in parts], words
    keys = [f"k{next(numbers)}z" for _ in parts]
    return dict(zip(keys, (value for value, _ in parts), strict=True)), [*words, *keys]


@NOT_SLOW
@given(facts=SHAPES, arguments=SHAPES)
def test_a_row_shows_everything_or_is_no_row(referee: Any, facts: Any, arguments: Any) -> None:
    """Every name and value of the facts and arguments of a request in the form can be read there, whole."""
    numbers = count()
    (known, of_facts), (given, of_arguments) = marked(facts, numbers), marked(arguments, numbers)
    view = asked(facts={"known": known}, arguments={"given": given})
    if apart(view) is not None:
        return
    form = together_modal(TogetherForm(FORM, [view]))
    referee.judge_view(form)
    shown = referee.words(form["blocks"])
    assert [each for each in (*of_facts, *of_arguments) if each not in shown] == []


@NOT_SLOW
@given(st.lists(st.tuples(OBJECT, OBJECT, st.sampled_from(ATTACKS)), min_size=1, max_size=MOST))
def test_what_slack_takes_whatever_they_hold(referee: Any, given: list[Any]) -> None:
    """Forms, outcomes and messages of hostile values stay dead and within Slack's limits."""
    views = [
        asked(number, facts=facts, arguments=arguments, description=text, agent=text[:60] or "a")
        for number, (facts, arguments, text) in enumerate(given, 1)
    ]
    rows = [view for view in views if apart(view) is None]
    left_out = [LeftOut(view, why) for view in views if (why := apart(view)) is not None]
    if rows:
        referee.judge_view(together_modal(TogetherForm(FORM, rows, left_out, {"agent": "a" * 200})))
    referee.judge_view(nothing_together(left_out))
    outcomes = [
        RowOutcome(view, "approved", None if at % 2 else view.description) for at, view in enumerate(views)
    ]
    referee.judge_view(together_outcome(outcomes, {"key": "k" * 200}))
    referee.judge(group_digest_card(GroupDigest("group:1", views, 500, len(views), CREATED), notify=True))
    referee.judge(titled_line(thread_line({"line": "reminder"}), views[0]))


@pytest.mark.parametrize("character", ["x", "&", "<", "🙂", "ä"])
def test_the_worst_form_fits(referee: Any, character: str) -> None:
    """Ten rows at the limit, fifty left out, long names and twenty reasons make a form that Slack takes."""
    text = character * 90
    rows = [
        asked(
            number,
            description=character * 300,
            facts={f"fact {at}": text for at in range(3)},
            arguments={f"argument {at}": text for at in range(3)},
            reject_reasons=tuple(f"{at}{character * 70}" for at in range(20)),
            reason_required=("approve", "reject"),
            client_id=f"r-{number}",
        )
        for number in range(1, MOST + 1)
    ]
    fitting = [view for view in rows if apart(view) is None] or [asked(1)]
    left_out = [LeftOut(asked(n, description=character * 900), "it has high risk") for n in range(50)]
    form = together_modal(
        TogetherForm(FORM, fitting, left_out, {"agent": "ä" * 200, "after": str(FORM)}), GRACE
    )
    referee.judge_view(form)
    outcomes = [RowOutcome(view, "", "It has changed since. " * 20) for view in rows]
    referee.judge_view(together_outcome(outcomes, {"agent": "a" * 200}))
    many = [asked(number, description=character * 900) for number in range(20)]
    referee.judge(group_digest_card(GroupDigest("group:1", many, 500, 480, CREATED), notify=True))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"risk": Risk.HIGH}, "it has high risk"),
        ({"decide_together": "low"}, "it has medium risk"),
        ({"decide_together": "never"}, "its checkpoint wants it decided on its own"),
        ({"source": "allow_similar"}, "it asks for a grant"),
        ({"editor": GRACE}, "a reviewer edited it"),
        ({"paused_by": "cli:ada", "paused_agent": "refunds"}, "its agent is paused"),
        ({"paused_by": "cli:ada"}, "all agents are paused"),
        ({"previous_facts": {}}, "its facts have changed since an earlier approval"),
        ({"hide": ("amount",)}, "it hides a value"),
        ({"digest": b"0" * 32}, "it hides a value"),
        ({"description": "x" * 500}, "it is too long for a row"),
    ],
)
def test_why_a_request_is_decided_on_its_own(changes: dict[str, Any], why: str) -> None:
    """Each reason has its words; without any, a request may be in a form."""
    assert apart(asked()) is None
    assert apart(asked(**changes)) == why


def test_a_form_reads_what_it_wrote() -> None:
    """A submission names its form, the ticked rows with what they showed, and the query of the next form."""
    rows = [asked(1), asked(2)]
    form = together_modal(TogetherForm(FORM, rows, (), {"agent": "refunds"}))
    ticks = {
        f"signoff:row_{at}": {"signoff:tick": {"selected_options": [{"value": "yes"}] if at else []}}
        for at in range(2)
    }
    chosen = {"signoff:verdict": {"signoff:verdict_input": {"selected_option": {"value": "reject"}}}}
    read = read_together({**form, "state": {"values": ticks | chosen}})
    assert read is not None
    assert (read.id, read.verdict, read.query) == (FORM, "reject", {"agent": "refunds"})
    assert [(row.value.request_id, row.digest) for row in read.rows] == [(rows[1].id, rows[1].digest)]


@pytest.mark.parametrize(
    "carried",
    [
        None,
        "",
        "x",
        f"{FORM}\n",
        f"{FORM}\n\nx y",
        f"no id\n\n{claim_of(asked())}",
        "\n".join([str(FORM), ""] + [claim_of(asked())] * 2),
    ],
)
def test_what_no_form_carried_is_not_read(carried: Any) -> None:
    """Garbage, too many rows, or a request that occurs twice is no form."""
    assert read_together({"private_metadata": carried}) is None
    rows = "\n".join(claim_of(asked(number)) for number in range(1, MOST + 2))
    assert read_together({"private_metadata": f"{FORM}\n\n{rows}"}) is None


@given(st.text())
def test_a_claim_is_read_or_refused(text: str) -> None:
    """Any text is a claim or a ValueError."""
    try:
        read_claim(text)
    except ValueError:
        return


def test_the_summary_counts() -> None:
    """`5 of 6 approved`; a quorum that is not complete is said, and so is that nothing was decided."""
    done, open_ = RowOutcome(None, "approved"), RowOutcome(None, "", "It has changed.")
    waits = RowOutcome(None, "counted, 1 more needed")
    assert summary([done] * 5 + [open_]) == "5 of 6 approved; the others stay as they are:"
    assert summary([done] * 2) == "2 of 2 approved."
    assert summary([done, waits]) == "1 approved, 1 counted, 1 more needed."
    assert summary([open_]) == "None was decided."


def test_a_group_says_what_became_of_each(referee: Any) -> None:
    """Waiting, decided and left: the message counts them, and once none waits it has no form to offer."""
    waiting = [asked(number) for number in (1, 2)]
    gone = asked(3, **decided(RequestStatus.REJECTED, "Twice"))
    group = GroupDigest("group:1", [*waiting, gone], 3, 2, CREATED + timedelta(hours=1))
    card = group_digest_card(group, notify=True)
    words = referee.words(card.blocks)
    assert "2 of 3 requests of agent refunds wait for review" in words
    assert "Rejected" in words
    assert page_value("together", group="group:1") in str(card.blocks)
    assert "<!subteam^S0FINANCE>" in card.text
    over = group_digest_card(GroupDigest("group:1", [gone], 1, 0), notify=False)
    assert "none waits any more" in referee.words(over.blocks)
    assert "decide_together" not in str(over.blocks)
    assert "subteam" not in over.text
