"""A program's question: read, evaluated, and opened unless policy needs nobody."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from agent.domain.answers import EVERYBODY, AnswerForm
from agent.domain.api_keys import Principal
from agent.domain.facts import Facts, FactsSource
from agent.domain.groups import Batch
from agent.domain.pause import AgentPaused
from agent.domain.request import EXTERNAL, FactValues
from agent.domain.rules import Rule
from agent.runtime.judging import programs
from agent.runtime.judging.programs import (
    Denied,
    LetThrough,
    ProgramQuestion,
    SlackAway,
    TooManyWaiting,
)
from agent.usecases.requests import OpenOutcome
from signoff.canonical import canonical_bytes
from signoff.context_limit import fit_context
from signoff.description import quoted
from signoff.errors import UnusableForm
from signoff.values import ACTION_NAME, REQUEST_NAME, Action
from slackbot.masking import NOT_SECRET, clean_description, clean_value
from slackbot.web.api.agents import SessionName
from slackbot.web.api.generated_description import generated
from slackbot.web.api.requesters import UserId, check_may_send_facts, claimed_requester, program_facts
from slackbot.web.api.shapes import ActionOut, RequestModel, ResponseModel, SentTime
from slackbot.web.http.bodies import by_size
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised, retry_later

MAX_DESCRIPTION = 2000
LATER = 60.0
"""Seconds for Retry-After: people have to decide first."""

RequestName = Annotated[
    str,
    StringConstraints(pattern=REQUEST_NAME.pattern, min_length=1, max_length=REQUEST_NAME.most),
    NOT_SECRET,
]
"""A caller's name for a request; usable in a URL without escaping."""

AgentName = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$", min_length=1, max_length=80), NOT_SECRET
]
ToolName = Annotated[
    str, StringConstraints(pattern=ACTION_NAME.pattern, max_length=ACTION_NAME.most), NOT_SECRET
]
_ABOUT_ASKING = {"session", "batch"}
_ABOUT_FACTS = {"facts", "facts_failed"}
_ABOUT_ANSWERS = {"answer", "other", "answerers", "answers_required"}

_EXAMPLE: dict[str, Any] = {
    "request_id": "delete-42",
    "action_description": "Delete 5 records from the table customers",
    "agent_context": {"task": "Clean up what customers asked us to forget", "step": 3},
    "timestamp": "2026-11-21T09:30:00Z",
    "action": "delete_records",
    "arguments": {"table_name": "customers", "count": 5},
}


