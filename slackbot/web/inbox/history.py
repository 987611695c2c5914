"""A request's audit events as steps that people read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from agent.domain.audit import AuditEvent, AuditKind, person_of
from agent.domain.errors import Refusal, sentence
from agent.domain.request import RequestStatus
from agent.domain.together import with_others
from agent.domain.verdicts import NOBODY_DECIDED, OUTCOMES, VERDICTS
from signoff.values import Person
from slackbot.cards import parse_id

_PATHS = {
    "slack_button": "on the card",
    "slack_details": "in the details",
    "slack_attachment": "in another message",
    "slack_home": "in App Home",
    "slack_modal": "in Slack's form",
    "slack_edit": "in Slack's form",
    "slack_thread": "in a thread",
    "slack_grant": "in Slack's form",
    "slack_list": "in a list in Slack",
    "cli": "on the command line",
    "page": "on this page",
    "page_row": "in the list of the inbox",
    "page_together": "on the page",
    "slack_together": "in Slack",
    "api": "through the API",
}
_WORDS: Mapping[str, str] = {
    AuditKind.REQUEST_OPENED: "asked for review",
    AuditKind.REQUEST_REOPENED: "asked again",
    AuditKind.REQUEST_REMINDED: "reminded the reviewers",
    AuditKind.REQUEST_ESCALATED: "escalated: nobody decided by the first deadline",
    AuditKind.REQUEST_EDITED: "changed the arguments; earlier votes stopped counting",
    AuditKind.REQUEST_EXPIRED: f"ended it: {NOBODY_DECIDED}",
    AuditKind.REQUEST_WITHDRAWN: "withdrew it",
    AuditKind.EXECUTION_CLAIMED: "began to run it",
    AuditKind.EXECUTION_SUCCEEDED: "finished it",
    AuditKind.EXECUTION_FAILED: "failed to do it",
    AuditKind.EXECUTION_IN_DOUBT: "does not know whether it happened",
    AuditKind.EXECUTION_LATE_RESULT: "reported a result too late to count",
    AuditKind.APPROVAL_LAPSED: "let the approval lapse: nobody claimed it in time",
    AuditKind.APPROVAL_CALLED_OFF: "voided the approval before the call began",
    AuditKind.GRANT_USED: "made a call that it allows",
    AuditKind.VOTE_REFUSED: "was not allowed to vote",
    AuditKind.EDIT_REFUSED: "was not allowed to edit it",
    AuditKind.CANCEL_REFUSED: "was not allowed to cancel it",
    AuditKind.ASK_AGAIN_REFUSED: "was not allowed to ask again",
    AuditKind.SETTLEMENT_REFUSED: "was not allowed to settle it",
    AuditKind.GRANT_REVOKE_REFUSED: "was not allowed to revoke it",
}
_SIGNS = {
    AuditKind.REQUEST_OPENED: "waiting",
    AuditKind.REQUEST_EXPIRED: "expired",
    AuditKind.REQUEST_WITHDRAWN: "cancelled",
    AuditKind.EXECUTION_CLAIMED: "working",
    AuditKind.EXECUTION_SUCCEEDED: "approved",
    AuditKind.EXECUTION_FAILED: "rejected",
    AuditKind.EXECUTION_IN_DOUBT: "doubt",
    AuditKind.GRANT_USED: "working",
    AuditKind.GRANT_ENDED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """The actors are people in Slack, or a system's name."""

    at: datetime
    people: tuple[Person, ...]
    name: str
    words: str
    door: str
    why: str
    sign: str
    together: str = ""
    """How a vote came in one form with others; empty if it came alone."""
    form: UUID | None = None
    """The form of several requests that cast it."""


Others = Mapping[tuple[UUID, Person], int]
"""On how many other requests a person voted by a form."""


def forms_of(events: Iterable[AuditEvent]) -> set[UUID]:
    """Return the forms of several requests that cast votes among these events."""
    return set(filter(None, map(_form, events)))


def steps(events: Iterable[AuditEvent], others: Others) -> list[HistoryStep]:
    """Return a request's audit events as steps that people read, in the given order."""
    return [_step(event, others) for event in events]


def actor_of(actor: str) -> tuple[str | None, str]:
    """Return an actor's Slack id, None for a system, and the name to show."""
    person = person_of(actor)
    return person.user_id if person else None, _name(actor)


def _step(event: AuditEvent, others: Others) -> HistoryStep:
    detail = event.detail
    actors = _strings(detail.get("approved_by")) or [event.actor]
    refusal = str(detail.get("refusal") or "")
    form, voter = _form(event), person_of(event.actor)
    why = sentence(Refusal(refusal)) if refusal in set(Refusal) else ""
    return HistoryStep(
        event.at,
        tuple(filter(None, map(person_of, actors))),
        _name(event.actor),
        _words(event.event, detail),
        _PATHS.get(str(detail.get("path") or ""), ""),
        why,
        _sign(event.event, detail),
        with_others(others.get((form, voter), 0)) if form and voter else "",
        form,
    )


def _form(event: AuditEvent) -> UUID | None:
    return parse_id(event.detail.get("together"))


def _words(kind: str, detail: Mapping[str, Any]) -> str:
    if kind == AuditKind.VOTE_CAST:
        vote = VERDICTS.get(str(detail.get("verdict")))
        return vote.outcome.status.word if vote else "voted"
    if kind == AuditKind.REQUEST_DECIDED:
        return f"decided it: {detail.get('outcome') or 'settled'}"
    if kind == AuditKind.EXECUTION_FAILED and detail.get("nothing_done"):
        return "did nothing"
    if kind == AuditKind.EXECUTION_RETRY_WANTED:
        return "voted for Retry, which needs more people"
    if kind == AuditKind.EXECUTION_SETTLED:
        settled = {"retry": "had it run again", "done": "marked it as done"}
        return settled.get(str(detail.get("verdict") or detail.get("as")), "settled it")
    if kind == AuditKind.GRANT_ENDED:
        return f"ended it: {detail.get('because')}"
    if kind == AuditKind.APPROVAL_LAPSED and detail.get("handed_over"):
        return "let the approval lapse: it had been handed over, and no outcome was reported"
    return _WORDS.get(kind) or kind.replace(".", " ").replace("_", " ")


def _sign(kind: str, detail: Mapping[str, Any]) -> str:
    if kind in (AuditKind.VOTE_CAST, AuditKind.REQUEST_DECIDED):
        vote = VERDICTS.get(str(detail.get("verdict")))
        approved = OUTCOMES[RequestStatus.APPROVED]
        return (vote.outcome if vote else OUTCOMES.get(str(detail.get("outcome")), approved)).status.value
    return {str(name): sign for name, sign in _SIGNS.items()}.get(kind, "")


def _strings(given: Any) -> list[str]:
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else []


def _name(actor: str) -> str:
    kind, _, name = actor.partition(":")
    match kind:
        case "agent":
            return f"The agent {name}"
        case "key":
            return f"The key {name}"
        case "worker" | "signoff":
            return "Signoff"
        case _:
            return name or actor
