"""One request to a model over the Chat Completions API. The caller retries, and counts in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.domain.run import ProposedCall
from agent.runtime import stored_text
from agent.runtime.model_errors import ModelError, unusable

if TYPE_CHECKING:
    from agent.runtime.model_provider import Provider

TIMEOUT = 60.0
"""Seconds for one answer, connection included."""

MAX_CALLS = 128
"""Per turn; also the API's limit."""

MAX_NAME = 128
"""Characters of a tool's name."""


@dataclass(frozen=True, slots=True)
class Reply:
    """`tokens` counts prompt and answer."""

    text: str | None
    calls: tuple[ProposedCall, ...]
    tokens: int
    finish_reason: str


class Model:
    """``name``: the model of agents without their own."""

    def __init__(
        self, name: str, *, api_key: str, base_url: str | None = None, timeout: float = TIMEOUT
    ) -> None:
        self.name = name
        self.last_problem: str | None = None
        self._make = partial(_provider, api_key, base_url, timeout)
        self._provider: Provider | None = None
        self._first = asyncio.Lock()

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        may_call: bool = True,
        model: str | None = None,
    ) -> Reply:
        """Without `may_call` the model may use no tools. Raises only ModelError."""
        try:
            reply = await self._complete(messages, tools, may_call=may_call, model=model)
        except ModelError as error:
            self.last_problem = str(error)
            raise
        self.last_problem = None
        return reply

    async def _complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        may_call: bool,
        model: str | None,
    ) -> Reply:
        request: dict[str, Any] = {"model": model or self.name, "messages": list(messages)}
        if tools:
            request["tools"] = list(tools)
            request["tool_choice"] = "auto" if may_call else "none"
        return _reply(await (await self._reached()).answer(request), may_call=may_call)

    async def _reached(self) -> Provider:
        """Load the library with the first request: the service starts faster. In a thread: its import and its client's
        certificates take as long as many clicks.
        """
        async with self._first:
            if self._provider is None:
                self._provider = await asyncio.to_thread(self._make)
            return self._provider

    async def close(self) -> None:
        if self._provider is not None:
            await self._provider.close()


def _reply(completion: Any, *, may_call: bool) -> Reply:
    """The client library has not checked the fields."""
    choices = getattr(completion, "choices", None)
    choice: Any = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    if message is None:
        raise unusable("it contains no choice")
    reason = getattr(choice, "finish_reason", None)
    calls = _calls(getattr(message, "tool_calls", None)) if may_call else ()
    text = _text(getattr(message, "content", None))
    if refusal := _text(getattr(message, "refusal", None)):
        text, calls = f"The model declined: {refusal}", ()
    elif reason == "content_filter":
        raise ModelError("the provider's content filter withheld the answer", retryable=False)
    elif reason == "length":
        if calls or not text:
            raise ModelError("the answer was cut off at the model's length limit", retryable=False)
        text = f"{text}\n[cut off at the model's length limit]"
    elif reason not in ("stop", "tool_calls", "function_call"):
        raise unusable("its finish reason is unknown")
    if not calls and not text:
        raise unusable("it is empty")
    return Reply(text, calls, _tokens(completion, text), str(reason))


def _calls(proposed: Any) -> tuple[ProposedCall, ...]:
    if not proposed:
        return ()
    if not isinstance(proposed, list) or len(proposed) > MAX_CALLS:
        raise unusable(f"it proposes more than {MAX_CALLS} calls, or none that can be read")
    return tuple(_call(item) for item in proposed)


def _call(item: Any) -> ProposedCall:
    function = getattr(item, "function", None)
    name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
    if not isinstance(name, str) or not name:
        raise unusable("it calls a tool without a name")
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else repr(arguments)  # malformed, and shown as such
    return ProposedCall(
        stored_text.escape_json(str(getattr(item, "id", None) or "")),
        stored_text.escape_json(name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"),
        stored_text.escape_json(arguments),
    )


def _text(content: Any) -> str | None:
    return stored_text.storable_text(content).strip() or None if isinstance(content, str) else None


def _tokens(completion: Any, text: str | None) -> int:
    total = getattr(getattr(completion, "usage", None), "total_tokens", None)
    # About four characters are a token, so the limit works without a count.
    return total if isinstance(total, int) and total > 0 else 1 + len(text or "") // 4


def _provider(api_key: str, base_url: str | None, timeout: float) -> Provider:
    from agent.runtime.model_provider import Provider  # noqa: PLC0415 - see there

    return Provider(api_key=api_key, base_url=base_url, timeout=timeout)
