from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from agent.domain.api_keys import Principal, Scope
from agent.domain.facts import Facts, FactsSource
from agent.domain.grants import CallToCover
from agent.domain.judgement import Judgement, ToolTraits
from agent.domain.limits import Caller, Use
from agent.domain.pause import AgentPaused
from agent.domain.request import API, EXTERNAL, FactValues
from agent.domain.rules import Rule
from agent.runtime.judgement import after_rejections
from agent.store import views
from agent.usecases import requests
from agent.usecases.grants import ProgramCall
from agent.usecases.requests import NewRequest
from signoff.canonical import canonical_bytes
from signoff.context_limit import fit_context
from signoff.description import quoted
from signoff.errors import Conflict, SignoffError
from signoff.values import Action
from slackbot.masking import clean_description
from slackbot.reviewing.members import check_member
from slackbot.reviewing.run_starts import Requester
from slackbot.web.api.facts import check_may_send_facts, narrowed, program_facts
from slackbot.web.api.generated_description import generated
from slackbot.web.api.requesters import claimed_requester
from slackbot.web.api.shapes import RequestModel, ResponseModel, SentTime
from slackbot.web.api.without_review import (
    GRANTED,
    NotRequiredOut,
    not_required,
    use_grant,
    within_limits,
    without_review,
)
from slackbot.web.http.bodies import by_size
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised, retry_later

MAX_DESCRIPTION = 2000
MAX_WAITING = 5_000
"""Open requests per key."""
MAX_WAITING_BYTES = 64 * 2**20
"""Total size of a key's open requests in the database."""
UNCONFIRMED = "a limit counts for each requester, and Slack does not confirm this one as a member"
LATER = 60.0
"""Seconds for Retry-After: people have to decide first."""

RequestName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@~-]*$", min_length=1, max_length=128)
]
"""A caller's name for a request; usable in a URL without escaping."""

AgentName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$", min_length=1, max_length=80)]
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.:-]*$", max_length=128)]
_ABOUT_FACTS = {"facts", "facts_failed"}

SessionName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$", min_length=1, max_length=200)]
UserId = Annotated[str, StringConstraints(pattern=r"^[UW][A-Z0-9]{2,20}$")]

_EXAMPLE: dict[str, Any] = {
    "request_id": "delete-42",
    "action_description": "Delete 5 records from the table customers",
    "agent_context": {"task": "Clean up what customers asked us to forget", "step": 3},
    "timestamp": "2026-11-21T09:30:00Z",
    "action": "delete_records",
    "arguments": {"table_name": "customers", "count": 5},
}


