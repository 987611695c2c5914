"""Views fit to be shown: nothing hidden can be read in them, and what may not be consented to is not offered."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from agent.domain.masked_action import MaskedAction
from agent.domain.request import ExecutionStatus, RequestStatus, Verdict
from agent.domain.request_list import HistoryLine
from agent.domain.request_view import (
    Change,
    DecisionView,
    EarlierRejection,
    ExecutionView,
    RequestView,
    VoteView,
)
from agent.domain.run import RunStatus, RunValues, RunView
from signoff.masks import Find, mask
from signoff.values import Action, Person, Risk
from slackbot import cards
from slackbot.masking import CARDS, clean_lines, clean_runs, clean_text, clean_view, views, work_for
from slackbot.masking.fair_threads import THREADS
from slackbot.masking.secret_finder import BUDGET
from slackbot.masking.slack_payloads import clean_payload
from slackbot.masking.views import off_the_loop
from tests.planted import SECRETS, URL_PASSWORD
from tests.unit.cards.conftest import make_view

AT = datetime(2027, 1, 30, 9, 0, tzinfo=UTC)
GRACE = Person("T0TEAM", "U0GRACE")
TOKEN = SECRETS["github-token"]
PASSWORD = "correct-horse" + "-battery"
CARD = "4111" + "222233334444"


def view(arguments: dict[str, Any], **changes: Any) -> RequestView:
    fields: dict[str, Any] = {
        "action": Action("pay", "1", arguments),
        "facts": {"price": 5},
        "description": "Pay 5",
        "rationale": None,
        "requester": GRACE,
        "risk": Risk.LOW,
        "approvers": ("channel",),
    }
    return make_view(**(fields | changes))


def line(description: str, reason: str) -> HistoryLine:
    return HistoryLine(
        id=UUID(int=1),
        description=description,
        agent="payments",
        risk=Risk.LOW,
        status=RequestStatus.REJECTED,
        requester=GRACE,
        created_at=AT,
        expires_at=AT,
        channel_id="C0REVIEW",
        message_ts=None,
        approvals=0,
        approvals_required=1,
        reason=reason,
    )


async def test_no_field_of_a_view_keeps_a_secret() -> None:
    """Every text of a view says the secrets again, and none survives; the card still offers Approve."""
    said = f"{TOKEN} and {PASSWORD}, card {CARD[:4]} {CARD[4:8]} {CARD[8:12]} {CARD[12:]}"
    full = view(
        {"password": PASSWORD, "card": CARD, "note": said, "order": "ORD-7"},
        redact=("card",),
        facts={"iban": PASSWORD, "text": said},
        previous_facts={"text": said, "token": PASSWORD},
        description=said,
        rationale=said,
        label=said,
        votes=(VoteView(GRACE, Verdict.APPROVE, said, AT),),
        decision=DecisionView(RequestStatus.REJECTED, GRACE, said, AT),
        execution=ExecutionView(UUID(int=1), 1, ExecutionStatus.FAILED, AT, AT, said, result=said),
        changes=(Change("$.password", "old" + PASSWORD, PASSWORD), Change("$.note", said, "short")),
        rejected_before=EarlierRejection(UUID(int=8), GRACE, AT, said),
        context={
            "task": said,
            "transcript": [{"role": "user", "text": said}],
            "earlier_calls": [{"a": said}],
        },
        link=f"https://shop.example/x?card={CARD}",
    )
    shown = await clean_view(full)
    text = f"{shown!r} {shown.action.canonical.decode()}"
    for secret in (TOKEN, PASSWORD, CARD, f"{CARD[:4]} {CARD[4:8]}"):
        assert secret not in text
    assert shown.link is None
    assert shown.action.arguments["order"] == "ORD-7"
    assert shown.action.digest == full.digest
    card = cards.request_card(await clean_view(replace(full, decision=None, votes=())))
    assert "signoff:approve" in json.dumps(card.blocks)
    assert full.action.arguments["password"] == PASSWORD


async def test_a_view_without_secrets_is_left_alone() -> None:
    """Nothing is changed that need not be, link included."""
    plain = view({"order": "ORD-7"}, link="https://shop.example/orders/7")
    assert await clean_view(plain) == plain


async def test_masked_arguments_cannot_be_edited() -> None:
    """A form would send the mask back as the value: only what can be read has an input."""
    shown = await clean_view(view({"note": f"use {TOKEN}", "order": "ORD-7", "password": PASSWORD}))
    assert isinstance(shown.action, MaskedAction)
    assert shown.action.hidden == {"note", "password"}
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("note", "order", "password")},
    }
    form = cards.edit_modal(shown, schema, "carry")
    inputs = [block for block in form["blocks"] if block["type"] == "input"]
    assert [block["label"]["text"] for block in inputs] == ["Order"] or len(inputs) == 1
    assert "⟦" not in json.dumps(inputs, ensure_ascii=False)


async def test_what_was_not_scanned_in_time_is_masked_and_cannot_be_approved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All threads are busy for longer than anybody waits: everything is masked, and Approve is withheld."""
    release, threads = threading.Event(), []

    def looked_through(view: RequestView, find: Find) -> RequestView:
        threads.append(threading.current_thread().name)
        return views._view(view, find)

    monkeypatch.setattr("slackbot.masking.views._GRACE", 0.0)
    blocked = [views._threads.submit(partial(release.wait, 30), None) for _ in range(THREADS)]
    monkeypatch.setattr("slackbot.masking.views.BUDGET", 0.05)
    begun = time.monotonic()
    try:
        plain = view({"order": "ORD-7"})
        shown = await off_the_loop(lambda find: looked_through(plain, find), lambda: (), budget=0.05)
    finally:
        release.set()
        for each in blocked:
            each.result()
    assert time.monotonic() - begun < 5
    assert threads == ["masks_0"]  # masking everything takes its time as well: it is no work for the loop
    assert shown.action.arguments == {
        "⟦redacted not-scanned, 5 characters⟧": "⟦redacted not-scanned, 5 characters⟧"
    }
    card = json.dumps(cards.request_card(shown).blocks, ensure_ascii=False)
    assert "signoff:approve" not in card
    assert "signoff:reject" in card
    assert "Approve is withheld" in card


