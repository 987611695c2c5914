"""Find contradictory keys in a checkpoints file, such as an unreachable quorum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agent.domain import checkpoint_fields
from agent.domain.rules import Terms

Problem = tuple[str | None, str]
"""A key (None: the table) and its problem."""


@dataclass(frozen=True)
class Written:
    """`written` may be invalid."""

    table: str
    index: int
    label: str
    written: Any

    def has(self, key: str) -> bool:
        return isinstance(self.written, dict) and key in self.written

    def first(self, *keys: str) -> str | None:
        """None: all are inherited, so the problem names the table."""
        return next((key for key in keys if self.has(key)), None)


def contradictions(place: Written, terms: Terms) -> Iterator[Problem]:
    """Yield each contradiction among a checkpoint's terms, as the key to blame and the problem."""
    yield from _quorum(place, terms)
    yield from _escalation(place, terms)
    yield from _mail(place, terms)
    if place.has("rejected_again") and terms.rejected_holds is None:
        yield "rejected_again", '"rejected_again" is used only with "rejected_holds"'


def _quorum(place: Written, terms: Terms) -> Iterator[Problem]:
    """Groups are counted only at the click, so check only people."""
    if not all(checkpoint_fields.is_user(approver) for approver in terms.approvers):
        return
    key = place.first("approvals_required", "allow_edit", "approvers")
    people, needed = len(set(terms.approvers)), terms.approvals_required
    apart = []
    if terms.prevent_self_review:
        apart.append(("the requester", '"prevent_self_review = false"'))
    if terms.allow_edit and not terms.editor_may_approve:
        apart.append(("the person who edits", '"editor_may_approve = true"'))
    if needed > people:
        yield key, f"{needed} approvals are required, but only {people} can be given"
    elif needed + len(apart) > people:
        who, instead = (" and ".join(words) for words in zip(*apart, strict=True))
        one = "is one" if len(apart) == 1 else "are two"
        more = needed + len(apart) - people
        left = f"when {who} {one} of the {people} approvers, too few are left to decide"
        yield key, f"{left}; list {more} more, or set {instead}"


def _escalation(place: Written, terms: Terms) -> Iterator[Problem]:
    escalates = terms.on_timeout == "escalate"
    if escalates and not terms.escalate_to and not place.has("escalate_to"):
        yield place.first("on_timeout"), '"on_timeout" is "escalate" and so needs "escalate_to"'
    elif escalates and terms.escalate_to and set(terms.escalate_to) <= set(terms.approvers):
        yield (
            place.first("escalate_to", "on_timeout"),
            '"escalate_to" names only people who may already decide',
        )
    elif not escalates and terms.escalate_to and place.table == "checkpoint" and place.has("escalate_to"):
        yield "escalate_to", '"escalate_to" is used only with an "on_timeout" of "escalate"'


def _mail(place: Written, terms: Terms) -> Iterator[Problem]:
    if place.table == "checkpoint" and place.has("email_facts") and terms.email_facts and not terms.email:
        yield "email_facts", '"email_facts" needs recipients in "email"'
