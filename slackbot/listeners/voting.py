"""From a press to a vote: what a payload claims, who stands behind it, and the use case that judges both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent import approvals
from agent.domain.errors import Refusal, Refused
from agent.domain.request import Place, RequestView, Verdict
from agent.store import reads
from agent.store.reads import BallotPaper, StoredPlace
from signoff.values import Person
from slackbot import deciding
from slackbot.cards import ButtonValue, parse_button_value
from slackbot.listeners.doors import Doors

_BY_BUTTON = {"channel": "slack_button", "home": "slack_home", "modal": "slack_details"}


@dataclass(frozen=True, slots=True)
class Press:
    """Who pressed which button where. All of it is a claim until it is compared with what is stored."""

    person: Person
    value: ButtonValue
    place: Place

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Press | None:
        """From a `block_actions` payload; `None` for a button that we never made."""
        value = parse_button_value(body["actions"][0].get("value"))
        return None if value is None else cls(person_of(body), value, _place(value.nonce, body))

    @classmethod
    def resume(cls, body: Mapping[str, Any], carried: str) -> Press | None:
        """From the submission of a modal that `carry` was put into; it counts at the place that was pressed."""
        text, *place = carried.split(" ")
        value = parse_button_value(text)
        match place:
            case [("home" | "modal") as surface] if value:
                return cls(person_of(body), value, Place(value.nonce, surface))
            case [channel_id, message_ts] if value:
                return cls(person_of(body), value, Place(value.nonce, "channel", channel_id, message_ts))
            case _:
                return None

    def carry(self) -> str:
        """What a modal's `private_metadata` says, so that its submission counts where the button was pressed."""
        if self.place.surface == "channel":
            return f"{self.value} {self.place.channel_id} {self.place.message_ts}"
        return f"{self.value} {self.place.surface}"

    @property
    def path(self) -> str:
        """By which door the press came, for the record."""
        return _BY_BUTTON[self.place.surface]


def person_of(body: Mapping[str, Any]) -> Person:
    """Who acted, by the team that Slack says the person belongs to (not the workspace it happened in)."""
    user = body["user"]
    return Person(str(user.get("team_id") or ""), str(user["id"]))


def _place(nonce: str, body: Mapping[str, Any]) -> Place:
    container = body["container"]
    if container.get("type") == "message":
        return Place(nonce, "channel", container.get("channel_id"), container.get("message_ts"))
    return Place(nonce, "home" if (body.get("view") or {}).get("type") == "home" else "modal")


async def paper_of(doors: Doors, press: Press) -> BallotPaper:
    """What is known of the request before a vote. Raises Refused."""
    return await deciding.paper_of(doors.db, doors.directory, press.value.request_id)


async def cast(
    doors: Doors,
    press: Press,
    verdict: Verdict,
    *,
    path: str,
    reason: str | None = None,
    paper: BallotPaper | None = None,
) -> approvals.Voted:
    """Count this person's word at the place where it was given. Raises as `deciding.cast` does."""
    return await deciding.cast(
        doors.db,
        doors.directory,
        press.person,
        press.value.request_id,
        press.value.revision,
        verdict,
        path=path,
        reason=reason,
        place=press.place,
        paper=paper,
    )


async def card_of(doors: Doors, press: Press) -> RequestView:
    """The request that a button is about, for the place where it was pressed.

    Raises Refused for a button that does not belong there. A card whose post is not known to have arrived has no
    `ts` yet: its secret nonce and its channel have to do.
    """
    async with doors.db.connection() as connection:
        view = await reads.request_view(connection, press.value.request_id)
        stored = await reads.place_for(connection, press.value.request_id, press.place.nonce)
    if view is None or stored is None or view.team_id != doors.directory.own_team_id:
        raise Refused(Refusal.UNKNOWN_REQUEST)
    if not _fits(stored, press):
        raise Refused(Refusal.WRONG_PLACE)
    return replace(view, place_nonce=press.place.nonce)


def _fits(stored: StoredPlace, press: Press) -> bool:
    if stored.surface != press.place.surface:
        return False
    if stored.surface != "channel":
        return stored.person == press.person
    here = (press.place.channel_id, press.place.message_ts)
    return here == (stored.channel_id, stored.message_ts or press.place.message_ts)
