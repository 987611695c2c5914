"""LangGraph: tools approved in the background, and graphs that wait for people in an `interrupt`.

`Background` runs approved actions in its own threads while the chat continues. Call `resume_when_decided` after the
graph pauses, and again after a restart: the checkpointer keeps the interrupt, and Signoff the question. Interrupts have
the agent inbox format: a list of `HumanInterrupt`, answered by a list of `HumanResponse`. Such a graph must run what it
asked about: put the arguments in an interrupt as the tool gets them, with its types applied and its defaults filled in.

An interrupt may also ask for an answer, with which the graph goes on:

    region = interrupt({"question": "Which region?", "options": ["eu", "us"], "otherwise": "eu"})

The dict is a `questions.Question`. With `otherwise` the graph goes on with that value if people reject the question or
nobody answers in time; without, that is an error, and the graph keeps waiting.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from signoff.integrations.extras import missing_framework

try:
    from langgraph.prebuilt import ToolRuntime
except ImportError as error:
    raise missing_framework("LangGraph", "langgraph") from error
from pydantic import ValidationError

from signoff.canonical import canonical_bytes
from signoff.client import ApprovalClient, AsyncApprovalClient
from signoff.integrations.background import Background, BackgroundCall, BackgroundResult
from signoff.integrations.langgraph_format import (
    ExactModel,
    GraphThread,
    InterruptQuestion,
    InterruptRefusal,
    Options,
    UnsupportedInterrupt,
    made_calls,
    not_as_expected,
)
from signoff.integrations.langgraph_loop import resume_until_done
from signoff.integrations.questions import Question
from signoff.integrations.tool_calls import shared_id
from signoff.values import ACTION_NAME

__all__ = [
    "Background",
    "BackgroundCall",
    "BackgroundResult",
    "Options",
    "UnsupportedInterrupt",
    "aresume_when_decided",
    "call_key",
    "resume_when_decided",
]


def call_key(runtime: ToolRuntime) -> str:
    """Stable when LangGraph repeats the call, and unique, also if the model repeats its ids in later turns.

    Raises SignoffError if two calls of this turn have one id.
    """
    thread = runtime.config.get("configurable", {}).get("thread_id")
    state: Any = runtime.state
    _, made = made_calls(state.get("messages", []) if isinstance(state, Mapping) else [])
    if sum(each["id"] == runtime.tool_call_id for each in made) > 1:
        raise shared_id(runtime.tool_call_id)
    task = runtime.execution_info.task_id if runtime.execution_info else None
    named = canonical_bytes([str(thread), task, runtime.tool_call_id])
    return f"call-{hashlib.sha256(named).hexdigest()[:40]}"


def resume_when_decided(
    client: ApprovalClient, graph: Any, config: Mapping[str, Any], **options: Unpack[Options]
) -> Any:
    """Ask people about this thread's interrupts and resume, until none is left.

    `config` names the thread, which only one process at a time may drive. Returns the graph's values. Reviewers' notes
    on approval are under the key `note`, beside `type` and `args`. A rejection or an expiry is `response` with the
    reason if there is one, otherwise `ignore`. Raises what `langgraph_loop.resume_until_done` raises.
    """
    return client.do(resume_until_done(GraphThread(graph, config, asynchronous=False), AgentInbox(), options))


async def aresume_when_decided(
    client: AsyncApprovalClient, graph: Any, config: Mapping[str, Any], **options: Unpack[Options]
) -> Any:
    """`resume_when_decided` for a graph with an asynchronous checkpointer."""
    return await client.do(
        resume_until_done(GraphThread(graph, config, asynchronous=True), AgentInbox(), options)
    )


class _Action(ExactModel):
    action: str
    args: dict[str, Any]


class _Config(ExactModel):
    allow_ignore: bool
    allow_respond: bool
    allow_edit: bool
    allow_accept: bool


class _HumanInterrupt(ExactModel):
    action_request: _Action
    config: _Config
    description: str | None = None


class _GraphQuestion(Question):
    otherwise: Any = None


class AgentInbox:
    def questions(self, interrupt: Any, values: Any) -> list[InterruptQuestion]:  # noqa: ARG002
        """Raises UnsupportedInterrupt."""
        if (asked_for := _question(interrupt.value)) is not None:
            return [InterruptQuestion("", {}, None, editable=False, answer=asked_for)]
        found = []
        for each in _read(interrupt.value):
            asked = each.action_request
            if not each.config.allow_accept:
                raise UnsupportedInterrupt(f"{asked.action!r} cannot be accepted: people are asked for words")
            if problem := ACTION_NAME.problem(asked.action):
                words = f"the action {asked.action!r} is not the name of a tool: it {problem}"
                raise UnsupportedInterrupt(words)
            found.append(
                InterruptQuestion(asked.action, asked.args, each.description or None, each.config.allow_edit)
            )
        return found

    def approved(
        self, question: InterruptQuestion, arguments: Mapping[str, Any], *, edited: bool, notes: Sequence[str]
    ) -> Any:
        given = {"note": "\n".join(notes)} if notes else {}
        if edited:
            return {"type": "edit", "args": {"action": question.action, "args": dict(arguments)}, **given}
        return {"type": "accept", "args": None, **given}

    def check_judged(self, question: InterruptQuestion, arguments: Mapping[str, Any]) -> None:
        """The graph reads them itself."""

    def answered(self, value: Any) -> Any:
        return value

    def refused(self, interrupt: Any, number: int, refusal: InterruptRefusal) -> Any:
        """Answer `response` with a reason, otherwise `ignore`, if the graph allows them. Raises the refusal's error."""
        if (asked_for := _question(interrupt.value)) is not None:
            if "otherwise" not in asked_for.model_fields_set:
                raise refusal.error
            return asked_for.otherwise
        allowed = _read(interrupt.value)[number].config
        if allowed.allow_respond and (refusal.reason or not allowed.allow_ignore):
            return {"type": "response", "args": refusal.words}
        if allowed.allow_ignore:
            return {"type": "ignore", "args": None}
        raise refusal.error

    def whole(self, interrupt: Any, answers: Sequence[Any]) -> Any:
        return list(answers) if _question(interrupt.value) is None else answers[0]


def _question(value: Any) -> _GraphQuestion | None:
    """Raises UnsupportedInterrupt."""
    if not isinstance(value, Mapping) or "question" not in value:
        return None
    try:
        return _GraphQuestion.model_validate(value)
    except ValidationError as error:
        raise not_as_expected("no question that people can answer", error) from None


def _read(value: Any) -> list[_HumanInterrupt]:
    try:
        return [
            _HumanInterrupt.model_validate(each) for each in (value if isinstance(value, list) else [value])
        ]
    except ValidationError as error:
        raise not_as_expected("not a HumanInterrupt", error) from None
