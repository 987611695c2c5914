"""People, as far as approvals need to know them: identity, and what disqualifies their vote."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from agent.domain.errors import Refusal
from signoff.values import Person

CHANNEL = "channel"
"""The entry of `approvers` for all current members of the review channel."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known about a person at the moment of a click.

    ``refusal``: why they may not act at all (guest, bot, failed lookup …). ``roles``: the ``approvers`` that they
    match: their user id, their current groups, ``"channel"`` as a current member of the review channel. An empty set is
    never consent.
    """

    person: Person
    roles: frozenset[str] = field(default_factory=frozenset)
    refusal: Refusal | None = None


class Involvement(StrEnum):
    """How a person was involved in a request before or while it waited; the strongest involvement first."""

    REQUESTER = "requester"  # asked for the action
    KEY_OWNER = "key_owner"  # their program asked, for any requester
    INSTRUCTOR = "instructor"  # told the agent or an ancestor what to do before it proposed the call
    ADVISER = "adviser"  # their own reason or note reached the agent before it proposed the call
    EDITOR = "editor"  # changed the arguments, in any revision


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A person whose approval of a request does not count, and why; stored with the request."""

    person: Person
    why: Involvement
