"""Turns in the format of the OpenAI Chat Completions API, whole or streamed."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from signoff_demo.sandbox.model_script import MODEL_NAME, ScriptedTurn

FINGERPRINT = "scripted"
_PIECE = 24  # characters per streamed chunk


def model_card() -> dict[str, Any]:
    """Return the scripted model as the API lists models."""
    return {"id": MODEL_NAME, "object": "model", "created": 0, "owned_by": "scripted"}


def completion(turn: ScriptedTurn, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn as one whole Chat Completions response, with its usage of tokens."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.text, "refusal": None}
    if turn.calls:
        message["tool_calls"] = _tool_calls(turn, body)
    choice = {"index": 0, "message": message, "finish_reason": _finish(turn), "logprobs": None}
    return {**_envelope(body, "chat.completion"), "choices": [choice], "usage": _usage(turn, body)}


def chunks(turn: ScriptedTurn, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Ends with usage if the request asks for it."""
    envelope = _envelope(body, "chat.completion.chunk")
    for delta in _deltas(turn, body):
        yield {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**envelope, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(turn)}]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**envelope, "choices": [], "usage": _usage(turn, body)}


def _deltas(turn: ScriptedTurn, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": None if turn.text is None else ""}
    for piece in _pieces(turn.text or ""):
        yield {"content": piece}
    for index, call in enumerate(_tool_calls(turn, body)):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{**call, "index": index, "function": function}]}
        for piece in _pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


def _envelope(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    envelope = {"id": f"chatcmpl-scripted-{_mark(body)}", "object": kind, "created": int(time.time())}
    return {**envelope, "model": MODEL_NAME, "system_fingerprint": FINGERPRINT}


def _tool_calls(turn: ScriptedTurn, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{_mark(body)}_{index}" if call.id is None else call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.encoded()},
        }
        for index, call in enumerate(turn.calls)
    ]


def _mark(body: Mapping[str, Any]) -> str:
    """Derived from the transcript, so ids are stable across restarts."""
    return hashlib.sha256(json.dumps(body["messages"], sort_keys=True).encode()).hexdigest()[:16]


def _finish(turn: ScriptedTurn) -> str:
    return "tool_calls" if turn.calls else "stop"


def _usage(turn: ScriptedTurn, body: Mapping[str, Any]) -> dict[str, int]:
    """Estimated at four characters per token."""
    prompt = len(json.dumps([body["messages"], body.get("tools") or []])) // 4
    written = len(turn.text or "") + sum(len(call.name) + len(call.encoded()) for call in turn.calls)
    completion = written // 4 + 1
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
