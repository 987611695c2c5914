"""Random requests full of hostile text, on every surface; `make test SEED=…` repeats a run."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent.domain.action import Action
from agent.domain.policy import Risk
from agent.domain.request import ExecutionStatus, RequestStatus
from slackbot.cards import (
    reject_modal,
    request_card,
    request_details,
    run_line,
    thread_line,
)

QUICK = settings(
    max_examples=500,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)

BAIT = st.sampled_from(
    [
        "<!channel>", "<!here>", "<@U0BOSS>", "<!subteam^S0BOSS>", "<https://evil.example|ok>", "https://evil.example",
        "evil.com", "&lt;!here&gt;", "*bold*", "_it_", "~no~", "`code`", "```", ":white_check_mark:", "@here",
        "#general", "✅ *Approved by* <@U0BOSS>", "⚠\ufe0f", "\n" * 50, " " * 80, "\u202e", "\u200b", "\u2066",
        "\U000e0041", "\ufe0f", "\ufe01", "a" * 400, "مرحبا", "e" + "\u0301" * 30, "\u3164", "\x07", "\x1b[31m",
        "👩\u200d💻", "mailto:a@b.example", "tel:0", "&" * 60, "<" * 60, "\u2028", "\t", "\r\n", "> quoted", "\ud800",
    ]
)  # fmt: skip
TEXT = st.lists(st.one_of(BAIT, st.text(max_size=30)), max_size=6).map("".join)
LONG = st.tuples(TEXT, st.integers(1, 300)).map(lambda pair: (pair[0] * pair[1])[:6_000])
ANY_TEXT = st.integers(0, 7).flatmap(lambda n: TEXT if n else LONG)
STORED = ANY_TEXT.map(lambda text: text.replace("\x00", "").encode("utf-8", "replace").decode())
NUMBER = st.one_of(st.integers(1 - 2**53, 2**53 - 1), st.floats(allow_nan=False, allow_infinity=False))
SCALAR = st.one_of(st.none(), st.booleans(), NUMBER, STORED)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(STORED, inner, max_size=4)),
    max_leaves=5,
)
OBJECT = st.dictionaries(
    st.one_of(st.sampled_from(["price", "total_cost", "note", "paid_at"]), STORED), VALUE, max_size=8
)
MAYBE_OBJECT = st.one_of(st.none(), OBJECT)
MOMENT = st.datetimes(datetime(2024, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    """What a hostile agent, tool or client can put into a request."""
    texts = draw(st.lists(ANY_TEXT, min_size=4, max_size=4))
    tool, version, facts, before = draw(STORED), draw(STORED), draw(MAYBE_OBJECT), draw(MAYBE_OBJECT)
    return {
        "action": Action(tool or "tool", version or "1", draw(OBJECT)),
        "facts": facts,
        "previous_facts": before,
        "description": texts[0],
        "rationale": texts[1],
        "agent": texts[2],
        "agent_version": texts[3],
        "requester_asserted": draw(st.sampled_from(["slack", "on-behalf", "key-owner", texts[0]])),
        "checkpoint_id": texts[1],
        "risk": draw(st.sampled_from(Risk)),
        "approvers": tuple(draw(st.lists(st.sampled_from(["S0FINANCE", *texts]), max_size=12))),
        "notify": tuple(
            draw(st.lists(st.sampled_from(["S0FINANCE", "U0ADA", "channel", *texts]), max_size=4))
        ),
        "approvals_required": draw(st.integers(1, 5)),
        "prevent_self_review": draw(st.booleans()),
        "revision": draw(st.integers(1, 99)),
    }


@st.composite
def states(draw: st.DrawFn, samples: Any) -> dict[str, Any]:
    """Where the request stands, with hostile reasons and errors."""
    status = draw(st.sampled_from(RequestStatus))
    reason = draw(st.one_of(st.none(), ANY_TEXT))
    if status is RequestStatus.WAITING:
        return {}
    if status is RequestStatus.APPROVED and draw(st.booleans()):
        settled = draw(st.sampled_from([None, "retry", "done"]))
        return dict(samples.executed(draw(st.sampled_from(ExecutionStatus)), reason, settled_as=settled))
    return dict(samples.decided(status, reason)) | {"voided": status is RequestStatus.APPROVED}


@QUICK
@given(data=st.data())
def test_no_request_breaks_out_of_its_card(data: st.DataObject, samples: Any, referee: Any) -> None:
    """Whatever is stored, the card obeys Slack's limits, nothing on it is live, and drawing it twice is the same."""
    assert_card_holds(data, samples, referee)


@pytest.mark.stress
@settings(QUICK, max_examples=10_000)
@given(data=st.data())
def test_no_request_of_ten_thousand_breaks_out(data: st.DataObject, samples: Any, referee: Any) -> None:
    """The same, at full size."""
    assert_card_holds(data, samples, referee)


def assert_card_holds(data: st.DataObject, samples: Any, referee: Any) -> None:
    hostile = data.draw(changes())
    action = hostile["action"]
    view = samples.view(digest=action.digest, **{**hostile, **data.draw(states(samples))})
    details = data.draw(st.booleans())
    card = request_card(view, details_available=details, delivery_id="d")
    referee.judge(card)
    assert request_card(view, details_available=details, delivery_id="d") == card
    referee.judge(request_details(view))
    assert_arguments_reachable(card, view, details, referee)
    modal = reject_modal(view, view.place_nonce)
    assert not referee.invisible(referee.words(modal)), modal


def assert_arguments_reachable(card: Any, view: Any, details: bool, referee: Any) -> None:
    """All arguments stand on the card, or Approve does not, or Details leads to them."""
    boxes = [part for _, part in referee.walk(card.blocks) if part.get("type") == "rich_text_preformatted"]
    assert len(boxes) == 1
    shown = "".join(piece["text"] for piece in boxes[0]["elements"])
    try:
        complete = json.loads(shown, parse_int=float) == view.action.arguments
    except ValueError:
        complete = False
    offered = "Approve" in referee.buttons(card)
    waiting = view.status is RequestStatus.WAITING
    assert offered <= waiting
    assert ("Reject" in referee.buttons(card)) == waiting
    if not complete:
        assert "more characters" in referee.words(card.blocks)
        assert offered <= details
    if offered and not complete:
        assert "Details" in referee.buttons(card)


@QUICK
@given(
    line=st.one_of(st.sampled_from(["answer", "voted", "rejected", "failed", "settled"]), TEXT),
    texts=st.lists(ANY_TEXT, min_size=4, max_size=4),
    at=MOMENT,
)
def test_no_line_breaks_out_of_its_thread(line: str, texts: list[str], at: datetime, referee: Any) -> None:
    """Whatever a fact tells, a line in a thread obeys Slack's limits and nothing in it is live."""
    text, reason, cause, request = texts
    body: dict[str, Any] = {
        "line": line,
        "user": "U0GRACE",
        "text": text,
        "reason": reason,
        "cause": cause,
        "request": request,
    }
    body |= {"seconds": 1.25, "needed": 1, "at": (at + timedelta(seconds=1)).isoformat(), "tool": reason}
    referee.judge(thread_line(body, delivery_id="d"))
    referee.judge(run_line(body, delivery_id="d"))
