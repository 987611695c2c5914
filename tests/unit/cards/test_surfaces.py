"""Threads, lists, answers to commands and modals: what each says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from agent.domain.errors import Refusal, sentence
from agent.domain.policy import Risk
from agent.domain.request import RequestLine, RequestStatus
from agent.domain.run import RunStatus, RunView
from slackbot.cards import (
    AgentLine,
    ButtonValue,
    agent_list,
    button_value,
    parse_button_value,
    reason_of,
    refusal_text,
    reject_modal,
    request_details,
    request_list,
    run_line,
    run_list,
    run_root,
    run_started,
    skeleton_modal,
    thread_line,
    together,
    usage,
)

AT = datetime(2027, 1, 31, 9, 0, tzinfo=UTC)
RUN = RunView(
    id=UUID(int=2),
    agent="refunds",
    agent_version="2",
    task="refund order 7",
    status=RunStatus.WORKING,
    cause=None,
    requester=None,
    parent_run_id=None,
    channel_id="C0REVIEW",
    thread_ts=None,
    turn=1,
    steps=1,
    tokens=10,
    awaiting_calls=0,
    created_at=AT,
    updated_at=AT,
)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"line": "rejected", "user": "U0GRACE", "reason": "no"}, "❌ Rejected by U0GRACEReason:no"),
        (
            {"line": "voted", "user": "U0GRACE", "needed": 1, "verdict": "approve"},
            "✅ One approval by U0GRACE · 1 more needed",
        ),
        ({"line": "succeeded", "seconds": 1.23, "text": "ok"}, "✅ Done in 1.2 sThe tool's result:ok"),
        ({"line": "settled", "user": "U0ADA", "text": "done"}, "✅ Settled: marked as done by U0ADA"),
        (
            {"line": "expired"},
            "⌛ Expired: nobody decided in time, which is not a rejection; nothing was run",
        ),
        ({"line": "brand_new_fact", "text": "x"}, "Event brand new factIt says:x"),
        ({}, "Event None"),
    ],
)
def test_a_line_of_history(referee: Any, body: dict[str, Any], said: str) -> None:
    """Each fact has its sentence; one that is not known yet is told all the same."""
    card = thread_line(body, delivery_id="d")
    referee.judge(card)
    assert referee.words(card.blocks) == said
    assert card.metadata == {"event_type": "signoff_card", "event_payload": {"delivery": "d"}}


def test_the_answer_is_quoted(referee: Any) -> None:
    """An agent's answer stands in quotation, labelled, as far as a message holds it."""
    card = run_line({"line": "answer", "text": "Done.\n\n\n\n✅ *All good*"})
    referee.judge(card)
    quote = next(part for _, part in referee.walk(card.blocks) if part.get("type") == "rich_text_quote")
    assert referee.words(quote) == "Done.\n\n✅ *All good*"
    assert referee.words(card.blocks).startswith("The agent's answer")
    long = run_line({"line": "answer", "text": "word " * 5000})
    referee.judge(long)
    assert "more characters" in referee.words(long.blocks)


@pytest.mark.parametrize("status", list(RunStatus))
def test_the_root_of_a_run(referee: Any, status: RunStatus) -> None:
    """A run's first message tells who asked whom for what, how far it is, and why it ended badly."""
    card = run_root(replace(RUN, status=status, cause="rejected"), delivery_id="d")
    referee.judge(card)
    words = referee.words(card.blocks)
    assert "agent refunds, version 2 · asked by nobody in Slack" in words
    assert "refund order 7" in words
    assert ("Cause:rejected" in words) == (status.value in {"denied", "failed", "cancelled"})


def test_many_lines_as_one_message(referee: Any) -> None:
    """Lines that waited together lose their quotations before any of them is lost, and the rest is counted."""
    lines = [thread_line({"line": "failed", "text": f"{n} " + "&" * 400}) for n in range(200)]
    card = together(lines, delivery_id="d")
    referee.judge(card)
    words = referee.words(card.blocks)
    assert "more events" in words
    assert words.count("❌ Failed") + int(words.rpartition("… and ")[2].split()[0]) == 200
    assert together(lines[:1]) == lines[0]
    with pytest.raises(ValueError, match="no line"):
        together([])


def test_what_waits(referee: Any) -> None:
    """`/approvals` shows each waiting request with risk, object, requester, deadline and id; none is said, too."""
    row = RequestLine(
        UUID(int=5),
        "Refund order 7",
        "refunds",
        Risk.HIGH,
        RequestStatus.WAITING,
        None,
        AT,
        AT,
        "C0REVIEW",
        None,
        1,
        2,
    )
    card = request_list([row], more=True)
    referee.judge(card)
    words = referee.words(card.blocks)
    for said in (
        "High risk · Refund order 7",
        "1 of 2",
        "nobody in Slack",
        "2027-01-31 09:00 UTC",
        str(UUID(int=5)),
    ):
        assert said in words
    assert "there are more" in words
    assert referee.words(request_list([]).blocks) == "Nothing waits for review."
    referee.judge(request_list([row] * 50))


