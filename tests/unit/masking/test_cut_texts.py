"""What is cut keeps no readable piece of a secret, wherever the cut falls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from agent.domain.ancestors import label_of
from agent.domain.outbound import OutboundEvent, OutboundMessage
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.request_list import HistoryLine
from agent.domain.request_view import Change, DecisionView, ExecutionView, RequestView
from agent.domain.rules import Defaults, Rule
from agent.domain.run import Message, RunStatus, RunView
from agent.runtime import transcript
from agent.runtime.stored_text import error_text, result_text
from agent.store import outbox
from agent.store.outbox import Destination
from signoff.context_limit import fit_context
from signoff.description import MAX_STORED, bounded, quoted, shown
from signoff.values import Action, Person, Risk
from slackbot import cards
from slackbot.cards import inert
from slackbot.masking import clean_bodies, clean_event, clean_lines, clean_now, clean_run, clean_view
from slackbot.masking.search_words import words_of_request
from slackbot.masking.slack_payloads import clean_payload
from slackbot.outbound.mail import message
from slackbot.web.api.generated_description import generated
from slackbot.web.api.shapes import ReviewOut
from tests.planted import SECRETS, URL_PASSWORD
from tests.unit.cards.conftest import make_view

AT = datetime(2027, 1, 30, 9, 0, tzinfo=UTC)
GRACE = Person("T0TEAM", "U0GRACE")
PASSWORD = "correct-horse" + "-battery-staple-9"

WRITTEN: Mapping[str, str] = {
    **SECRETS,
    "connection-url": f"postgres://joe:{URL_PASSWORD}@db.example/shop",
    "long-connection-url": f"amqps://joe:{URL_PASSWORD * 15}@mq.example/",
    "named": f"password={PASSWORD}",
    "named-json": json.dumps({"api_key": PASSWORD}),
    "named-header": f"Authorization: Bearer {PASSWORD}",
}
"""Secrets as they stand in a text."""

_PASSWORDS = {"connection-url": URL_PASSWORD, "long-connection-url": URL_PASSWORD}
_PUBLIC = (
    "github_pat_",
    "AccountKey=",
    "https://hooks.slack.com/services/",
    "-----BEGIN RSA PRIVATE KEY-----\n",
)
LIMITS = (60, 75, 80, 100, 120, 150, 160, 200, 300, 500, 600, 900, 1000, 1500, 2000, 3000, 4000)
_LOOKS_LIKE = str.maketrans({"ˍ": "_", "꞉": ":", "․": ".", "∗": "*", "∼": "~", "＃": "#", "＠": "@"})


def secret_of(kind: str) -> str:
    body = _PASSWORDS.get(kind) or (PASSWORD if kind.startswith("named") else WRITTEN[kind])
    for public in _PUBLIC:
        body = body.removeprefix(public)
    return body


def leaks(kind: str, texts: Any) -> str | None:
    """Nine characters from its beginning, and where they stand."""
    said = json.dumps(texts, ensure_ascii=False, default=str) if not isinstance(texts, str) else texts
    said = said.translate(_LOOKS_LIKE)
    start = secret_of(kind)[:9]
    return said[max(0, said.find(start) - 80) :][:200] if start in said else None


RULE = Rule(
    checkpoint_id="telling",
    action_pattern="tell",
    **Defaults(approvers=("S0DESK",)).terms() | {"on_reject": "tell_model"},
)
TEMPLATED = RULE.model_copy(update={"description_template": "Say {args.note} to {args.who}, {facts.why}"})


def rendered(rule: Rule, text: str) -> str:
    action = Action("tell", "1", {"note": text, "who": "Ada", "deep": {"list": [text]}})
    return rule.describe(action, {"why": text})


def views_of(text: str) -> Iterator[RequestView]:
    """A request in whose texts this stands, each stored as the service stores it."""
    arguments = {"note": text, "who": "Ada", "deep": {"list": [text]}}
    messages = [Message(1, "user", 0, text, None, AT)]
    for description in (rendered(RULE, text), rendered(TEMPLATED, text), f"The agent says: {quoted(text)}"):
        yield make_view(
            action=Action("tell", "1", arguments),
            facts={"why": text},
            description=description,
            rationale=text,
            context=transcript.context(text, messages, ()) | {"agent_context": fit_context(text, {})},
            requester=GRACE,
            label=label_of(text),
            changes=(Change("$.note", text, "short"),),
            status=RequestStatus.APPROVED,
            decision=DecisionView(RequestStatus.APPROVED, GRACE, text, AT),
            execution=ExecutionView(
                UUID(int=1),
                1,
                ExecutionStatus.FAILED,
                AT,
                AT,
                error_text(RuntimeError(text)),
                result=result_text(text),
            ),
        )


async def surfaces(text: str) -> list[Any]:
    """Everything that shows a request or a run with this text."""
    seen: list[Any] = []
    for stored in views_of(text):
        waiting = replace(stored, status=RequestStatus.WAITING, decision=None, execution=None)
        for view in (await clean_view(stored), await clean_view(replace(waiting, id=UUID(int=9)))):
            card = cards.request_card(view)
            seen += [card.text, card.blocks, cards.request_card(view, whole=True).blocks]
            seen += [cards.plain_request_card(view, delivery_id=None, findable=False).blocks]
            seen += [cards.details_text(view), cards.home(cards.HomeView(waiting=[view]))]
            seen += [ReviewOut.of(view).model_dump(mode="json"), await words_of_request(view)]
            mail = message(NOTICE, "a@b.example", view, "https://x.example/1", "s@x.example")
            seen += [mail["Subject"], *(part.get_content() for part in mail.iter_parts())]
        seen += list(await lists(stored))
    seen += await lines(text)
    return seen


NOTICE = OutboundMessage(
    UUID(int=3), OutboundEvent.REQUEST_OPENED, None, "a@b.example", UUID(int=1), None, 1, AT
)


async def lists(view: RequestView) -> Iterator[Any]:
    line = HistoryLine(
        id=view.id,
        description=view.description,
        agent="desk",
        risk=Risk.LOW,
        status=RequestStatus.REJECTED,
        requester=GRACE,
        created_at=AT,
        expires_at=AT,
        channel_id="C0REVIEW",
        message_ts=None,
        approvals=0,
        approvals_required=1,
        label=view.label,
    )
    [clean] = await clean_lines([line])
    return iter(
        [clean.description, clean.chain, inert.line(clean.description, 160), clean_now(view.description)]
    )


async def lines(text: str) -> list[Any]:
    there = Destination("T0TEAM", "C0REVIEW")
    about = RULE.describe(Action("tell", "1", {"note": text}), None)
    bodies = [
        outbox.edited_line(there, UUID(int=1), GRACE, 2, [Change("$.note", text, {"deep": text})]).body,
        outbox.run_line(there, UUID(int=1), "pending", text=about).body,
        outbox.request_line(
            there, UUID(int=1), "failed", text=bounded(error_text(RuntimeError(text)), 4000)
        ).body,
    ]
    clean = await clean_bodies(bodies)
    run = RunView(
        id=UUID(int=1),
        agent="desk",
        agent_version="1",
        task=text,
        status=RunStatus.FAILED,
        cause=bounded(text, 500),
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
        label=label_of(text),
        progress=bounded(text, 1500),
    )
    root = cards.run_root(await clean_run(run))
    events = [
        clean_event(
            None,
            "",
            {"event": "it failed", "error": error_text(RuntimeError(text)), "cut": bounded(text, 300)},
        )
    ]
    drawn = [(cards.run_line if body["line"] == "pending" else cards.thread_line)(body) for body in clean]
    return [*clean, *([card.text, card.blocks] for card in (*drawn, root)), *events]


STORABLE = st.characters(codec="utf-8", exclude_characters="\x00")
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""An example is one long text through fifty surfaces."""

