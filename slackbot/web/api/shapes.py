"""Shared JSON formats. Only a claim returns unmasked arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Protocol, Self, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from agent.domain.api_keys import Principal
from agent.domain.facts import FactsSource
from agent.domain.request import API, EXTERNAL, ExecutionStatus, RequestStatus, Verdict
from agent.domain.request_view import RequestView
from agent.domain.rules import Rule
from signoff.durations import PATTERN, seconds_of
from signoff.values import Action, Person, Risk
from slackbot.cards import json_text
from slackbot.masking import clean_view
from slackbot.slack_api.connection import SlackConnection

T = TypeVar("T")


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("is a time outside the calendar") from None


def rfc3339(at: datetime) -> str:
    """`2026-11-21T11:20:33.5Z`: all times (RFC 3339, in UTC)."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _written(value: object) -> object:
    """Require an offset: pydantic would read a bare number as seconds since 1970."""
    if not isinstance(value, datetime) and not (isinstance(value, str) and "T" in value.upper()):
        raise ValueError("is not an RFC 3339 time such as 2026-11-21T09:30:00Z")
    return value


Moment = Annotated[
    AwareDatetime,
    BeforeValidator(_written),
    AfterValidator(_in_utc),
    PlainSerializer(rfc3339, return_type=str, when_used="json"),
]
"""Any offset on input, UTC on output."""

_DATE_AND_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]")


def _sent(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, str) and not _DATE_AND_TIME.match(value)):
        raise ValueError("is not a time such as 2026-11-21T09:30:00Z, or seconds since 1970")
    return value


SentTime = Annotated[
    datetime,
    BeforeValidator(_sent),
    AfterValidator(lambda at: _in_utc(at if at.tzinfo else at.replace(tzinfo=UTC))),
    PlainSerializer(rfc3339, return_type=str, when_used="json"),
]
"""From a program: a number is seconds since 1970, and a time without offset is UTC."""

Length = Annotated[float, BeforeValidator(seconds_of)]
"""`"72h"`, or a number of seconds."""


def length_schema(least: float, most: float) -> WithJsonSchema:
    """Describe a Length with these bounds, in seconds; JSON Schema has none for texts."""
    number = {"type": "number", "minimum": least, "maximum": most}
    return WithJsonSchema({"anyOf": [number, {"type": "string", "pattern": PATTERN}]})


class ResponseModel(BaseModel):
    """A base of response bodies: frozen, and readable from objects with attributes of the same names."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    @classmethod
    def copy_of(cls, source: object, **given: object) -> Self:
        """Copy the source's attributes named like fields, plus the ``given`` fields."""
        copied = {
            name: getattr(source, name)
            for name, field in cls.model_fields.items()
            if name not in given and (field.is_required() or hasattr(source, name))
        }
        return cls.model_validate(copied | given)


class RequestModel(BaseModel):
    """A request body. Unknown fields are errors, so that no wish is silently ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Page(ResponseModel, Generic[T]):
    """Part of a list. `next`, if present, is the `cursor` of the next page."""

    items: list[T]
    next: str | None = None


def page(items: Sequence[T], following: UUID | None) -> Page[T]:
    """`following`: the id after which the next page begins."""
    return Page(items=list(items), next=following.hex if following is not None else None)


class PersonOut(ResponseModel):
    """A person in Slack."""

    team_id: str
    user_id: str

    @classmethod
    def of(cls, person: Person | None) -> PersonOut | None:
        return None if person is None else cls(team_id=person.team_id, user_id=person.user_id)


class ActionOut(ResponseModel):
    """The action, with secrets masked. The request's `digest` is that of the unmasked action."""

    tool: str
    tool_version: str
    arguments: dict[str, Any]

    @classmethod
    def of(cls, action: Action) -> ActionOut:
        return cls.copy_of(action, arguments=json_text.arguments_of(action))


class VoteOut(ResponseModel):
    """A reviewer's vote on the current revision."""

    person: PersonOut
    verdict: Verdict
    reason: str | None
    at: Moment
    answer: Any = Field(default=None, description="What the verdict `answer` says.")
    together: UUID | None = Field(
        default=None,
        description="The form of several requests that cast it, as the form named itself. "
        "Votes of one person with the same form came together.",
    )


class ExecutionOut(ResponseModel):
    """The latest attempt to execute the approved action, and how a person settled it if its outcome was in doubt."""

    id: UUID
    attempt: int
    status: ExecutionStatus
    started_at: Moment
    finished_at: Moment | None
    seconds: float | None
    result: str | None
    error: str | None
    settled_by: PersonOut | None
    settled_as: str | None


