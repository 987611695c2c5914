"""Where a request has buttons (its card, and personal places: App Home, modals), and whether one was pressed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain import eligibility
from agent.domain.eligibility import Reviewable
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.request import Place, StoredPlace
from agent.store import card_places as stored
from agent.store import outbox, requests, views
from agent.store.outbox import Destination
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


OwnSurface = Literal["home", "modal"]


async def create_place(db: Database, request_id: UUID, surface: OwnSurface, person: Person) -> str:
    """The nonce with which this person may act there. Raises ``NotFound``."""
    found = await create_places(db, [request_id], surface, person)
    if request_id not in found:
        raise NotFound(f"no request {request_id}")
    return found[request_id]


async def create_places(
    db: Database, request_ids: Sequence[UUID], surface: OwnSurface, person: Person
) -> dict[UUID, str]:
    """Nonces by request id; existing places keep theirs."""
    if not request_ids:
        return {}
    found = await db.read(stored.personal, request_ids, surface, person)
    if new := [each for each in request_ids if each not in found]:
        async with db.transaction() as tx:
            found |= await stored.insert_personal(tx, new, surface, person)
    return found


async def redraw_card(db: Database, request_id: UUID) -> None:
    """Enqueue the redrawing of a request's card, or of its group's message, if it has been posted."""
    async with db.transaction() as tx:
        if (message := await stored.message_of(tx, request_id)) is not None:
            outbox.enqueue(tx, [message])


async def take_card_to_look_at(db: Database, team_id: str) -> tuple[Destination, str] | None:
    """A card that people need, with its ``ts``, whose message nobody has seen to stand for an hour."""
    async with db.transaction() as tx:
        return await stored.take_to_look_at(tx, team_id)


async def look_at_card_again(db: Database, there: Destination, ts: str, seconds: float) -> None:
    """Set the time, in seconds from now, at which to check again that the card's message still exists."""
    async with db.transaction() as tx:
        await stored.look_again(tx, there, ts, seconds)


async def replace_deleted_card(db: Database, team_id: str, channel_id: str, ts: str) -> None:
    """Post a deleted card again while people need it; a group's message, too."""
    there = Destination(team_id, channel_id)
    async with db.transaction() as tx:
        if (group := await stored.group_at(tx, there, ts)) is not None:
            outbox.enqueue(tx, [outbox.digest(there, group)])
            return
        request_id = await stored.request_of_card(tx, there, ts)
        view = await views.request_view(tx, request_id) if request_id else None
        if view is not None and view.needs_people:
            outbox.enqueue(tx, [outbox.card(there, view.id)])
