"""The terms of consent: who may decide a request, who may not, how many have to agree, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agent.domain.audit import moment, terms_digest
from agent.domain.people import Exclusion
from signoff.values import Person


@dataclass(frozen=True, slots=True)
class ConsentTerms:
    """The audit log has their digest, as `terms` of the event that opened the request or changed them last."""

    approvers: tuple[str, ...]
    requester: Person | None
    excluded: tuple[Exclusion, ...]
    approvals_required: int
    expires_at: datetime

    @property
    def content(self) -> tuple[object, ...]:
        """The order of people does not matter."""
        return (
            sorted(self.approvers, key=repr),
            _person(self.requester),
            sorted((*_person(each.person), each.why) for each in self.excluded),
            self.approvals_required,
            moment(self.expires_at),
        )

    @property
    def digest(self) -> str:
        """SHA-256 in hex."""
        return terms_digest(self.content)


def _person(person: Person | None) -> tuple[str, ...]:
    return (person.team_id, person.user_id) if person else ()
