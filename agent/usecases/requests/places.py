"""Was a button pressed on its own card?"""

from __future__ import annotations

from agent.database.transaction import Transaction
from agent.domain import eligibility
from agent.domain.eligibility import Reviewable
from agent.domain.errors import Refusal, Refused
from agent.domain.request import Place, StoredPlace
from agent.store import requests
from signoff.values import Person


def refusal(
    stored: StoredPlace | None,
    place: Place | None,
    person: Person,
    request: Reviewable,
    *,
    needed: bool = False,
) -> Refused | None:
    """An earlier card, which Slack did not let us change, answers with the outcome, unless people are ``needed``."""
    if place is None or (stored is not None and stored.fits(place, person)):
        return None
    if stored is None or not stored.is_closed_at(place):
        return Refused(Refusal.WRONG_PLACE)
    outcome = None if needed else eligibility.state_refusal(request, request.revision)
    return outcome or Refused(Refusal.EARLIER_CARD)


def bind(tx: Transaction, stored: StoredPlace | None, place: Place | None) -> None:
    """Store the card's ``ts`` from a click that counts, if not saved when posted."""
    if place is None or stored is None or not place.message_ts:
        return
    if stored.surface == "channel" and stored.message_ts is None:
        requests.bind_place(tx, place.nonce, place.message_ts)
