"""LangChain agents with `HumanInTheLoopMiddleware`, in both modes, `batched` and `per_call`.

Call `resume_when_decided` after the agent pauses, and again after a restart: the checkpointer keeps the interrupt, and
Signoff the questions. Each action of an interrupt is its own request; the agent continues when all are decided.

Before anybody is asked, the tool's own types read the model's arguments, and defaults are filled in. Where that changes
them, the tool runs with them by an `edit`; a call that may only be approved as it is, is refused with the path.

A tool that allows `respond` and not `approve` never runs: people are asked for their own words, which are its result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Unpack

from signoff.integrations.extras import missing_framework

try:
    from langchain.agents.middleware import HumanInTheLoopMiddleware
except ImportError as error:
    raise missing_framework("LangChain", "langchain") from error
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ValidationError

from signoff.canonical import plain_object
from signoff.client import ApprovalClient, AsyncApprovalClient
from signoff.errors import MalformedArguments
from signoff.integrations.langgraph_format import (
    ExactModel,
    GraphThread,
    InterruptQuestion,
    InterruptRefusal,
    MadeCall,
    Options,
    UnsupportedInterrupt,
    made_calls,
    not_as_expected,
)
from signoff.integrations.langgraph_loop import resume_until_done
from signoff.integrations.questions import FREE_TEXT, Question, no_answer
from signoff.integrations.tool_calls import shared_id
from signoff.json_form import CHANGED, difference, dumps_of_model, stable_form

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
        resume_until_done(
            GraphThread(graph, config, asynchronous=False), HumanInTheLoop(_tools_in(graph)), options
        )
    )


async def aresume_when_decided(
    client: AsyncApprovalClient, graph: Any, config: Mapping[str, Any], **options: Unpack[Options]
) -> Any:
    """`resume_when_decided` for an agent with an asynchronous checkpointer."""
    return await client.do(
        resume_until_done(
            GraphThread(graph, config, asynchronous=True), HumanInTheLoop(_tools_in(graph)), options
        )
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


@dataclass(frozen=True)
class HumanInTheLoop:
    tools: Mapping[str, BaseTool] = field(default_factory=dict)

    def questions(self, interrupt: Any, values: Any) -> list[InterruptQuestion]:
        """Raises UnsupportedInterrupt."""
        asked, allowed = _read(interrupt)
        for each, decisions in zip(asked, allowed, strict=True):
            if not decisions & {"approve", "respond"}:
                raise UnsupportedInterrupt(f"{each.name!r} can be neither approved nor responded to")
        batched = not isinstance(asked[0] if asked else None, _Call)
        message, made = made_calls(values.get("messages", []) if isinstance(values, Mapping) else [])
        if batched and values is not None and not _are_among(made, asked):
            raise UnsupportedInterrupt(
                "the calls are not in the state of the graph that Signoff is given, so their ids cannot be read: make "
                "the agent a node of that graph, or give it a checkpointer of its own and resume it by itself"
            )
        ids = _ids(made, [each.name for each in asked]) if batched else [each.tool_call_id for each in asked]  # type: ignore[union-attr]
        found = []
        for each, decisions, call_id in zip(asked, allowed, ids, strict=True):
            mine = [one["id"] for one in made if one["name"] == each.name] if call_id is None else [call_id]
            question = InterruptQuestion(
                each.name,
                each.args,
                each.description or None,
                # The middleware finds an edit by the call's id, and runs the model's arguments if it has none.
                editable="edit" in decisions and not (batched and not all(mine)),
                call=MadeCall(message, call_id) if call_id in [one["id"] for one in made] else None,
            )
            shared = [one for one in mine if sum(one == other["id"] for other in made) > 1]
            if shared:
                question = replace(question, unusable=shared_id(shared[0]))
            elif "approve" not in decisions:
                question = replace(question, answer=_words_wanted(each))
            else:
                question = self._read(question)
            found.append(question)
        return found

    def _read(self, question: InterruptQuestion) -> InterruptQuestion:
        try:
            arguments = self._form(question.action, question.arguments)
        except MalformedArguments as error:
            return replace(question, unusable=error)
        if (path := difference(question.arguments, arguments)) is None:
            return replace(question, arguments=arguments)
        if not question.editable:
            return replace(question, unusable=MalformedArguments(path, CHANGED))
        # The middleware's description shows the model's arguments.
        return replace(question, arguments=arguments, changed=True, description=None)

    def _form(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Raises MalformedArguments, and UnsupportedInterrupt for a tool that is not in the graph."""
        if name not in self.tools:
            raise UnsupportedInterrupt(
                f"the graph has no tool {name!r}, so what it would run with cannot be read"
            )
        schema = _schema_of(self.tools[name])
        if schema is None:
            return plain_object(given)
        return stable_form(schema.model_validate, partial(_dumps, given), given, vars)

    def check_judged(self, question: InterruptQuestion, arguments: Mapping[str, Any]) -> None:
        """Raises MalformedArguments, with the path, if the tool would get something else."""
        if (path := difference(dict(arguments), self._form(question.action, arguments))) is not None:
            raise MalformedArguments(path, CHANGED)

    def approved(
        self,
        question: InterruptQuestion,
        arguments: Mapping[str, Any],
        *,
        edited: bool,
        notes: Sequence[str],  # noqa: ARG002
    ) -> Any:
        """The format has no field for notes."""
        if edited or question.changed:
            return {"type": "edit", "edited_action": {"name": question.action, "args": dict(arguments)}}
        return {"type": "approve"}

    def answered(self, value: Any) -> Any:
        return {"type": "respond", "message": value["answer"]}

    def refused(self, interrupt: Any, number: int, refusal: InterruptRefusal) -> Any:
        """Raises the refusal's error if the call can be neither rejected nor only responded to."""
        allowed = _read(interrupt)[1][number]
        if "reject" not in allowed:
            if "approve" in allowed:
                raise refusal.error
            return {"type": "respond", "message": no_answer(refusal.words)}
        reason = refusal.reason or ""
        is_line = len(reason.splitlines()) == 1  # several are quoted in the words
        return {"type": "reject", "message": reason if is_line else refusal.words}

    def whole(self, interrupt: Any, answers: Sequence[Any]) -> Any:
        return answers[0] if interrupt.value.get("type") == "tool_approval" else {"decisions": list(answers)}


