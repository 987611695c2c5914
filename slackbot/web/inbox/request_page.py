"""The page of one request, with its stored context: programs also write it, so unknown formats are shown as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from agent.domain import eligibility
from agent.domain.answer_fields import FieldKind
from agent.domain.errors import NotFound, sentence
from agent.domain.people import Standing
from agent.domain.request import EXTERNAL, ExecutionStatus, RequestStatus, Verdict
from agent.domain.request_list import Count, RequestLine
from agent.domain.request_view import RequestView
from agent.domain.rules import DERIVED
from agent.runtime.judging.edits import schema_of
from agent.store import views
from signoff.description import without_command
from signoff.values import Person, Risk
from slackbot.cards import (
    OWN_WORDS_EXCLUDE,
    Names,
    arguments,
    durations,
    edit_fields,
    facts,
    json_text,
    limits,
    parse_id,
    status_words,
    unreadable,
    why,
)
from slackbot.cards.request import asserted
from slackbot.masking import clean_view
from slackbot.reviewing.listing import PersonalLists
from slackbot.reviewing.visibility import visible_request
from slackbot.reviewing.why import masked_why
from slackbot.web.auth.visitors import Visitor
from slackbot.web.http.context import WebContext
from slackbot.web.inbox import history, values
from slackbot.web.inbox.history import HistoryStep
from slackbot.web.inbox.values import Node

_KNOWN = ("task", "transcript", "earlier_calls", "omitted", "action_description")


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call that the agent made before the one in question, as text; `arguments` may be JSON."""

    tool: str
    state: str
    arguments: str
    answer: str


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """A line of a stored conversation: who said what."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Parsed; neither escaped nor masked."""

    task: str
    calls: Sequence[EarlierCall]
    talk: Sequence[TranscriptLine]
    omitted: str
    more: str


def read(stored: Mapping[str, Any]) -> RequestContext | None:
    """Parse a stored context, with unknown members as JSON in `more`; None if nothing is stored."""
    if not stored:
        return None
    rest = {name: value for name, value in stored.items() if name not in _KNOWN}
    return RequestContext(
        task=_text(stored.get("task")),
        calls=[_call(each) for each in _sequence(stored.get("earlier_calls"))],
        talk=[
            TranscriptLine(_member(each, "role") or "somebody", _member(each, "text"))
            for each in _sequence(stored.get("transcript"))
        ],
        omitted=_text(stored.get("omitted") or None),
        more=json_text.readable(rest) if rest else "",
    )


def _call(stored: Any) -> EarlierCall:
    if not isinstance(stored, Mapping):
        return EarlierCall(_text(stored), "", "", "")
    given = stored.get("arguments")
    arguments = (
        "" if given in (None, {}, "") else given if isinstance(given, str) else json_text.readable(given)
    )
    return EarlierCall(
        _member(stored, "tool"), _member(stored, "state"), arguments, _member(stored, "answer")
    )


def _member(value: Any, name: str) -> str:
    return _text(value.get(name) if isinstance(value, Mapping) else value)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json_text.compact(value)


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else []


_RAN = {
    ExecutionStatus.CLAIMED: "What runs",
    ExecutionStatus.SUCCEEDED: "What ran",
    ExecutionStatus.FAILED: "What ran",
    ExecutionStatus.IN_DOUBT: "What may have run",
}

_LINK = re.compile(r"https?://[^\s\"<>\\]+\Z")


