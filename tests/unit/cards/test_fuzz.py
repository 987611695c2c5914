"""Random requests full of hostile text, on every surface; the seed is printed, `--hypothesis-seed` repeats it."""

from __future__ import annotations

import json
import secrets
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from agent.domain.request import ExecutionStatus, RequestStatus, Verdict
from signoff.values import Action, Risk
from slackbot.cards import (
    details_modal,
    details_pages,
    request_card,
    request_details,
    run_line,
    thread_line,
    vote_modal,
)
from slackbot.cards.json_text import readable

SEED = secrets.randbits(32)


@pytest.fixture(autouse=True, scope="module")
def _seed_is_told() -> None:
    sys.stdout.write(f"seed {SEED}\n")


QUICK = settings(
    max_examples=40,
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
MOMENT = st.datetimes(datetime(2024, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    """What a hostile agent, tool or client can put into a request."""
    return {
        "action": Action(draw(STORED) or "tool", draw(STORED) or "1", draw(OBJECT)),
        "facts": draw(st.one_of(st.none(), OBJECT)),
        "previous_facts": draw(st.one_of(st.none(), OBJECT)),
        "description": draw(ANY_TEXT),
        "rationale": draw(st.one_of(st.none(), ANY_TEXT)),
        "agent": draw(ANY_TEXT),
        "agent_version": draw(ANY_TEXT),
        "requester_asserted": draw(
            st.one_of(st.sampled_from(["slack", "key:crm", "key:crm for U0ADA"]), ANY_TEXT)
        ),
        "checkpoint_id": draw(ANY_TEXT),
        "risk": draw(st.sampled_from(Risk)),
        "approvers": tuple(draw(st.lists(st.one_of(st.just("S0FINANCE"), ANY_TEXT), max_size=10))),
        "notify": tuple(
            draw(st.lists(st.sampled_from(["S0FINANCE", "U0ADA", "channel", "<!here>"]), max_size=4))
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


@seed(SEED)
@QUICK
@given(data=st.data())
def test_no_request_breaks_out_of_its_card(data: st.DataObject, samples: Any, referee: Any) -> None:
    """Whatever is stored, the card obeys Slack's limits, nothing on it is live, and drawing it twice is the same."""
    hostile = data.draw(changes())
    action = hostile["action"]
    view = samples.view(digest=action.digest, **{**hostile, **data.draw(states(samples))})
    card = request_card(view, delivery_id="d")
    referee.judge(card)
    assert request_card(view, delivery_id="d") == card
    referee.judge(request_details(view))
    assert_arguments_reachable(view, referee)
    referee.judge_view(vote_modal(Verdict.REJECT, view, view.place_nonce))


def assert_arguments_reachable(view: Any, referee: Any) -> None:
    """All facts and arguments are in the details, to the letter, and Approve is offered only while it waits."""
    boxes = []
    for page in range(1, details_pages(view) + 1):
        modal = details_modal(view, page)
        referee.judge_view(modal)
        boxes += [
            part for _, part in referee.walk(modal["blocks"]) if part.get("type") == "rich_text_preformatted"
        ]
    shown = "".join(piece["text"] for box in boxes for piece in box["elements"])
    for values in (view.facts, view.action.arguments):
        assert not values or readable(values) in shown
        assert json.loads(readable(values or {}), parse_int=float) == (values or {})
    offered = "Approve" in referee.buttons(request_card(view))
    assert offered == (view.status is RequestStatus.WAITING)


@seed(SEED)
@QUICK
@given(
    line=st.one_of(st.sampled_from(["answer", "voted", "rejected", "failed", "settled"]), TEXT),
    texts=st.lists(ANY_TEXT, min_size=4, max_size=4),
    at=MOMENT,
)
def test_no_line_breaks_out_of_its_thread(line: str, texts: list[str], at: datetime, referee: Any) -> None:
    """For any fact, a line in a thread obeys Slack's limits and nothing in it is live."""
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