class BatchIn(RequestModel):
    """What belongs together: requests with one `id` (the caller's own) that are opened at once, and how many."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: RequestName
    size: int = Field(ge=1, le=100)


class AskIn(RequestModel):
    """A question for people.

    With `action` (a tool's name) and `arguments` the checkpoints judge whether approval is needed; without, it always
    is, and people approve all of these fields. `action_description`, in the asker's words, is optional with an
    `action`: people then read the action and its arguments. `requester` (a Slack user id) needs a key with `on_behalf`.
    `facts` is what the program itself looked up about the arguments, never the model's words; it needs a key with
    `facts`. `facts_failed` says that the look-up failed: people are then asked. `session` names the
    conversation that the question belongs to: who gave own words in it may not approve alone what follows in it. It is
    not part of the content: a repeated question keeps the session that it was first asked in.
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
    batch: BatchIn | None = Field(
        default=None,
        description="Requests that are opened at once and may share a message; no part of the content. Each is decided "
        "by itself.",
    )
    answer: dict[str, Any] | None = Field(
        default=None,
        description='What the question wants besides yes or no: a JSON Schema, `{"enum": ["eu", "us"]}` or an object '
        "of at most ten fields. Then there is no `action`, and nothing is approved.",
    )
    other: bool = Field(default=True, description="Own words may be given in place of an option.")
    answerers: list[str] = Field(
        default=[*EVERYBODY],
        description="Who may answer: `requester`, `reviewers`, `channel`, ids of Slack users and groups.",
    )
    answers_required: int = Field(default=1, description="So many equal answers.")

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
        if self.answer is None and self.model_fields_set & {"other", "answerers", "answers_required"}:
            raise ValueError(
                "`other`, `answerers` and `answers_required` are about an `answer`, which is missing"
            )
        if self.answer is not None and self.action is not None:
            raise ValueError("an `answer` is asked for without an `action`: it authorises nothing")
        self.answer_form()
        return self

    def answer_form(self) -> AnswerForm | None:
        """Raises ValueError if people cannot be asked for it."""
        if self.answer is None:
            return None
        try:
            return AnswerForm.of(
                self.answer,
                other=self.other,
                answerers=self.answerers,
                answers_required=self.answers_required,
            )
        except UnusableForm as error:
            raise ValueError(f"`answer`: {error}") from None

    @property
    def mentions_facts(self) -> bool:
        return self.facts is not None or self.facts_failed

    def as_action(self) -> Action:
        """Raises MalformedArguments."""
        if self.action is not None:
            return Action(self.action, EXTERNAL, self.arguments or {})
        included = {"request_id", "action_description", "agent_context", "timestamp"}
        included |= set() if self.answer is None else _ABOUT_ANSWERS
        return Action(EXTERNAL, EXTERNAL, self.model_dump(mode="json", include=included))

    def with_fitting_context(self) -> AskIn:
        """Cut the context to fit. Raises MalformedArguments."""
        others = self.model_dump(mode="json", exclude={"agent_context", *_ABOUT_ASKING, *_ABOUT_FACTS})
        return self.model_copy(update={"agent_context": fit_context(self.agent_context, others)})

    def content(self, action: Action) -> bytes:
        """SHA-256 of everything except facts and session; a repeated id must have the same content.

        Facts change by themselves. The first call's are kept until the claim, which sends them again. A session names
        the conversation, not the question, which keeps the first call's. A generated description counts as sent, and a
        context as cut, as in earlier versions.
        """
        asked_for = set() if self.answer is not None else _ABOUT_ANSWERS
        included = self.model_dump(mode="json", exclude={*_ABOUT_ASKING, *_ABOUT_FACTS, *asked_for})
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


class NotRequiredOut(ResponseModel):
    """No approval is needed: the checkpoints allow this action. The evaluation is recorded."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "request_id": "read-7",
                    "status": "not_required",
                    "because": "no checkpoint names this tool; it is unmatched, and unmatched tools are allowed",
                    "action": {"tool": "read_record", "tool_version": "external", "arguments": {"id": 7}},
                    "digest": "f" * 64,
                }
            ]
        },
    )

    request_id: str
    status: Literal["not_required"] = "not_required"
    because: str
    action: ActionOut
    digest: str
    facts_source: FactsSource | None = Field(
        default=None, description="The source of the facts that let it run; the audit log has their digest."
    )
    grant: UUID | None = Field(
        default=None, description="The grant that covers it: reviewers allowed such calls in advance."
    )


async def ask(ctx: WebContext, principal: Principal, body: AskIn, size: int) -> OpenOutcome | NotRequiredOut:
    """Open a request, unless it exists or policy needs none; ``size`` of the body in bytes.

    Raises ProblemRaised (403: policy denies it, or the key may not ask this; 409: nobody has to be asked, but the
    agent is paused; 429: too many requests are open; 503: Slack is unavailable), OutdatedPolicy, Conflict and
    MalformedArguments.
    """
    agent, requester = _agent(principal, body), claimed_requester(ctx, principal, body.requester)
    if body.mentions_facts:
        check_may_send_facts(principal)
    body, action, content, facts = await by_size(size, lambda: _read(body))
    said = body.action_description
    question = ProgramQuestion(
        principal=principal,
        client_id=body.request_id,
        content=content,
        action=action,
        facts=facts,
        agent=agent,
        requester=requester.person,
        on_behalf=requester.asserted == "on-behalf",
        quote=partial(_quote, said, action) if said is not None and body.action is None else None,
        words=said,
        rationale=body.rationale,
        context=_context(body),
        session=body.session,
        answer_form=body.answer_form(),
        batch=_batch(principal, body.batch),
    )
    try:
        asked = await programs.ask(ctx.services, question)
    except AgentPaused as paused:
        raise ProblemRaised(409, "paused", "Agent paused", f"{paused}.") from None
    except UnusableForm as error:
        raise ProblemRaised(422, "unusable-answer", "Nobody can answer this", f"{error}.") from None
    except Denied as denied:
        words = f"Policy denies this action: {await clean_value(str(denied))}."
        raise ProblemRaised(403, "denied", "Denied by policy", words) from None
    except TooManyWaiting as many:
        words = f"{many}."
        raise retry_later("too-many-waiting", "Too many requests wait", words, LATER, status=429) from None
    except SlackAway as away:
        raise retry_later("slack-away", "Slack cannot be reached", str(away), 5) from None
    return await _not_required(question, asked) if isinstance(asked, LetThrough) else asked


async def _not_required(question: ProgramQuestion, through: LetThrough) -> NotRequiredOut:
    action = question.action
    arguments = await clean_value(dict(action.arguments))
    return NotRequiredOut(
        request_id=question.client_id,
        because=await clean_value(through.because),
        action=ActionOut(tool=action.tool, tool_version=EXTERNAL, arguments=arguments),
        digest=action.digest.hex(),
        facts_source=through.facts.source,
        grant=through.grant,
    )


def _read(body: AskIn) -> tuple[AskIn, Action, bytes, Facts]:
    """Raises MalformedArguments."""
    fitting = body.with_fitting_context()
    action = fitting.as_action()
    return fitting.without_generated_words(action), action, body.content(action), body.program_facts()


def _batch(principal: Principal, given: BatchIn | None) -> Batch | None:
    """No key can join another's batch."""
    return Batch(f"{principal.name}/{given.id}", given.size) if given is not None else None


def _agent(principal: Principal, body: AskIn) -> str:
    """A key bound to one agent cannot name another."""
    if principal.agent is not None and body.agent not in (None, principal.agent):
        words = (
            f"The key {principal.key} is bound to the agent {principal.agent} and cannot ask for another one."
        )
        raise ProblemRaised(403, "other-agent", "Another agent", words)
    return principal.agent or body.agent or principal.key


async def _quote(said: str, action: Action, rule: Rule, facts: FactValues | None) -> str:
    """The program's words, quoted so that they cannot close the quotation."""
    return await clean_description(f"The agent asks: {quoted(said)}", action, facts, rule.redact)


def _context(body: AskIn) -> dict[str, Any]:
    """Without an action, the program's fields are already the arguments."""
    if body.action is None:
        return {}
    words = {"action_description"} if body.action_description is not None else set()
    return body.model_dump(mode="json", include={"agent_context", "timestamp", *words})
