"""LangChain agents with `HumanInTheLoopMiddleware`, in both modes, `batched` and `per_call`.

Call `resume_when_decided` after the agent pauses, and again after a restart: the checkpointer keeps the interrupt, and
Signoff the questions. Each action of an interrupt is its own request; the agent continues when all are decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from signoff.integrations.extras import missing_framework

try:
    from langchain.agents.middleware import HumanInTheLoopMiddleware
except ImportError as error:
    raise missing_framework("LangChain", "langchain") from error
from pydantic import ValidationError

from signoff.client import ApprovalClient, AsyncApprovalClient
from signoff.integrations.langgraph_interrupts import (
    ExactModel,
    GraphThread,
    InterruptQuestion,
    InterruptRefusal,
    Options,
    UnsupportedInterrupt,
    not_as_expected,
)
from signoff.integrations.langgraph_loop import resume_until_done

__all__ = [
    "HumanInTheLoopMiddleware",
    "Options",
    "UnsupportedInterrupt",
    "aresume_when_decided",
    "resume_when_decided",
]


def resume_when_decided(
    client: ApprovalClient, graph: Any, config: Mapping[str, Any], **options: Unpack[Options]
) -> Any:
    """Ask people about this thread's pending tool calls and resume, until none is pending.

    `graph` is what `create_agent` returns; `config` names the thread, which only one process at a time may drive.
    Returns the agent's values. The model receives a rejection with its reason, and an expiry as an expiry. Raises what
    `langgraph_loop.resume_until_done` raises.
    """
    return client.do(
        resume_until_done(GraphThread(graph, config, asynchronous=False), HumanInTheLoop(), options)
    )


async def aresume_when_decided(
    client: AsyncApprovalClient, graph: Any, config: Mapping[str, Any], **options: Unpack[Options]
) -> Any:
    """`resume_when_decided` for an agent with an asynchronous checkpointer."""
    return await client.do(
        resume_until_done(GraphThread(graph, config, asynchronous=True), HumanInTheLoop(), options)
    )


class _ActionRequest(ExactModel):
    name: str
    args: dict[str, Any]
    description: str | None = None


class _ReviewConfig(ExactModel):
    action_name: str
    allowed_decisions: list[Literal["approve", "edit", "reject", "respond"]]
    args_schema: dict[str, Any] | None = None


class _Batch(ExactModel):
    action_requests: list[_ActionRequest]
    review_configs: list[_ReviewConfig]


class _Call(ExactModel):
    type: Literal["tool_approval"]
    tool_call_id: str
    name: str
    args: dict[str, Any]
    description: str


class HumanInTheLoop:
    def questions(self, interrupt: Any, values: Any) -> list[InterruptQuestion]:
        """Raises UnsupportedInterrupt."""
        asked, allowed = _read(interrupt)
        for each, decisions in zip(asked, allowed, strict=True):
            if "approve" not in decisions:
                raise UnsupportedInterrupt(f"{each.name!r} cannot be approved: people are asked for words")
        if isinstance(asked[0] if asked else None, _Call):
            calls: list[str | None] = [each.tool_call_id for each in asked if isinstance(each, _Call)]
        else:
            calls = _calls(values, [each.name for each in asked])
        return [
            InterruptQuestion(each.name, each.args, each.description or None, "edit" in decisions, call)
            for each, decisions, call in zip(asked, allowed, calls, strict=True)
        ]

    def approved(
        self, question: InterruptQuestion, arguments: Mapping[str, Any], *, edited: bool, notes: Sequence[str]
    ) -> Any:
        """The format has no field for notes."""
        if edited:
            return {"type": "edit", "edited_action": {"name": question.action, "args": dict(arguments)}}
        return {"type": "approve"}

    def refused(self, interrupt: Any, number: int, refusal: InterruptRefusal) -> Any:
        """Raises the refusal's error if the call cannot be rejected."""
        if "reject" not in _read(interrupt)[1][number]:
            raise refusal.error
        return {"type": "reject", "message": refusal.reason or refusal.words}

    def whole(self, interrupt: Any, answers: Sequence[Any]) -> Any:
        return answers[0] if interrupt.value.get("type") == "tool_approval" else {"decisions": list(answers)}


def _read(interrupt: Any) -> tuple[Sequence[_ActionRequest | _Call], list[set[str]]]:
    """Raises UnsupportedInterrupt."""
    value = interrupt.value
    try:
        if isinstance(value, Mapping) and value.get("type") == "tool_approval":
            return [_Call.model_validate(value)], [_allowed(interrupt.response_schema)]
        batch = _Batch.model_validate(value)
    except ValidationError as error:
        raise not_as_expected("not from HumanInTheLoopMiddleware", error) from None
    rules: dict[str, list[set[str]]] = {
        each.name: [
            set(rule.allowed_decisions) for rule in batch.review_configs if rule.action_name == each.name
        ]
        for each in batch.action_requests
    }
    if missing := [name for name, found in rules.items() if not found]:
        raise UnsupportedInterrupt(f"the interrupt does not say what may be decided about {missing[0]!r}")
    return batch.action_requests, [set.intersection(*rules[each.name]) for each in batch.action_requests]


def _allowed(schema: Any) -> set[str]:
    """Raises UnsupportedInterrupt."""
    if isinstance(schema, Mapping):
        if mapping := schema.get("discriminator", {}).get("mapping"):
            return set(mapping)
        if kind := schema.get("properties", {}).get("type", {}).get("const"):
            return {kind}
    raise UnsupportedInterrupt("the interrupt does not say what may be decided")


def _calls(values: Any, names: Sequence[str]) -> list[str | None]:
    """Call ids from the model's last message; None where ambiguous."""
    messages = values.get("messages", []) if isinstance(values, Mapping) else []
    made: list[Any] = next(
        (each.tool_calls for each in reversed(messages) if getattr(each, "tool_calls", None)), []
    )
    waiting = [each for each in made if each["name"] in names]
    if [each["name"] for each in waiting] != list(names):
        return [None] * len(names)
    return [each["id"] for each in waiting]