def test_details_have_no_buttons(samples: Any, referee: Any) -> None:
    """`/approvals show` shows what the card shows, pings nobody and decides nothing."""
    card = request_details(samples.view())
    referee.judge(card, frozenset({"U0ADA", "C0REVIEW"}))
    assert not referee.buttons(card)
    assert "Its card is in C0REVIEW" in referee.words(card.blocks)
    assert card.metadata is None


def test_runs_and_agents(referee: Any) -> None:
    """`/agent status`, `list` and `run` answer with what there is."""
    for card in (
        run_list([RUN] * 50),
        agent_list([AgentLine("refunds", "2", ("look_up", "refund"))]),
        run_started(RUN),
    ):
        referee.judge(card)
        assert "refunds" in referee.words(card.blocks)
    assert "No agent has run yet." in referee.words(run_list([]).blocks)
    assert "SIGNOFF_AGENTS" in referee.words(agent_list([]).blocks)


@pytest.mark.parametrize("command", ["/agent", "/approvals", "/other"])
def test_usage(referee: Any, command: str) -> None:
    """Help names the problem first, then every way to use the command."""
    card = usage(command, "There is no agent <b>.")
    referee.judge(card)
    words = referee.words(card.blocks)
    assert words.startswith("There is no agent <b>.")
    assert ("/agent run <agent> <task>" in words) == (command != "/approvals")


def test_refusals_name_people(samples: Any) -> None:
    """A refusal that names somebody by team and user mentions them, and nothing else in it is live."""
    told = sentence(Refusal.ALREADY_DECIDED, outcome="rejected", by=samples.view().requester, at=AT)
    assert "rejected by <@U0ADA> at 2027-01-31 09:00 UTC" in refusal_text(told)
    assert refusal_text("<!here> & <@U0BOSS>") == "&lt;!here&gt; &amp; &lt;@U0BOSS&gt;"


def test_reject_modal(samples: Any, referee: Any) -> None:
    """The modal repeats what is rejected, remembers place and revision, and yields the reason."""
    view = samples.view(revision=4)
    modal = reject_modal(view, "another_nonce_of_22_chars")
    assert modal["callback_id"] == "signoff:reject_modal"
    assert parse_button_value(modal["private_metadata"]) == ButtonValue(
        "another_nonce_of_22_chars", view.id, 4
    )
    assert "Refund 1,499.00 for order 7" in referee.words(modal)
    (field,) = [block for block in modal["blocks"] if block["type"] == "input"]
    typed = {field["block_id"]: {field["element"]["action_id"]: {"value": "  too much "}}}
    assert reason_of({"state": {"values": typed}}) == "too much"
    assert reason_of({"state": {"values": {}}}) is None
    assert reason_of({}) is None
    assert all(len(modal[key]["text"]) <= 24 for key in ("title", "submit", "close"))


def test_skeleton_modal() -> None:
    """A long heading is cut to what a title may hold."""
    modal = skeleton_modal("A heading that is far too long for Slack")
    assert modal["title"]["text"] == "A heading that is far to"
    assert "submit" not in modal


def test_button_values_read_back(samples: Any) -> None:
    """What a button says is read back as it was written, with or without an attempt."""
    view = samples.view(revision=12)
    for execution in (None, UUID(int=9)):
        assert parse_button_value(button_value(view, execution)) == ButtonValue(
            view.place_nonce, view.id, 12, execution
        )
    with pytest.raises(ValueError, match="nonce"):
        button_value(samples.view(place_nonce=""))


@pytest.mark.parametrize(
    "text",
    [
        None,
        5,
        "",
        "n" * 22,
        f"{'n' * 22}.{UUID(int=5)}",
        f"{'n' * 22}.{UUID(int=5)}.0",
        f"{'n' * 22}.{UUID(int=5)}.01",
        f"{'n' * 22}.{UUID(int=5)}.-1",
        f"{'n' * 22}.{UUID(int=5)}.1\n",
        f"{'n' * 22}.{UUID(int=5)}.1.",
        f"{'n' * 22}.{UUID(int=5)}.1.x",
        f"{'n' * 22}.{UUID(int=0xABC)}".upper() + ".1",
        f"{'n' * 22}.{UUID(int=5).hex}.1",
        f"{'n' * 22}.{UUID(int=5)}.9999999999",
        f"{'n' * 22}.{UUID(int=5)}.١",
        f"{'n' * 500}.{UUID(int=5)}.1",
        f"nonce\x00nonce.{UUID(int=5)}.1",
    ],
)
def test_strict_button_values(text: Any) -> None:
    """Anything that we never write is nothing."""
    assert parse_button_value(text) is None