def _words_wanted(asked: _ActionRequest | _Call) -> Question:
    """The model's arguments are part of the question, unless the middleware's description shows them."""
    words = asked.description or asked.name
    if not all(isinstance(each, str) and each in words for each in asked.args.values()):
        shown = json.dumps(asked.args, ensure_ascii=False)
        words = words if str(asked.args) in words else f"{words}\n\n{shown}"
    return Question(question=words, form=FREE_TEXT)


def _tools_in(graph: Any) -> dict[str, BaseTool]:
    """Those of its tool nodes, and of the graphs within it."""
    found: dict[str, BaseTool] = {}
    for node in (getattr(graph, "nodes", None) or {}).values():
        inner = getattr(node, "bound", None)
        found |= _tools_in(inner) | (getattr(inner, "tools_by_name", None) or {})
    return found


def _schema_of(tool: BaseTool) -> type[BaseModel] | None:
    """None: LangChain passes on what it is given. What the framework itself passes is left out."""
    own, seen = tool.args_schema, tool.tool_call_schema
    if not (isinstance(own, type) and issubclass(own, BaseModel)):
        return None
    if (
        isinstance(seen, type)
        and issubclass(seen, BaseModel)
        and seen.model_fields.keys() != own.model_fields.keys()
    ):
        return seen
    return own


def _dumps(given: Mapping[str, Any], read: BaseModel) -> tuple[Any, Any]:
    """A function's `*args` and `**kwargs` are fields of its schema, but no arguments."""
    python, plain = dumps_of_model(read)
    unused = {"args", "kwargs"} - given.keys()
    return tuple({key: value for key, value in each.items() if key not in unused} for each in (python, plain))  # type: ignore[return-value]


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


def _are_among(made: Sequence[Any], asked: Sequence[_ActionRequest | _Call]) -> bool:
    left = iter(made)
    return all(any((one["name"], one["args"]) == (each.name, each.args) for one in left) for each in asked)


def _ids(made: Sequence[Any], names: Sequence[str]) -> list[str | None]:
    """The ids of the calls that are asked about; None where ambiguous."""
    waiting = [each for each in made if each["name"] in names]
    if [each["name"] for each in waiting] != list(names):
        return [None] * len(names)
    return [each["id"] for each in waiting]