class AskIn(RequestModel):
    """A question for people.

    With `action` (a tool's name) and `arguments` the checkpoints judge whether approval is needed; without, it always
    is, and people approve all of these fields. `action_description`, in the asker's words, is optional with an
    `action`: people then read the action and its arguments. `requester` (a Slack user id) needs a key with `on_behalf`.
    `facts` is what the program itself looked up about the arguments, never the model's words; it needs a key with
    `facts`. `facts_failed` says that the look-up failed: people are then asked. `session` names the
    conversation that the question belongs to: who gave own words in it may not approve alone what follows in it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    request_id: RequestName
    action_description: Annotated[str, StringConstraints(min_length=1, max_length=MAX_DESCRIPTION)] | None = (
        None
    )
    agent_context: Any = None
    timestamp: SentTime | None = None
    action: ToolName | None = None
    arguments: dict[str, Any] | None = None
    agent: AgentName | None = None
    requester: UserId | None = None
    rationale: Annotated[str, StringConstraints(max_length=8000)] | None = None
    facts: dict[str, Any] | None = None
    facts_failed: bool = False
    session: SessionName | None = None

    @model_validator(mode="after")
    def _whole(self) -> AskIn:
        if self.action == EXTERNAL:
            raise ValueError(f"`{EXTERNAL}` is the action of requests that name none")
        if self.action_description is None and self.action is None:
            raise ValueError("without an `action`, `action_description` must say what is to be decided")
        if self.arguments is not None and self.action is None:
            raise ValueError("`arguments` are those of an `action`, which is missing")
        if self.mentions_facts and self.action is None:
            raise ValueError("`facts` are about the arguments of an `action`, which is missing")
        if self.facts is not None and self.facts_failed:
            raise ValueError("`facts_failed` says that there are no `facts`, but `facts` were sent")
        return self

    @property
    def mentions_facts(self) -> bool:
        return self.facts is not None or self.facts_failed

    @property
    def traits(self) -> ToolTraits:
        """Nothing is known about an external tool; a question without an action always asks."""
        return ToolTraits(self.action or EXTERNAL, EXTERNAL, requires_approval=self.action is None)

    def as_action(self) -> Action:
        """Raises MalformedArguments."""
        if self.action is not None:
            return Action(self.action, EXTERNAL, self.arguments or {})
        included = {"request_id", "action_description", "agent_context", "timestamp"}
        return Action(EXTERNAL, EXTERNAL, self.model_dump(mode="json", include=included))

    def with_fitting_context(self) -> AskIn:
        """Cut the context to fit. Raises MalformedArguments."""
        others = self.model_dump(mode="json", exclude={"agent_context", "session", *_ABOUT_FACTS})
        return self.model_copy(update={"agent_context": fit_context(self.agent_context, others)})

    def content(self, action: Action) -> bytes:
        """SHA-256 of everything except facts; a repeated id must have the same content.

        Facts change by themselves. The first call's are kept until the claim, which sends them again. A generated
        description counts as sent, and a context as cut, as in earlier versions.
        """
        unused = _ABOUT_FACTS if self.session is not None else {*_ABOUT_FACTS, "session"}
        included = self.model_dump(mode="json", exclude=unused)
        included["action_description"] = self.action_description or generated(action)
        others = {name: value for name, value in included.items() if name != "agent_context"}
        included["agent_context"] = fit_context(self.agent_context, others, anywhere=True)
        return hashlib.sha256(canonical_bytes(included)).digest()

    def without_generated_words(self, action: Action) -> AskIn:
        """Earlier clients sent a description of their own making, with cut values."""
        if self.action is None or self.action_description != generated(action):
            return self
        return self.model_copy(update={"action_description": None})

    def program_facts(self) -> Facts:
        """Raises MalformedArguments."""
        return (
            program_facts(self.facts)
            if not self.facts_failed
            else Facts(failed=True, source=FactsSource.PROGRAM)
        )


class OpenedRequest(ResponseModel):
    """The request opened for this question."""

    id: UUID
    created: bool = Field(description="False: it was asked before.")


async def ask(
    ctx: WebContext, principal: Principal, body: AskIn, size: int
) -> OpenedRequest | NotRequiredOut:
    """Open a request, unless it exists or policy needs none; ``size`` of the body in bytes.

    Raises ProblemRaised (403: policy denies it, or the key may not ask this; 409: nobody has to be asked, but the
    agent is paused; 429: too many requests are open; 503: Slack is unavailable), OutdatedPolicy, Conflict and
    MalformedArguments.
    """
    agent, requester = _agent(principal, body), claimed_requester(ctx, principal, body.requester)
    if body.mentions_facts:
        check_may_send_facts(principal)
    body, action, content, facts = await by_size(size, lambda: _read(body))
    async with ctx.db.connection() as connection:
        found = await views.client_request(connection, principal.name, body.request_id)
        waiting = await views.waiting_of_key(connection, principal.name, MAX_WAITING)
    if found is not None:
        if found.content_digest != content:
            raise Conflict(f"request {body.request_id!r} exists with other content")
        return OpenedRequest(id=found.request_id, created=False)
    judge = partial(_judge_and_open, ctx, principal, body, action, content, facts, agent, requester, waiting)
    try:
        return await ctx.services.policies.judged(judge)
    except AgentPaused as paused:
        raise ProblemRaised(409, "paused", "Agent paused", f"{paused}.") from None


async def _judge_and_open(
    ctx: WebContext,
    principal: Principal,
    body: AskIn,
    action: Action,
    content: bytes,
    facts: Facts,
    agent: str,
    requester: Requester,
    waiting: views.Waiting,
) -> OpenedRequest | NotRequiredOut:
    policy, person = ctx.services.policy, requester.person.user_id if requester.person else None
    if (lookup := policy.lookup(action.tool)) is not None:
        facts = await ctx.services.look_up(lookup, action, agent, person)
    judged = policy.judge(
        body.traits,
        action,
        facts.values,
        agent,
        person,
        facts_failed=facts.failed,
    )
    caller = Caller(agent, requester.person, principal.name, names_agent=principal.agent is None)
    uses = policy.uses(action, facts.values, caller)
    only_session = principal.may(Scope.SESSIONS)
    asked = ProgramCall(
        principal.name, body.request_id, content, principal.key_id, agent, uses, body.session, only_session
    )
    if await _is_unconfirmed(ctx, requester, judged, uses):
        judged = policy.asked_instead(judged, UNCONFIRMED, body.traits, action, facts.values)
    judged, states = await within_limits(ctx, principal, asked, body.traits, action, facts, judged)
    judged = await after_rejections(ctx.db, agent, action, judged)
    if judged.rule is None:
        return await without_review(ctx, principal, asked, action, facts, judged)
    call = CallToCover(
        action=action,
        facts=facts,
        rule=narrowed(judged.rule, facts),
        requester=requester.person,
        agent=agent,
        agent_version=EXTERNAL,
        principal=principal.name,
        judgement=judged,
    )
    if (grant := await use_grant(ctx, call, asked, judged)) is not None:
        return await not_required(body.request_id, action, facts, because=GRANTED, grant=grant)
    if waiting.requests >= MAX_WAITING or waiting.size >= MAX_WAITING_BYTES:
        words = (
            f"{waiting.requests:,} requests of the key {principal.key} wait for people; no more are accepted until "
            "some have ended."
        )
        raise retry_later("too-many-waiting", "Too many requests wait", words, LATER, status=429)
    await check_member(ctx.slack.directory, requester.person)
    try:
        destination = ctx.services.destination(judged.rule.channel)
    except SignoffError as away:
        raise retry_later("slack-away", "Slack cannot be reached", str(away), 5) from None
    new = NewRequest(
        rule=call.rule,
        action=action,
        facts=facts.values,
        facts_source=facts.source,
        description=await _description(judged.rule, judged, body, action, facts.values),
        rationale=_rationale(judged.rule, body),
        context=_context(body),
        agent=agent,
        agent_version=EXTERNAL,
        requester=requester.person,
        requester_asserted=_asserted(principal, requester),
        destination=destination,
        principal=principal.name,
        client_id=body.request_id,
        source=API,
        content=content,
        api_key_id=principal.key_id,
        limits=states,
        policy_epoch=judged.epoch,
        judgement=judged,
        rejected_before=judged.rejected,
        session=body.session,
        only_session=only_session,
    )
    opened = await requests.open(ctx.db, new)
    return OpenedRequest(id=opened.request_id, created=opened.created)


def _read(body: AskIn) -> tuple[AskIn, Action, bytes, Facts]:
    """Raises MalformedArguments."""
    fitting = body.with_fitting_context()
    action = fitting.as_action()
    return fitting.without_generated_words(action), action, body.content(action), body.program_facts()


async def _is_unconfirmed(
    ctx: WebContext, requester: Requester, judged: Judgement, uses: Sequence[Use]
) -> bool:
    """Whether a limit per requester would let this run for somebody whom the key names and Slack does not confirm."""
    named = requester.asserted == "on-behalf" and any(use.limit.per == "requester" for use in uses)
    if not named or judged.verdict != "run":
        return False
    try:
        await check_member(ctx.slack.directory, requester.person)
    except SignoffError:  # another refusal, or Slack is away
        return True
    return False


def _agent(principal: Principal, body: AskIn) -> str:
    """A key bound to one agent cannot name another."""
    if principal.agent is not None and body.agent not in (None, principal.agent):
        words = (
            f"The key {principal.key} is bound to the agent {principal.agent} and cannot ask for another one."
        )
        raise ProblemRaised(403, "other-agent", "Another agent", words)
    return principal.agent or body.agent or principal.key


def _asserted(principal: Principal, requester: Requester) -> str:
    if requester.person is None:
        return "none"
    on_behalf = f" for {requester.person.user_id}" if requester.asserted == "on-behalf" else ""
    return principal.name + on_behalf


async def _description(
    rule: Rule, judged: Judgement, body: AskIn, action: Action, facts: FactValues | None
) -> str:
    """The operator's description; otherwise the program's, quoted so that it cannot close the quotation."""
    if rule.description_template is not None or body.action_description is None:
        return judged.description
    said = f"The agent says: {quoted(body.action_description)}"
    return await clean_description(said, action, facts, rule.redact)


def _rationale(rule: Rule, body: AskIn) -> str | None:
    """The program's own words, labelled as such on the card."""
    said = body.action_description if rule.description_template is not None else None
    return "\n\n".join(filter(None, (said, body.rationale))) or None


def _context(body: AskIn) -> dict[str, Any]:
    """Without an action, the program's fields are already the arguments."""
    if body.action is None:
        return {}
    words = {"action_description"} if body.action_description is not None else set()
    return body.model_dump(mode="json", include={"agent_context", "timestamp", *words})
