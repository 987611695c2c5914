"""What is known about a person, and what excludes one from approving."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from agent.domain.errors import Refusal
from signoff.values import Person

CHANNEL = "channel"
"""All current members of the review channel."""


def deciders(decided_by: Person | None, approved_by: tuple[Person, ...]) -> tuple[Person, ...]:
    """All whose word made a decision, in the order of their votes."""
    return approved_by or ((decided_by,) if decided_by else ())


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known about a person at a click.

    ``refusal``: why they may not act at all (guest, bot, failed lookup …). ``roles``: the ``approvers`` they match:
    user id, current groups, ``"channel"`` as a current member. An empty set is never consent.
    """

    person: Person
    roles: frozenset[str] = field(default_factory=frozenset)
    refusal: Refusal | None = None


class Involvement(StrEnum):
    """Involvements, the strongest first."""

    REQUESTER = "requester"  # asked for the action
    KEY_OWNER = "key_owner"  # their program asked
    INSTRUCTOR = "instructor"  # instructed a run of the family before the proposal
    ADVISER = "adviser"  # gave reasons or notes in own words before the proposal
    EDITOR = "editor"  # in any revision
    EARLIER_EDITOR = "earlier_editor"  # of an earlier call or question


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The person's approval does not count; stored with the request."""

    person: Person
    why: Involvement
