"""The values that cards are made of and answered with; the ids here are part of every message ever posted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agent.domain.request import RequestView

Json = dict[str, Any]
"""A piece of Block Kit."""

ACTION_APPROVE = "signoff:approve"
ACTION_REJECT = "signoff:reject"
ACTION_ASK_AGAIN = "signoff:ask_again"
ACTION_RETRY = "signoff:retry"
ACTION_DONE = "signoff:done"
ACTION_DETAILS = "signoff:details"

CALLBACK_REJECT = "signoff:reject_modal"
REASON_BLOCK = "signoff:reason"
REASON_INPUT = "signoff:reason_input"

EVENT_TYPE = "signoff_card"
"""The `event_type` of the metadata on everything that delivery posts."""

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NONCE = re.compile(r"[A-Za-z0-9_-]{8,128}\Z", re.ASCII)
_VALUE = re.compile(
    rf"(?P<nonce>[A-Za-z0-9_-]{{8,128}})\.(?P<request>{_UUID})\.(?P<revision>[1-9][0-9]{{0,8}})"
    rf"(?:\.(?P<execution>{_UUID}))?\Z",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Card:
    """A message: its fallback text (mrkdwn, what a phone's notification shows), its blocks and its metadata.

    Metadata can be read by the whole workspace: it holds ids, never arguments. Post it with
    `parse="none"`, `link_names=False`, `unfurl_links=False` and `unfurl_media=False`.
    """

    text: str
    blocks: list[Json]
    metadata: Json | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """What ids are called in Slack, for places where a mention would ping. Unknown ids show as they are."""

    people: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)

    def of(self, slack_id: str) -> str:
        """The name of a user or a user group; text from people, so not inert yet."""
        name = self.people.get(slack_id) or self.groups.get(slack_id)
        return f"@{name}" if name else slack_id


@dataclass(frozen=True, slots=True)
class ButtonValue:
    """What a button says that it is about: a claim, which the use case compares with what is stored."""

    nonce: str
    request_id: UUID
    revision: int
    execution_id: UUID | None = None

    def __str__(self) -> str:
        """The text of `button.value`. Raises ValueError for a nonce that could not be read back."""
        if not _NONCE.match(self.nonce):
            raise ValueError("a place nonce has 8 to 128 characters of A-Z, a-z, 0-9, _ and -")
        execution = f".{self.execution_id}" if self.execution_id else ""
        return f"{self.nonce}.{self.request_id}.{self.revision}{execution}"


def button_value(view: RequestView, execution_id: UUID | None = None) -> str:
    """The value of a button on the card at the place that `view` is rendered for."""
    return str(ButtonValue(view.place_nonce, view.id, view.revision, execution_id))


def parse_button_value(text: object) -> ButtonValue | None:
    """Read a button's value, or a modal's `private_metadata`; None for everything that we never wrote."""
    found = _VALUE.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    execution = found["execution"]
    return ButtonValue(
        nonce=found["nonce"],
        request_id=UUID(found["request"]),
        revision=int(found["revision"]),
        execution_id=UUID(execution) if execution else None,
    )


def metadata(delivery_id: object | None, **ids: object | None) -> Json:
    """Message metadata by which delivery recognises a post whose answer was lost."""
    known = {"delivery": delivery_id, **ids}
    payload = {name: str(value) for name, value in known.items() if value is not None}
    return {"event_type": EVENT_TYPE, "event_payload": payload}