@pytest.mark.parametrize(("sender", "seen"), [(CARDS, True), ("key:flood", False), (None, False)])
async def test_a_card_is_looked_through_however_busy_the_machine_is(
    monkeypatch: pytest.MonkeyPatch, sender: str | None, seen: bool
) -> None:
    """An hour passes between two steps, as for a thread that gets no processor: only for cards that does not count."""
    hours = itertools.count(step=3600.0)
    text = "order 7: fine " * 200
    clocks = SimpleNamespace(monotonic=lambda: next(hours), thread_time=time.thread_time)
    monkeypatch.setattr(views, "time", clocks)
    with nullcontext() if sender is None else work_for(sender):
        shown = await off_the_loop(lambda find: mask(text, find(text)))
    assert (shown == text) == seen


@pytest.mark.parametrize(
    ("said", "where"), [("", "the loop"), ("lorem ipsum " * 300, "secrets"), (["x"] * 3000, "secrets")]
)
async def test_little_is_looked_through_at_once_and_much_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, said: Any, where: str
) -> None:
    """Whatever is long, deep or numerous leaves the loop to those who click; secrets are found either way."""
    looked: list[str] = []

    def noted(view: RequestView, find: Find) -> RequestView:
        looked.append(threading.current_thread().name)
        return look(view, find)

    look = views._view
    monkeypatch.setattr(views, "_view", noted)
    shown = await clean_view(view({"note": TOKEN, "more": {"of": [said]}}, rationale=TOKEN))
    assert TOKEN not in repr(shown)
    assert [name.startswith("secrets") for name in looked] == [where == "secrets"]


