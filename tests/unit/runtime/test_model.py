"""The model client: what comes back is a usable turn or a classified error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.model import Model
from agent.runtime.model_errors import ModelError
from agent.runtime.model_provider import Provider
from agent.runtime.model_turn import MAX_TRIES, retry_in
from signoff_demo.sandbox.model import ModelFault, ScriptedCall, ScriptedModel, ScriptedTurn

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(api_key="right") as server:
        yield server


@pytest.fixture
async def model(scripted: ScriptedModel) -> AsyncIterator[Model]:
    made = Model("scripted", api_key="right", base_url=scripted.base_url, timeout=2)
    yield made
    await made.close()


async def test_a_turn_has_words_calls_and_tokens(scripted: ScriptedModel, model: Model) -> None:
    """Words and calls come through as the model wrote them, the raw arguments untouched."""
    scripted.script(ScriptedTurn("Let me see.", (ScriptedCall("look", '{"a": 1,  "a": 2}'),)))
    reply = await model.complete(HELLO)
    assert reply.text == "Let me see."
    assert [(c.tool, c.raw_arguments) for c in reply.calls] == [("look", '{"a": 1,  "a": 2}')]
    assert reply.tokens > 0


async def test_an_endless_tool_name_is_cut(scripted: ScriptedModel, model: Model) -> None:
    """A tool's name of any length that a model makes up does not flow into rows, logs and later turns."""
    scripted.script(ScriptedTurn(None, (ScriptedCall("n" * 1_000_000, {}),)))
    [call] = (await model.complete(HELLO)).calls
    assert call.tool == "n" * 128 + "…"


async def test_calls_of_a_turn_without_tools_are_dropped(scripted: ScriptedModel, model: Model) -> None:
    """A tool call that the model was not allowed to make is ignored."""
    scripted.script(ScriptedTurn("I call anyway.", (ScriptedCall("look", {}),)))
    assert (await model.complete(HELLO, may_call=False)).calls == ()


@pytest.mark.parametrize(
    ("fault", "retryable", "text"),
    [
        (ModelFault.http(429, retry_after=7), True, "the model's provider answered 429"),
        (ModelFault.http(500), True, "the model's provider answered 500"),
        (ModelFault.http(400), False, "the model's provider answered 400"),
        (ModelFault.http(401), False, "it rejected the API key"),
        (ModelFault.http(404), False, "it does not know this model"),
        (ModelFault.reset(), True, "the model's provider cannot be reached"),
        (ModelFault.garbage(), True, "the model's answer cannot be used"),
        (ModelFault.hang(), True, "the model did not answer in 2 s"),
    ],
    ids=str,
)
async def test_failures_are_classified(
    scripted: ScriptedModel, model: Model, fault: ModelFault, retryable: bool, text: str
) -> None:
    """Each way to fail says in safe words what it was, and whether asking again can help."""
    scripted.script(fault)
    with pytest.raises(ModelError) as failed:
        await model.complete(HELLO)
    assert text in str(failed.value)
    assert failed.value.retryable is retryable
    assert failed.value.retry_after == fault.retry_after


async def test_no_error_tells_the_key() -> None:
    """A refused key is not repeated in the error, nor is the provider's body."""
    async with ScriptedModel(api_key="right") as server:
        model = Model("scripted", api_key="sk-very-secret", base_url=server.base_url)
        with pytest.raises(ModelError) as failed:
            await model.complete(HELLO)
        await model.close()
    assert "secret" not in str(failed.value)
    assert "Incorrect" not in str(failed.value)
    assert failed.value.__cause__ is None


def answer(**choice: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "hi", **choice.pop("message", {})}
    return {"id": "x", "object": "chat.completion", "choices": [{"index": 0, "message": message, **choice}]}


async def ask(body: Any) -> Any:
    """One answer with this body, from a server that says anything."""

    async def respond(_: web.Request) -> web.Response:
        return web.json_response(body)

    app = web.Application()
    app.router.add_post("/chat/completions", respond)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    model = Model("any", api_key="k", base_url=f"http://127.0.0.1:{runner.addresses[0][1]}", timeout=5)
    try:
        return await model.complete(HELLO)
    finally:
        await model.close()
        await runner.cleanup()


def calling(*functions: Any) -> dict[str, Any]:
    calls = [{"id": "1", "type": "function", "function": function} for function in functions]
    return {"content": None, "tool_calls": calls}


