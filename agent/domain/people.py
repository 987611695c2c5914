"""People's identity, and what disqualifies their vote."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from agent.domain.errors import Refusal
from signoff.values import Person

CHANNEL = "channel"
"""All current members of the review channel, in `approvers`."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known about a person at a click.

    ``refusal``: why they may not act at all (guest, bot, failed lookup …). ``roles``: the ``approvers`` that they
    match: their user id, current groups, ``"channel"`` as a current member. An empty set is never consent.
    """

    person: Person
    roles: frozenset[str] = field(default_factory=frozenset)
    refusal: Refusal | None = None


class Involvement(StrEnum):
    """Kinds of involvement, the strongest first."""

    REQUESTER = "requester"  # asked for the action
    KEY_OWNER = "key_owner"  # their program asked
    INSTRUCTOR = "instructor"  # told the agent or an ancestor what to do before it proposed
    ADVISER = "adviser"  # their own words reached the agent before it proposed
    EDITOR = "editor"  # changed arguments, in any revision


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A person whose approval does not count, and why; stored with the request."""

    person: Person
    why: Involvement