FILLERS = ("x", "lorem ", "a.b,", "日", "“x” ")


def filled(filler: str, length: int, kind: str, after: str) -> str:
    head = (filler * length)[: max(0, length - 1)]
    return f"{head} {WRITTEN[kind]}{after}"


@settings(deadline=None, max_examples=40, phases=NO_SHRINKING)
@given(
    st.sampled_from(sorted(WRITTEN)),
    st.sampled_from(FILLERS),
    st.sampled_from(LIMITS),
    st.integers(-130, 3),
    st.sampled_from(["", " and more", "\n" + "rest " * 900]),
)
@example("connection-url", "x", 60, -25, "")
@example("aws-key", "x", 60, -18, "")
async def test_no_cut_leaves_a_readable_prefix(
    kind: str, filler: str, limit: int, offset: int, after: str
) -> None:
    """On every surface and around every limit, at most eight characters of a secret's beginning can be read."""
    text = filled(filler, max(0, limit + offset), kind, after)
    for seen in await surfaces(text):
        assert leaks(kind, seen) is None
    shown_by_slack = await clean_payload(
        {"text": inert.line(text, limit), "blocks": [{"text": text[:limit] + "…"}]}
    )
    assert kind in NOT_KNOWN_CUT or leaks(kind, shown_by_slack) is None