@pytest.mark.parametrize(
    ("body", "retryable"),
    [
        ({}, True),
        ([], True),
        ("hello", True),
        (None, True),
        ({"choices": []}, True),
        ({"choices": "x"}, True),
        ({"choices": [{}]}, True),
        ({"choices": [None]}, True),
        (answer(finish_reason="because"), True),
        (answer(finish_reason=None), True),
        (answer(finish_reason="stop", message={"content": ""}), True),
        (answer(finish_reason="stop", message={"content": 7}), True),
        (answer(finish_reason="tool_calls", message=calling({"arguments": "{}"})), True),
        (answer(finish_reason="tool_calls", message=calling(*[{"name": "a", "arguments": ""}] * 129)), True),
        (answer(finish_reason="tool_calls", message={"content": None, "tool_calls": 3}), True),
        (answer(finish_reason="content_filter"), False),
        (answer(finish_reason="length", message={"content": None}), False),
        (answer(finish_reason="length", message=calling({"name": "a", "arguments": '{"b":'})), False),
    ],
    ids=str,
)
async def test_an_answer_that_cannot_be_used_is_an_error(body: Any, retryable: bool) -> None:
    """Whatever a provider sends, the result is a turn or a ModelError, never another exception."""
    with pytest.raises(ModelError) as failed:
        await ask(body)
    assert failed.value.retryable is retryable


async def test_a_cut_answer_says_so() -> None:
    """Words that end at the length limit are used, and marked as cut."""
    reply = await ask(answer(finish_reason="length"))
    assert reply.text == "hi\n[cut off at the model's length limit]"


async def test_a_refusal_is_the_answer() -> None:
    """A model that declines has answered; what it proposed besides is not called."""
    message = {**calling({"name": "a", "arguments": "{}"}), "refusal": "I cannot help with that."}
    reply = await ask(answer(finish_reason="stop", message=message))
    assert (reply.text, reply.calls) == ("The model declined: I cannot help with that.", ())


async def test_what_the_database_cannot_hold_is_replaced() -> None:
    """NUL and lone surrogates are marked in words, and stay malformed in arguments."""
    message = {**calling({"name": "a\x00", "arguments": '{"b": "\x00\ud800"}'}), "content": "x\x00\ud800"}
    reply = await ask(answer(finish_reason="tool_calls", message=message))
    assert reply.text == "x\ufffd\ufffd"
    assert reply.calls[0].tool == "a\\u0000"
    assert reply.calls[0].raw_arguments == '{"b": "\\u0000\\ud800"}'


@given(st.integers(0, 20), st.floats(0, 1), st.none() | st.floats(0, 1000))
def test_waits_grow_and_keep_within_bounds(failures: int, jitter: float, asked_for: float | None) -> None:
    """Waits double from a second with jitter, never before the provider wants, and end after six failures."""
    wait = retry_in(ModelError("x", retryable=True, retry_after=asked_for), failures, jitter)
    if failures + 1 >= MAX_TRIES or (asked_for or 0) > 600:
        assert wait is None
    else:
        assert wait is not None
        assert max(asked_for or 0, 0.75 * 2**failures) <= wait <= max(asked_for or 0, 1.25 * 2**failures)


def test_what_cannot_help_is_not_tried_again() -> None:
    """An error that waiting does not mend ends the run at once."""
    assert retry_in(ModelError("x", retryable=False), 0, 0.5) is None


async def test_first_questions_at_once_share_one_client() -> None:
    """However many ask first, one client is made, so that closing the model closes every connection."""
    model = Model("any", api_key="k", base_url="http://127.0.0.1:9")
    first, second = await asyncio.gather(model._reached(), model._reached())
    await model.close()
    assert first is second


async def test_the_first_question_does_not_hold_up_the_event_loop(
    scripted: ScriptedModel, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client, whose certificates take a while to read, is made in a thread: clicks go on meanwhile."""
    made: list[threading.Thread] = []
    make = Provider.__init__

    def noted(provider: Provider, **options: Any) -> None:
        made.append(threading.current_thread())
        make(provider, **options)

    monkeypatch.setattr(Provider, "__init__", noted)
    scripted.script(ScriptedTurn("Hello.", ()))
    await model.complete(HELLO)
    assert made
    assert threading.current_thread() not in made
