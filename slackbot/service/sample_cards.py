"""A message of each kind that the service sends, for Slack's own check of their form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from agent.domain.request import ExecutionStatus, RequestStatus, Verdict
from agent.domain.request_view import DecisionView, ExecutionView, RequestView, VoteView
from agent.domain.rules import Rule
from agent.domain.run import RunStatus, RunView
from signoff.values import Action, Person, Risk
from slackbot import cards
from slackbot.cards import Card, FloodDigest
from slackbot.cards.group_digest import GroupDigest, group_digest_card, titled_line

_LINK = "https://shop.slack.com/archives/C0/p1"
_REQUEST, _RUN, _CALL, _EXECUTION = (UUID(int=number) for number in (1, 2, 3, 4))


def sample_cards(person: Person, channel_id: str, at: datetime) -> Iterator[tuple[str, Card]]:
    """Each kind with a message about something that never happened. ``person``: named in it."""
    waiting = _view(person, channel_id, at)
    decided = {
        outcome: replace(
            waiting,
            status=outcome,
            decision=DecisionView(outcome, person, "It is what they ordered.", at),
            votes=(VoteView(person, verdict, "It is what they ordered.", at),),
        )
        for outcome, verdict in (
            (RequestStatus.APPROVED, Verdict.APPROVE),
            (RequestStatus.REJECTED, Verdict.REJECT),
        )
    }
    attempt = ExecutionView(_EXECUTION, 1, ExecutionStatus.IN_DOUBT, at, at, "its worker stopped")
    yield "a card that waits", cards.request_card(waiting)
    for outcome, view in decided.items():
        yield f"a card that is {outcome.word}", cards.request_card(view)
    yield (
        "a card in doubt",
        cards.request_card(replace(decided[RequestStatus.APPROVED], execution=attempt)),
    )
    yield "a card in plain form", cards.plain_request_card(waiting, delivery_id=None, findable=True)
    yield "the full text of a request", cards.request_details(waiting)
    yield "a run's message", cards.run_root(_run(person, channel_id, at))
    told = {"people": [person.user_id], "ending": "rejected", "reason": "It is in dispute."}
    answer = cards.run_line({"line": "answer", "text": "It is **refunded**:\n\n* order 7", **told})
    yield "an answer", answer
    yield "an outcome as a direct message", cards.outcome_message(answer, "refunds: refund order 7", _LINK)
    body = _body(person, at)
    about_request = [cards.thread_line({**body, "line": kind}) for kind in (*cards.REQUEST_LINES, "closed")]
    about_run = [cards.run_line({**body, "line": kind}) for kind in cards.RUN_LINES]
    yield "a request's lines", cards.combine_lines(about_request)
    yield "a run's lines", cards.combine_lines(about_run)
    yield "a line in plain form", cards.plain_message(about_request[0], findable=True)
    digest = FloodDigest("refunds", 12, Risk.HIGH, {"process_refund": 12}, at, ())
    yield "a digest", cards.flood_digest_card(digest)
    yield "an ended digest", cards.flood_digest_card(replace(digest, waiting=0))
    yield "an earlier digest", cards.outdated_digest_card("refunds", _LINK)
    group = GroupDigest("group:1", [waiting, waiting], 6, 2, at)
    yield "a group", group_digest_card(group, notify=True)
    yield "a decided group", group_digest_card(replace(group, waiting=0), notify=False)
    yield "a line of a group", titled_line(about_request[0], waiting)
    yield "a note about expired requests", cards.unseen_card(2, [waiting], channel_id=channel_id)
    week = {"about": "expired", "title": "Expired", "text": "3 of 40 (8 %) requests that ended"}
    yield "a week", cards.week_card({"since": at.isoformat(), "until": at.isoformat(), "lines": [week]})
    yield "help", cards.usage("/approvals")
    yield (
        "an error",
        cards.misunderstood_command("/agent", "There is no agent “refund”.", guess="/agent list"),
    )
    yield "a list of agents", cards.agent_list([cards.AgentLine("refunds", "1", ("process_refund",))])
    yield "a list of runs", cards.run_list([_run(person, channel_id, at)], cancellable=frozenset({_RUN}))
    yield "a start", cards.run_started(_run(person, channel_id, at))


def _body(person: Person, at: datetime) -> dict[str, Any]:
    """Everything that a line may say."""
    return {
        "team": person.team_id,
        "user": person.user_id,
        "reason": "It is another order.",
        "text": "wrong size",
        "at": at.isoformat(),
        "seconds": 1.2,
        "needed": 1,
        "people": [person.user_id],
        "changes": [{"path": "order_id", "before": 7, "after": 8}],
        "tool": "process_refund",
        "run": str(_RUN),
        "execution": str(_EXECUTION),
        "open": str(_REQUEST),
    }


def _view(person: Person, channel_id: str, at: datetime) -> RequestView:
    rule = Rule(
        checkpoint_id="sample",
        action_pattern="process_refund",
        risk=Risk.HIGH,
        on_reject="stop",
        allow_edit=True,
        allow_grants=True,
        money=("facts.price",),
    )
    action = Action("process_refund", "1", {"order_id": 7, "note": "wrong size", "lines": [{"item": "desk"}]})
    return RequestView(
        id=_REQUEST,
        status=RequestStatus.WAITING,
        revision=1,
        action=action,
        digest=action.digest,
        facts={"price": 1499.0, "currency": "EUR"},
        previous_facts=None,
        description="Refund 1,499.00 EUR for order 7",
        rationale="The customer got the wrong size.",
        agent="refunds",
        agent_version="1",
        run_id=_RUN,
        call_id=_CALL,
        source="run",
        requester=person,
        requester_asserted="slack",
        rule=rule,
        checkpoint_id=rule.checkpoint_id,
        risk=rule.risk,
        approvers=rule.approvers,
        approvals_required=2,
        team_id=person.team_id,
        channel_id=channel_id,
        created_at=at,
        expires_at=at + timedelta(hours=24),
        place_nonce="sample-of-a-card",
        link="https://shop.example/orders/7",
    )


def _run(person: Person, channel_id: str, at: datetime) -> RunView:
    return RunView(
        id=_RUN,
        agent="refunds",
        agent_version="1",
        task="Refund order 7",
        status=RunStatus.PENDING_APPROVAL,
        cause=None,
        requester=person,
        parent_run_id=None,
        channel_id=channel_id,
        thread_ts=None,
        turn=1,
        steps=1,
        tokens=0,
        awaiting_calls=1,
        created_at=at,
        updated_at=at,
        waiting=1,
    )
