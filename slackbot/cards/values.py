"""Values in cards and their answers. These ids are part of every message ever posted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agent.domain.request import Verdict
from agent.domain.request_view import RequestView
from agent.domain.verdicts import ON_APPROVAL

Json = dict[str, Any]
"""A piece of Block Kit."""

ACTION_VOTE = {verdict: f"signoff:{verdict}" for verdict in ON_APPROVAL}
ACTION_APPROVE, ACTION_REJECT = ACTION_VOTE[Verdict.APPROVE], ACTION_VOTE[Verdict.REJECT]
ACTION_ASK_AGAIN = "signoff:ask_again"
ACTION_RETRY = "signoff:retry"
ACTION_DONE = "signoff:done"
ACTION_ANSWER = "signoff:answer"
"""A page value for the agent's full answer."""
ACTION_GIVE_ANSWER = "signoff:give_answer"
"""Opens the form of a question that wants more than yes or no."""
ACTION_CHOOSE = tuple(f"signoff:choose_{at}" for at in range(4))
"""One press on the question's option of this number."""
ACTION_RETRY_CALL = "signoff:retry_call"
ACTION_DONE_CALL = "signoff:done_call"
ACTION_RESUME_RUN = "signoff:resume_run"
"""For a call without a card, in a run's thread; the value of Retry and Mark as done is the execution's id."""
ACTION_DETAILS = "signoff:details"
ACTION_MORE = "signoff:more"
"""The form with what few reviewers need. Older cards have its buttons themselves."""
ACTION_APPROVE_COMMENT = "signoff:approve_comment"
ACTION_EDIT = "signoff:edit"
ACTION_ALLOW_SIMILAR = "signoff:allow_similar"
ACTION_REVOKE = "signoff:revoke_grant"
ACTION_REVOKE_LISTED = "signoff:revoke_listed_grant"
"""In a list, the value is the grant's id."""
ACTION_FILE = "signoff:file"
"""A button value like Approve's."""
ACTION_LINK = "signoff:link"
"""Slack sends an action for this URL button, which must be acknowledged and means nothing."""
ACTION_OPEN = "signoff:open"
"""Details from a list; the value is only the request's id: a list has no place."""
ACTION_CANCEL_RUN = "signoff:cancel_run"
ACTION_LIST = "signoff:list"
"""A page value."""
ACTION_DECIDE_TOGETHER = "signoff:decide_together"
"""A page value. Opens the form for several requests."""
ACTION_PAGE = "signoff:page"
ACTION_PAGE_BACK = "signoff:page_back"
"""Page values. Forward and Back need two ids, because an id may occur once in a row."""
ACTION_AGENT = "signoff:agent"

CALLBACK_VOTE = {verdict: f"signoff:{verdict}_modal" for verdict in ON_APPROVAL}
CALLBACK_ANSWER = "signoff:answer_modal"
CALLBACK_EDIT = "signoff:edit_modal"
CALLBACK_MORE = "signoff:more_modal"
CALLBACK_AGENT = "signoff:agent_modal"
CALLBACK_GRANT = "signoff:grant_modal"
CALLBACK_TOGETHER = "signoff:together_modal"
CALLBACK_SAVE_GRANT = "signoff:save_grant_modal"
REASON_BLOCK = "signoff:reason"
REASON_INPUT = "signoff:reason_input"
CHOICE_BLOCK = "signoff:choice"
CHOICE_INPUT = "signoff:choice_input"
AGENT_BLOCK = "signoff:agent"
TASK_BLOCK = "signoff:task"
TASK_INPUT = "signoff:task_input"

MAX_BUTTON_VALUE = 2000

EVENT_TYPE = "signoff_card"
"""`event_type` in every message's metadata."""

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID = re.compile(rf"{_UUID}\Z", re.ASCII)
_NONCE = re.compile(r"[A-Za-z0-9_-]{8,128}\Z", re.ASCII)
_VALUE = re.compile(
    rf"(?P<nonce>[A-Za-z0-9_-]{{8,128}})\.(?P<request>{_UUID})\.(?P<revision>[1-9][0-9]{{0,8}})"
    rf"(?:\.(?P<execution>{_UUID}))?\Z",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Card:
    """Posted without `parse`, `link_names` and unfurling. The whole workspace can read its metadata."""

    text: str
    blocks: list[Json]
    metadata: Json | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """Names of Slack ids, where a mention would notify. Unknown ids stay."""

    people: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    real: Mapping[str, str] = field(default_factory=dict)

    def of(self, slack_id: str) -> str:
        """A name is external text, so not inert."""
        name = self.people.get(slack_id) or self.groups.get(slack_id)
        return f"@{name}" if name else slack_id

    def in_full(self, slack_id: str) -> str:
        """`@ada (Ada Lovelace)`, where no mention leads to the profile. External text, so not inert."""
        handle, real = self.of(slack_id), self.real.get(slack_id)
        return f"{handle} ({real})" if real and real != handle.removeprefix("@") else handle


@dataclass(frozen=True, slots=True)
class Pages:
    """Page values of the buttons below a list; None for no button."""

    back: str | None = None
    forward: str | None = None


@dataclass(frozen=True, slots=True)
class ButtonValue:
    """A button's claim, which the use case compares with what is stored."""

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
    """Return the claim that a request's button carries. Raises ValueError for an invalid place nonce."""
    return str(ButtonValue(view.place_nonce, view.id, view.revision, execution_id))


def parse_button_value(text: object) -> ButtonValue | None:
    """Read a button's value or a modal's `private_metadata`; None for anything that Signoff never wrote."""
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


def page_value(what: str, **query: object) -> str:
    """Values return as text, without None. Raises ValueError beyond 2,000 characters."""
    known = {name: str(value) for name, value in query.items() if value is not None}
    value = json.dumps([what, known], separators=(",", ":"), sort_keys=True)
    if len(value) > MAX_BUTTON_VALUE:
        raise ValueError(f"a button's value has at most {MAX_BUTTON_VALUE:,} characters")
    return value


def parse_page_value(text: object) -> tuple[str, dict[str, str]] | None:
    """None for anything that Signoff never wrote."""
    try:
        what, query = json.loads(text) if isinstance(text, str) else (None, None)
    except (ValueError, TypeError, RecursionError):
        return None
    if not isinstance(what, str) or not isinstance(query, dict):
        return None
    return (what, query) if all(isinstance(each, str) for each in query.values()) else None


def parse_id(text: object) -> UUID | None:
    """For `ACTION_OPEN`, `ACTION_CANCEL_RUN` and the like; None if not an id."""
    return UUID(text) if isinstance(text, str) and _ID.match(text) else None


def metadata(delivery_id: object | None, **ids: object | None) -> Json:
    """Delivery recognises an unconfirmed post by its metadata."""
    known = {"delivery": delivery_id, **ids}
    payload = {name: str(value) for name, value in known.items() if value is not None}
    return {"event_type": EVENT_TYPE, "event_payload": payload}