@dataclass(frozen=True, slots=True)
class EnteredForm:
    """A visitor's entries in one of a request's forms, kept to be shown again with what is wrong."""

    form: str = ""
    problem: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestContent:
    """What would run, and what is known about it; secrets masked, not yet escaped."""

    view: RequestView

    @property
    def description(self) -> str:
        """Without the command, which the page shows as code."""
        return without_command(self.view.description, self.view.action.arguments)

    @property
    def facts_title(self) -> str:
        return facts.title(self.view)

    @property
    def no_facts(self) -> str:
        return facts.absent(self.view)

    @property
    def limits(self) -> list[str]:
        return [limits.line(self.view, each) for each in limits.in_order(self.view)]

    @property
    def facts(self) -> tuple[tuple[Node, ...], int]:
        return values.tree(self.view.facts or {}, self.view.money_in("facts"), self.view.called)

    @property
    def arguments(self) -> tuple[tuple[Node, ...], int]:
        found = arguments.readable(self.view)
        return values.tree(found.values, found.money, self.view.called)

    @property
    def command(self) -> str:
        return arguments.readable(self.view).command or ""

    @property
    def tool_version(self) -> str:
        return arguments.version_of(self.view.action)

    @property
    def exact_arguments(self) -> str:
        """The canonical bytes' text, which parses back to the same values."""
        return json_text.readable(json_text.arguments_of(self.view.action))

    @property
    def exact_facts(self) -> str:
        return json_text.readable(dict(self.view.facts or {}))


@dataclass(frozen=True, slots=True)
class RequestPage(RequestContent):
    """Secrets masked, not yet escaped."""

    steps: Sequence[HistoryStep]
    names: Names
    channels: Mapping[str, str]
    card_link: str | None
    run_link: str | None
    own_link: str | None
    objection: str  # empty: they are
    approval_objection: str  # empty: they may
    may_withdraw: bool
    withheld: str  # from this page
    why: Sequence[str] = ()
    fields: Sequence[Any] = ()
    following: RequestLine | None = None  # after they have voted
    left: Count | None = None  # in total

    @property
    def waits(self) -> bool:
        return self.view.status is RequestStatus.WAITING

    @property
    def content_title(self) -> str:
        """What the action is by now: asked about, approved, or run."""
        execution = self.view.execution
        if self.view.is_question:
            return "What is asked" if self.waits else "What was asked"
        if self.waits:
            return "What would happen"
        if execution and not execution.nothing_done:
            return _RAN[execution.status]
        return "What was approved" if self.view.status is RequestStatus.APPROVED else "What was asked"

    @property
    def key(self) -> str:
        """The state that forms and title were drawn for: if it changes, they are stale."""
        view = self.view
        rights = f"{int(not self.objection)}{int(not self.approval_objection)}"
        attempt = view.execution.status.value if view.execution else ""
        return f"{view.status.value}.{view.revision}.{len(view.votes)}.{rights}.{attempt}"

    @property
    def voters(self) -> list[Person]:
        return [vote.person for vote in self.view.votes]

    @property
    def took(self) -> str:
        taken = self.view.execution.seconds if self.view.execution else None
        return "" if taken is None else durations.seconds(taken)

    @property
    def paused_by(self) -> tuple[str | None, str] | None:
        """A Slack id and a name, while the pause blocks the agent."""
        by = self.view.paused_by
        return history.actor_of(by) if by and self.view.held_up else None

    @property
    def grant_uses(self) -> str:
        grant = self.view.grant if self.view.status is RequestStatus.APPROVED else None
        return status_words.grant_uses(grant) if grant else ""

    @property
    def grant_ended_by(self) -> tuple[str | None, str]:
        """A Slack id and a name."""
        return history.actor_of((self.view.grant and self.view.grant.ended_by) or "")

    @property
    def asserted(self) -> str:
        return asserted(self.view.requester_asserted)

    @property
    def own_host(self) -> str:
        return urlsplit(self.own_link or "").netloc

    @property
    def context(self) -> RequestContext | None:
        return read(self.view.context)

    @property
    def own_words_exclude(self) -> str:
        loses_it = not self.approval_objection and self.view.own_words_exclude(None)
        return OWN_WORDS_EXCLUDE if loses_it else ""

    @property
    def sure(self) -> bool:
        """Whether approving takes a second, deliberate step."""
        return self.view.risk >= Risk.HIGH

    @property
    def derived_rule(self) -> bool:
        """Whether nobody wrote the rule: why people are asked says it."""
        return self.view.checkpoint_id in DERIVED

    @property
    def agent_version(self) -> str:
        return "" if self.view.agent_version == EXTERNAL else self.view.agent_version

    @property
    def changes(self) -> list[Node]:
        return values.changed_values(self.view.changes, self.view.money_in("args"))

    @property
    def facts_since(self) -> list[Node]:
        before, money = self.view.previous_facts, self.view.money_in("facts")
        return [] if before is None else values.differences(before, self.view.facts or {}, money)