NOT_KNOWN_CUT = frozenset({"telegram-token", "discord-token", "mailchimp-key", "named-header"})
"""These begin like anything: whoever cuts them before the service has them leaves what nobody can recognise."""


@settings(deadline=None, max_examples=100, phases=NO_SHRINKING)
@given(st.sampled_from(sorted(WRITTEN.keys() - NOT_KNOWN_CUT)), st.integers(0, 100), st.data())
def test_what_was_stored_cut_is_masked_at_its_end(kind: str, before: int, data: st.DataObject) -> None:
    """Cut by an earlier version or a program within a known secret, a value shows no more than eight characters."""
    text = f"{'x' * before} {WRITTEN[kind]}"
    end = data.draw(st.integers(before, len(text) - 1))
    value = f"“{text[:end]}…” (+{len(text) - end} characters)"
    for stored in (
        value,
        f"tell(note: {value})",
        f"{text[:end]}… (+7 characters)",
        f"{text[:end]} [… 7 of 9 left out …]",
    ):
        assert leaks(kind, clean_now(stored)) is None
    described = generated(Action("tell", "1", {"note": text, "deep": [text]}))
    assert leaks(kind, clean_now(described)) is None


@pytest.mark.parametrize("length", [200, 300, 500, 1000, 4000, 20_000])
def test_what_was_stored_cut_without_a_sign_is_masked_at_its_end(length: int) -> None:
    """Earlier versions cut errors and reports at a length, and said nothing."""
    for kind in sorted(WRITTEN.keys() - NOT_KNOWN_CUT):
        for readable in range(9, min(40, len(WRITTEN[kind])), 5):
            text = f"{'x' * (length - readable - 1)} {WRITTEN[kind][:readable]}"
            assert leaks(kind, clean_now(text)) is None


@given(st.text(STORABLE, max_size=700), st.text(STORABLE, max_size=80), st.integers(0, 700))
def test_a_description_has_a_bounded_size_and_shows_what_it_showed(text: str, name: str, number: int) -> None:
    """Whatever the arguments are, a list's row costs a bounded search; short values are stored as they are shown."""
    arguments = {name: text, "n": number, "list": [text] * number}
    stored = RULE.describe(Action("tell", "1", arguments), None)
    assert len(stored) <= MAX_STORED + 40
    assert len(shown(stored)) <= 700
    assert not {"\u2068", "\u2069"} & set(shown(stored))
    # A sign that looks like a quotation mark is shown as its code, which has up to nine characters.
    short = RULE.describe(Action("tell", "1", {"note": text[:20]}), None)
    assert shown(short) == short


def test_a_value_cannot_end_its_own_cut() -> None:
    """The marks around a long value are no characters of values, names or templates."""
    hostile = "\u2069" + "x" * 100 + "\u2068"
    rule = RULE.model_copy(update={"description_template": "\u2068Say {args.note}, \u2069please"})
    said = shown(rule.describe(Action("tell", "1", {"note": hostile}), None))
    assert said.startswith("Say “⟦U+2069⟧xxx")
    assert said.endswith("characters), please")
    assert len(said) < 100
