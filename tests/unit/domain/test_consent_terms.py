"""The digest of the terms of consent."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from agent.domain.consent_terms import ConsentTerms
from agent.domain.people import Exclusion, Involvement
from signoff.values import Person

ADA, GRACE, LINUS = (Person("T0SIGNOFF", user) for user in ("U0ADA", "U0GRACE", "U0LINUS"))
EXCLUDED = (Exclusion(ADA, Involvement.REQUESTER), Exclusion(LINUS, Involvement.ADVISER))
TERMS = ConsentTerms(("S0FINANCE", "U0GRACE"), ADA, EXCLUDED, 2, datetime(2026, 11, 23, 12, tzinfo=UTC))

OTHERS: dict[str, tuple[Any, ...]] = {
    "approvers": ((), ("S0FINANCE",), ("S0FINANCE", "U0GRACE", "U0EVE"), ("S0FINANCE,U0GRACE",)),
    "requester": (None, GRACE, Person("T0OTHER", "U0ADA")),
    "excluded": (
        *((), EXCLUDED[:1], (*EXCLUDED, Exclusion(GRACE, Involvement.EDITOR))),
        (EXCLUDED[0], Exclusion(LINUS, Involvement.EDITOR)),
    ),
    "approvals_required": (1, 3),
    "expires_at": (TERMS.expires_at + timedelta(microseconds=1),),
}


def test_every_term_is_in_the_digest() -> None:
    """Whatever differs in any term, the digest does."""
    assert {each.name for each in fields(ConsentTerms)} == OTHERS.keys()
    others = [replace(TERMS, **{name: value}) for name, values in OTHERS.items() for value in values]
    assert len({each.digest for each in (TERMS, *others)}) == 1 + len(others)


def test_the_same_terms_have_one_digest() -> None:
    """Neither the order of people nor the time zone of the deadline matters."""
    east = TERMS.expires_at.astimezone(timezone(timedelta(hours=2)))
    same = replace(TERMS, approvers=TERMS.approvers[::-1], excluded=EXCLUDED[::-1], expires_at=east)
    assert same.digest == TERMS.digest