async def true_view(ctx: WebContext, who: Visitor, request_id: str) -> RequestView:
    """Unmasked, for a reader who may see it. Raises NotFound and Refused."""
    wanted = parse_id(request_id)
    if wanted is None:
        raise NotFound(request_id)
    return await visible_request(ctx.db, ctx.slack.directory, who.person, wanted)


async def open_page(ctx: WebContext, who: Visitor, request_id: str) -> RequestPage:
    """Raises NotFound, and Refused unless the reader may see the request."""
    true = await true_view(ctx, who, request_id)
    view = await clean_view(true)
    events = await ctx.db.read(views.request_events, view.id)
    forms = history.forms_of(events)
    others = await ctx.db.read(views.others_in_forms, view.id, forms) if forms else {}
    steps = history.steps(events, others)
    directory = ctx.slack.directory
    standing = await directory.standing(who.person, view.approvers, view.channel_id)
    objection = _objection(view, standing)
    card = (view.channel_id, view.message_ts) if view.message_ts else None
    run = (view.run_channel_id, view.run_thread_ts) if view.run_channel_id and view.run_thread_ts else None
    links = await ctx.slack.permalinks.of([place for place in (card, run) if place])
    answered = view.status is not RequestStatus.WAITING or any(v.person == who.person for v in view.votes)
    lists = PersonalLists(ctx.db, directory, who.person)
    following, left = await lists.next_for_me(view.id) if answered else (None, None)
    return RequestPage(
        view=view,
        steps=steps,
        names=await directory.names(_ids(view, steps, who)),
        channels=await directory.channel_names([view.channel_id] if view.channel_id else []),
        card_link=links.get(card) if card else None,
        run_link=links.get(run) if run else None,
        own_link=view.link if view.link and _LINK.match(view.link) else None,
        objection=objection,
        approval_objection=_objection(view, standing, Verdict.APPROVE),
        may_withdraw=view.status is RequestStatus.WAITING and who.person == view.requester,
        withheld=unreadable(view) or "",
        why=why.lines(view, await masked_why(ctx.services, directory, who.person, true)),
        fields=_fields(ctx, view) if view.rule.allow_edit and not objection else (),
        following=following,
        left=left,
    )


def _objection(view: RequestView, reader: Standing, verdict: Verdict | None = None) -> str:
    """The use case's likely objection; it decides when a vote arrives."""
    refusal = eligibility.reviewer_refusal(view, reader, verdict)
    return sentence(refusal) if refusal else ""


def _fields(ctx: WebContext, view: RequestView) -> Sequence[Any]:
    try:
        return edit_fields(view, schema_of(ctx.services.registry, view))
    except NotFound:
        return ()


def _ids(view: RequestView, steps: Sequence[HistoryStep], who: Visitor) -> set[str]:
    paused_by = history.actor_of(view.paused_by)[0] if view.paused_by else None
    people = [who.person, view.behalf.requester, view.editor, *(vote.person for vote in view.votes)]
    people += view.decision.deciders if view.decision else ()
    people += [view.execution.settled_by if view.execution else None]
    people += [view.rejected_before.person if view.rejected_before else None]
    ids = {person.user_id for person in people if person} | {
        each.user_id for step in steps for each in step.people
    }
    return ids | _named_in_answer(view) | set(view.approvers) | ({paused_by} if paused_by else set())


def _named_in_answer(view: RequestView) -> set[str]:
    """The people whom the answer to a form names."""
    form, value = view.answer_form, view.answer
    if form is None or not isinstance(value, Mapping):
        return set()
    return {
        str(value[each.name]) for each in form.fields if each.kind is FieldKind.PERSON and each.name in value
    }
