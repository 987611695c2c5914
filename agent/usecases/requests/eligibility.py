"""Whether somebody may act on a locked request now, at the place where they did. In doubt they may not."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from agent.database.transaction import Transaction
from agent.domain.errors import Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import Place, RequestStatus
from agent.store import requests
from signoff.values import Person

DIRECTLY = "direct"
"""The `path` in the record of what came by none of our doors: a program called the use case itself."""


def vote_refusal(
    request: Row[Any], state: Row[Any], who: Standing, place: Place | None, revision: int
) -> Refused | None:
    """Why this person's act on this revision does not count, or ``None``.

    ``request`` and ``state`` are what ``request_locks.lock_for_vote`` found.
    """
    if place is not None and not _fits(state, place, who.person):
        return Refused(Refusal.WRONG_PLACE)
    if who.refusal is not None:
        return Refused(who.refusal)
    if not request.approvers:
        return Refused(Refusal.NO_REVIEWERS)
    if not who.roles & set(request.approvers):
        return Refused(Refusal.NOT_A_REVIEWER)
    if (own := conflict_of_interest(request, state, who.person)) is not None:
        return Refused(own)
    if (ended := _ended(request, state)) is not None:
        return ended
    if revision != request.revision:
        return Refused(Refusal.STALE_REVISION)
    return None


def conflict_of_interest(request: Row[Any], state: Row[Any], person: Person) -> Refusal | None:
    """What they had themselves to do with it that keeps them from reviewing it, or ``None``.

    Who spoke to the agent before it proposed the call has asked for it as much as who started the run.
    """
    if not request.prevent_self_review:
        return None
    if person in (requester(request), key_owner(state)):
        return Refusal.SELF_REVIEW
    return Refusal.INSTRUCTED if [person.team_id, person.user_id] in state.instructors else None


def requester(request: Row[Any]) -> Person | None:
    """On whose behalf it was asked."""
    if request.requester_user_id is None:
        return None
    return Person(request.requester_team_id, request.requester_user_id)


def key_owner(state: Row[Any]) -> Person | None:
    """Whose program asked. It may name somebody else as the requester; its owner asked all the same."""
    return Person(state.asker_team, state.asker_user) if state.asker_user is not None else None


def editor(revision: Row[Any]) -> Person | None:
    """Whose edit made it."""
    if revision.editor_user_id is None:
        return None
    return Person(revision.editor_team_id, revision.editor_user_id)


def bind_place(tx: Transaction, state: Row[Any], place: Place | None) -> None:
    """An act that counts says which message the card is, while its ``ts`` is not saved."""
    if place is not None and state.surface == "channel" and state.place_ts is None and place.message_ts:
        requests.bind_place(tx, place.nonce, place.message_ts)


def _ended(request: Row[Any], state: Row[Any]) -> Refused | None:
    status = RequestStatus(request.status)
    if status is RequestStatus.CANCELLED:
        return Refused(Refusal.WITHDRAWN)
    late = status is RequestStatus.WAITING and request.expires_at <= state.now
    if status is RequestStatus.EXPIRED or late:
        return Refused(Refusal.EXPIRED, at=request.expires_at)
    if status is not RequestStatus.WAITING:
        by, at = state.decided_by, request.decided_at
        return Refused(Refusal.ALREADY_DECIDED, outcome=status.value, by=by, at=at)
    return None


def _fits(state: Row[Any], place: Place, voter: Person) -> bool:
    """The stored place is where the click came from; an unsaved ``ts`` binds to the first valid click.

    A place outside a channel belongs to one person.
    """
    if state.surface != place.surface:
        return False
    if state.surface != "channel":
        return (state.place_team, state.place_user) == (voter.team_id, voter.user_id)
    return state.place_channel == place.channel_id and state.place_ts in (None, place.message_ts)