async def test_a_short_list_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of a few words are looked through at once, and a long list in a thread."""
    looked: list[str] = []

    def noted(one: HistoryLine, find: Find) -> HistoryLine:
        looked.append(threading.current_thread().name)
        return look(one, find)

    look = views._line
    monkeypatch.setattr(views, "_line", noted)
    for many in (20, 100):
        shown = await clean_lines([line("Pay order 7", reason=f"no {TOKEN}")] * many)
        assert TOKEN not in repr(shown)
        assert {name.startswith("secrets") for name in looked} == {many == 100}
        looked.clear()


async def test_a_list_can_be_read_when_no_thread_gets_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are short: they are looked through however busy the threads are, and still lose their secrets."""
    release = threading.Event()
    monkeypatch.setattr("slackbot.masking.views._GRACE", -BUDGET)
    blocked = [views._threads.submit(partial(release.wait, 30), None) for _ in range(THREADS)]
    plain = line("Pay order 7", reason=f"no {TOKEN}")
    try:
        [shown, *_] = await clean_lines([plain] * 50)
        texts = await clean_payload({"text": "Waiting for you (1)", "blocks": [{"text": f"see {TOKEN}"}]})
    finally:
        release.set()
        for each in blocked:
            each.result()
    assert (shown.description, shown.reason) == ("Pay order 7", "no ⟦redacted github-token, 40 characters⟧")
    assert texts["text"] == "Waiting for you (1)"
    assert texts["blocks"] == [{"text": "see ⟦redacted github-token, 40 characters⟧"}]


async def test_what_was_ready_is_shown_when_the_loop_was_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that was busy sees the answer and the end of its patience at once: the answer counts."""
    submit = views._threads.submit

    def answered_first(work: Callable[[], Any], sender: str | None) -> Future[Any]:
        future = submit(work, sender)
        asyncio.get_running_loop().call_soon(future.result)
        return future

    monkeypatch.setattr(views._threads, "submit", answered_first)
    monkeypatch.setattr("slackbot.masking.views._GRACE", -BUDGET)
    assert await clean_text(text := "lorem ipsum " * 5000) == text


async def test_lines_of_a_list_are_cleaned() -> None:
    """Descriptions, and in a history the reasons."""
    dirty = line(f"pay postgres://joe:{URL_PASSWORD}@db.example", reason=f"no {TOKEN}")
    [shown] = await clean_lines([dirty])
    assert shown.description == "pay postgres://joe:⟦redacted url-password, 19 characters⟧@db.example"
    assert shown.reason == "no ⟦redacted github-token, 40 characters⟧"


async def test_a_run_in_a_list_does_not_say_what_its_calls_hide() -> None:
    """Task, answer and cause repeat a value that only `redact` or a key hides: it is masked in that run alone."""
    card = " ".join(CARD[n : n + 4] for n in range(0, 16, 4))
    runs = [
        RunView(
            id=UUID(int=n),
            agent="refunds",
            agent_version="1",
            task=f"Charge {card}",
            status=RunStatus.COMPLETED,
            cause=None,
            requester=None,
            parent_run_id=None,
            channel_id=None,
            thread_ts=None,
            turn=1,
            steps=1,
            tokens=1,
            awaiting_calls=0,
            created_at=AT,
            updated_at=AT,
            answer=f"Charged {CARD}, set {PASSWORD}.",
        )
        for n in (1, 2)
    ]
    said = json.dumps({"card_number": card, "password": PASSWORD, "order": 7})
    values = {UUID(int=1): RunValues(arguments=(said, "no JSON"), redact=("card_number",))}
    hidden, other = await clean_runs(runs, values=values)
    assert "4111" not in hidden.task
    assert "4111" not in str(hidden.answer)
    assert PASSWORD not in str(hidden.answer)
    assert "by-policy" in hidden.task
    assert card in other.task
