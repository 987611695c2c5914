"""Pressed buttons: who pressed which, where.

Their work commits before Slack is acknowledged, so that what looks like success is success.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.database.errors import DatabaseRefuses
from agent.domain import eligibility
from agent.domain.answers import AnswerValue
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.request import Place, Verdict
from agent.domain.request_view import RequestView
from agent.store import views
from agent.usecases import requests
from signoff.values import Person
from slackbot.cards import ButtonValue, parse_button_value, parse_id
from slackbot.cards.values import CALLBACK_MORE
from slackbot.reviewing.votes import OUTCOME_UNKNOWN, NewVote
from slackbot.slack.listeners.catch_all import OLD_BUTTON
from slackbot.slack.listeners.context import ARRIVED, ListenerContext, log_failed
from slackbot.slack.listeners.modals import tell

GONE = "It no longer exists."

Work = Callable[[ListenerContext, dict[str, Any]], Awaitable[str | None]]
"""A button's work; returns a reply for the person."""


def add_button(app: AsyncApp, ctx: ListenerContext, action_id: str, work: Work) -> None:
    """Slack shows a failure, unacknowledged, on the button."""

    @app.action(action_id)
    async def pressed(ack: AsyncAck, body: dict[str, Any]) -> None:
        try:
            async with ctx.in_budget():
                sentence = await work(ctx, body)
        except Refused as refused:
            sentence = refused.sentence
        except NotFound:
            sentence = GONE
        except DatabaseRefuses as error:
            log_failed("a button failed", error)
            sentence = error.sentence
        except Exception:
            tell(ctx, body, OUTCOME_UNKNOWN)
            raise
        await ack()
        if sentence:
            tell(ctx, body, sentence)


def on_id(work: Callable[[ListenerContext, dict[str, Any], UUID], Awaitable[str | None]]) -> Work:
    """Wrap work on an id as a button's work; a value that is no id gets the reply for old buttons."""

    async def with_id(ctx: ListenerContext, body: dict[str, Any]) -> str | None:
        found = parse_id(body["actions"][0].get("value"))
        return await work(ctx, body, found) if found else OLD_BUTTON

    return with_id


_BY_BUTTON = {
    "channel": "slack_button",
    "home": "slack_home",
    "modal": "slack_details",
    "attachment": "slack_attachment",
}


_MORE = " more"


@dataclass(frozen=True, slots=True)
class ButtonClick:
    """A claim until compared with what is stored."""

    person: Person
    value: ButtonValue
    place: Place
    from_more: bool = False
    """In the form of *More…*, which counts where it was opened, and closes with what it opens."""

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> ButtonClick | None:
        """`None` for a button that Signoff never made."""
        view = body.get("view") or {}
        if view.get("callback_id") == CALLBACK_MORE:
            behind = cls.resume(body, view.get("private_metadata") or "")
            return replace(behind, from_more=True) if behind else None
        value = parse_button_value(body["actions"][0].get("value"))
        return None if value is None else cls(person_of(body), value, _place(value.nonce, body))

    @classmethod
    def resume(cls, body: Mapping[str, Any], carried: str) -> ButtonClick | None:
        from_more = carried.endswith(_MORE)
        text, *where = carried.removesuffix(_MORE).split(" ")
        value = parse_button_value(text)
        match where:
            case [("home" | "modal") as surface] if value:
                place = Place(value.nonce, surface)
            case [channel_id, message_ts] if value:
                place = Place(value.nonce, "channel", channel_id, message_ts)
            case _:
                return None
        return cls(person_of(body), value, place, from_more)

    def carry(self) -> str:
        """A modal's `private_metadata`, so that its submission counts where the button was pressed."""
        place, more = self.place, _MORE if self.from_more else ""
        if place.surface == "channel":
            return f"{self.value} {place.channel_id} {place.message_ts}{more}"
        return f"{self.value} {place.surface}{more}"

    @property
    def path(self) -> str:
        """For the audit log."""
        return _BY_BUTTON[self.place.surface]

    def vote(
        self, verdict: Verdict, path: str, reason: str | None = None, answer: AnswerValue | None = None
    ) -> NewVote:
        value = self.value
        return NewVote(
            self.person,
            value.request_id,
            value.revision,
            verdict,
            path,
            reason,
            self.place,
            answer=answer,
            arrived=ARRIVED.get(),
        )


def person_of(body: Mapping[str, Any]) -> Person:
    """The person, in the team that Slack says they belong to (not where it happened)."""
    user = body["user"]
    return Person(str(user.get("team_id") or ""), str(user["id"]))


def _place(nonce: str, body: Mapping[str, Any]) -> Place:
    container = body["container"]
    match container.get("type"):
        case "message":
            return Place(nonce, "channel", container.get("channel_id"), container.get("message_ts"))
        case "view":
            return Place(nonce, "home" if (body.get("view") or {}).get("type") == "home" else "modal")
        case _:  # an attachment, perhaps of another app's message: a place that no card has
            return Place(nonce, "attachment")


async def card_of(ctx: ListenerContext, click: ButtonClick) -> RequestView:
    """The request of a button by nonce, channel and (once known) `ts`. Raises Refused for a button in another place."""
    found = await ctx.db.read(views.request_at, click.value.request_id, click.place.nonce)
    if found is None or found[0].team_id != ctx.directory.own_team_id:
        raise Refused(Refusal.UNKNOWN_REQUEST)
    view, stored = found
    refused = requests.place_refusal(stored, click.place, click.person, view, needed=view.needs_people)
    if refused is not None:
        raise refused
    return replace(view, place_nonce=click.place.nonce)


async def waiting_card_of(ctx: ListenerContext, click: ButtonClick) -> RequestView:
    """`card_of`, for a form that decides or edits. Raises Refused, too, if nothing is left to decide."""
    view = await card_of(ctx, click)
    if (refused := eligibility.state_refusal(view, click.value.revision)) is not None:
        raise refused
    return view