class ReviewOut(ResponseModel):
    """The current state of a request for review.

    `request_id` is the caller's name for it, `id` is ours. `status` is the decision; `lapsed`: approved, but not
    claimed in time. `handed_over_at`: when the asker read the approval, so the action may have been executed even if
    nothing was reported; without it, a lapsed action was not executed. `digest` (SHA-256, hex) identifies exactly the
    action of this `revision`; each edit changes it. `approvals` so far; of a question, equal answers.
    `decided_by` completed the decision; `approved_by` are all whose approvals or equal answers counted, in the order of
    their votes. `description` is the text shown to people; `action_description` is the asker's own. `above` lists the
    agents that delegated the task to `agent`, topmost first. `erased_at`: when arguments, facts and context were
    erased. `facts_source`: the program sent the facts, or Signoff looked them up; `null`: the agent's own tool did, or
    there are none. `voided`: the facts changed after the approval, so nothing was executed, and people are asked again.
    `executor`: the key of the program that executes a call of one of our agents (`*`: any); `claim_until`: the deadline
    for its claim.
    """

    request_id: str
    id: UUID
    status: RequestStatus
    lapsed: bool
    description: str
    action_description: str
    action: ActionOut
    digest: str
    revision: int
    edited: bool
    facts: dict[str, Any] | None
    agent: str
    above: list[str]
    label: str | None
    agent_context: Any
    checkpoint_id: str
    risk: Risk
    approvals: int
    approvals_required: int
    votes: list[VoteOut]
    requester: PersonOut | None
    requester_asserted: str
    timestamp: Moment
    expires_at: Moment
    decided_at: Moment | None
    decided_by: PersonOut | None
    approved_by: list[PersonOut]
    reason: str | None
    lapse_at: Moment | None
    handed_over_at: Moment | None
    execution: ExecutionOut | None
    url: str | None
    slack_url: str | None
    run_id: UUID | None
    erased_at: Moment | None = None
    facts_source: FactsSource | None = None
    voided: bool = False
    executor: str | None = None
    claim_until: Moment | None = None
    timeout_seconds: float | None = Field(
        default=None,
        description="How long a program without a timeout of its own waits by the policy; null: it says nothing.",
    )
    answer_schema: dict[str, Any] | None = Field(
        default=None, description="What a question wants besides yes or no, as a JSON Schema."
    )
    answer: Any = Field(
        default=None,
        description="What people answered, once `status` is `answered`; secrets are masked for others than the asker.",
    )

    @classmethod
    def of(cls, view: RequestView, *, url: str | None = None, slack_url: str | None = None) -> ReviewOut:
        """The view is masked by `clean_view`."""
        return cls.copy_of(
            view,
            request_id=view.client_id if view.source == API else str(view.id),
            lapsed=view.lapsed_at is not None,
            lapse_at=None if view.run_id else view.lapse_at,
            claim_until=view.lapse_at if view.run_id else None,
            action_description=own_words(view),
            action=ActionOut.of(view.action),
            digest=view.digest.hex(),
            edited=view.editor is not None,
            agent_context=agent_context(view),
            approved_by=[PersonOut.copy_of(each) for each in _approved_by(view)],
            timestamp=view.created_at,
            reason=view.decision.reason if view.decision else None,
            url=url,
            slack_url=slack_url,
            timeout_seconds=_timeout(view.rule),
            answer_schema=dict(view.answer_form.schema) if view.answer_form else None,
        )


def _approved_by(view: RequestView) -> tuple[Person, ...]:
    counted = view.status in (RequestStatus.APPROVED, RequestStatus.ANSWERED)
    return view.decision.deciders if view.decision and counted else ()


def _timeout(rule: Rule) -> float | None:
    """A default that nobody wrote is not what an operator wanted programs to wait."""
    return rule.timeout.total_seconds() if rule.timeout_written else None


def agent_context(view: RequestView) -> Any:
    """Return the context of a run's request, or what the asking program gave; None if it gave none."""
    given = _program_context(view)
    return dict(view.context) if given is None else given.get("agent_context")


def own_words(view: RequestView) -> str:
    """The asker's description; for a run's request, the text shown to people."""
    words = (_program_context(view) or {}).get("action_description")
    return words if isinstance(words, str) else view.description


def _program_context(view: RequestView) -> dict[str, Any] | None:
    """`None` for a run's request. Without an action it is the arguments themselves."""
    if view.source != API:
        return None
    return json_text.arguments_of(view.action) if view.action.tool == EXTERNAL else dict(view.context)


def page_url(public_url: str | None, request_id: UUID) -> str | None:
    """`None` if no public URL is configured."""
    return f"{public_url}/inbox/requests/{request_id}" if public_url else None


class Links(Protocol):
    """What the URLs of requests are made with."""

    @property
    def public_url(self) -> str | None: ...

    @property
    def slack_or_none(self) -> Callable[[], SlackConnection | None]: ...


async def reviews(
    ctx: Links, views: Sequence[RequestView], asker: Principal | None = None
) -> list[ReviewOut]:
    """Requests as programs may see them: masked, with URLs. Their ``asker`` gets each answer as it was given."""
    clean = [await clean_view(view) for view in views]
    connected = ctx.slack_or_none()
    cards = {view.id: (view.channel_id, view.message_ts) for view in views if view.message_ts}
    known = await connected.permalinks.of(list(cards.values())) if connected and cards else {}
    shown = [
        ReviewOut.of(
            view,
            url=page_url(ctx.public_url, view.id),
            slack_url=known.get(cards[view.id]) if view.id in cards else None,
        )
        for view in clean
    ]
    return [
        each.model_copy(update={"answer": view.answer}) if asker and asker.name == view.principal else each
        for each, view in zip(shown, views, strict=True)
    ]


async def review(ctx: Links, view: RequestView, asker: Principal | None = None) -> ReviewOut:
    """One of the `reviews`."""
    return (await reviews(ctx, [view], asker))[0]
