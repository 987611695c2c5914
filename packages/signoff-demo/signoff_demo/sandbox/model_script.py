"""The scripted model: a pure function from one Chat Completions request to one turn.

No language model. The script follows five rules, in this order:

1. Tool results, or a note about an earlier call, came last: summarise them.
2. No tools are offered: say what is still pending.
3. The user names a tool (``delete_records table_name=users count=50``): call it.
4. The user's words match a tool ("refund order 7"): call it, once per matching clause.
5. Otherwise: explain that this is a script, list the tools, and show how to ask for one.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from signoff_demo.sandbox.model_phrases import OfferedTool, named_calls, worded_calls

MODEL_NAME = "signoff-scripted"

_FOR_MODELS = re.compile(r"\A\[[^\]]*\]\s+(?=\S)|\s*\((?:pending, )?request(?: id)? [0-9a-f-]{36}\)")
"""Parts of a tool result meant only for models: a note's label, and ids."""


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """Arguments given as a string are sent verbatim, valid JSON or not. Without an `id` the call gets its own."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str | None = None

    def encoded(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    def described(self) -> str:
        if isinstance(self.arguments, str):
            return f"{self.name}({self.arguments})"
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """A turn of the scripted model: a text, tool calls, or both."""

    text: str | None = None
    calls: tuple[ScriptedCall, ...] = ()


def answer(request: Mapping[str, Any]) -> ScriptedTurn:
    """Return the scripted model's turn for one Chat Completions request; no language model is asked."""
    messages: Sequence[Mapping[str, Any]] = request["messages"]
    if news := _news(messages):
        return ScriptedTurn(_summary(news, messages))
    tools = [] if request.get("tool_choice") == "none" else _offered(request)
    if not tools:
        return ScriptedTurn(_pending(messages))
    said = _text(messages[-1]) if messages else ""
    if calls := [ScriptedCall(*call) for call in named_calls(said, tools)]:
        return ScriptedTurn(
            f"I was asked to call {_listed(call.described() for call in calls)}.", tuple(calls)
        )
    wording = worded_calls(said, tools)
    if wording.calls:
        calls = [ScriptedCall(*call) for call in wording.calls]
        return ScriptedTurn(
            f"The request was: “{_short(said)}”. So I ask for {_described(calls)}.", tuple(calls)
        )
    return ScriptedTurn(_explanation(tools, wording.missing))


def _offered(request: Mapping[str, Any]) -> list[OfferedTool]:
    offered = [tool["function"] for tool in request.get("tools") or () if tool.get("type") == "function"]
    return [OfferedTool(f["name"], f.get("description") or "", f.get("parameters") or {}) for f in offered]


def _news(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Tool results and notes after the last text of the user or the model.

    Initial instructions do not count, and a user message in square brackets counts as a note.
    """
    if messages and messages[-1].get("role") == "user" and _text(messages[-1]).startswith("["):
        return [messages[-1]]
    fresh = list(
        takewhile(lambda message: message.get("role") not in ("user", "assistant"), reversed(messages))
    )
    return [] if len(fresh) == len(messages) else fresh[::-1]


def _summary(news: Iterable[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> str:
    asked = {call["id"]: _asked(call) for message in messages for call in message.get("tool_calls") or ()}
    lines = []
    for message in news:
        who = asked.get(message.get("tool_call_id", ""))
        lines.append(f"{who}: {_plain(_text(message))}" if who else _plain(_text(message)))
    if len(lines) == 1:
        return f"Here is what came back. {lines[0]}"
    return "Here is what came back:\n" + "\n".join(f"- {line}" for line in lines)


def _pending(messages: Sequence[Mapping[str, Any]]) -> str:
    answers = {
        message.get("tool_call_id"): _text(message) for message in messages if message.get("role") == "tool"
    }
    waiting = [
        _asked(call)
        for message in messages
        for call in message.get("tool_calls") or ()
        if _undecided(answers.get(call["id"]))
    ]
    if waiting:
        return f"Still waiting for a decision: {_listed(waiting)}. Until then I cannot call any tool."
    return "Nothing is pending that I know of, and I was given no tools for this answer."


def _undecided(result: str | None) -> bool:
    return result is None or "pending" in result.lower() or "waiting" in result.lower()


def _explanation(tools: Sequence[OfferedTool], missing: Sequence[str]) -> str:
    usage = _listed(f"`{tool.usage()}`" for tool in tools)
    lead = f"I still need {_listed(missing)}. " if missing else ""
    return (
        f"{lead}I am a scripted model ({MODEL_NAME}), not a language model. I can call {usage}: "
        "say it in words, or write the tool's name with its arguments."
    )


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content.strip()
    return " ".join(part.get("text", "") for part in content if isinstance(part, Mapping)).strip()


def _plain(content: str) -> str:
    try:
        value = json.loads(content)
    except ValueError:
        return _FOR_MODELS.sub("", content) or "no output"
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')}: {_leaf(part)}" for key, part in value.items()) + "."
    return _leaf(value)


def _leaf(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _asked(call: Mapping[str, Any]) -> str:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = function["arguments"]
    return ScriptedCall(
        function["name"], arguments if isinstance(arguments, dict) else str(arguments)
    ).described()


def _described(calls: Sequence[ScriptedCall]) -> str:
    return _listed(call.described() for call in calls)


def _short(text: str, limit: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _listed(parts: Iterable[str]) -> str:
    items = list(parts)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
