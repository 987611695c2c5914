"""The scripted model: what it reads out of plain words, and that the real OpenAI client accepts it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from signoff_demo.sandbox.model import MODEL_NAME, ModelFault, ScriptedModel, ScriptedTurn
from signoff_demo.sandbox.model_script import answer


def _tool(
    name: str, description: str, required: list[str] | None = None, **properties: str
) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties) if required is None else required,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    _tool("process_refund", "Refund an order.", order_id="integer"),
    _tool("get_order_status", "Look up the status of an order.", order_id="integer"),
    _tool("delete_records", "Delete rows of a table.", table_name="string", count="integer"),
    _tool("send_notification", "Tell somebody something.", recipient="string", message="string"),
    _tool("list_orders", "All orders."),
]


def ask(
    text: str, tools: list[dict[str, Any]] | None = TOOLS, before: list[dict[str, Any]] | None = None
) -> ScriptedTurn:
    messages = [
        {"role": "system", "content": "You help."},
        *(before or []),
        {"role": "user", "content": text},
    ]
    return answer({"model": "m", "messages": messages, "tools": tools})


def called(turn: ScriptedTurn) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in turn.calls]


REFUND_PENDING: list[dict[str, Any]] = [
    {"role": "user", "content": "refund order 7"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "process_refund", "arguments": '{"order_id": 7}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"status": "pending", "request_id": "r1"}'},
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("refund order 7", [("process_refund", {"order_id": 7})]),
        ("Please refund my order number 7, it arrived broken.", [("process_refund", {"order_id": 7})]),
        ("status of order 7", [("get_order_status", {"order_id": 7})]),
        ("Where is my order #7?", [("get_order_status", {"order_id": 7})]),
        ("Has the refund of order 7 gone through?", [("get_order_status", {"order_id": 7})]),
        ("refund orders 7 and 9", [("process_refund", {"order_id": 7}), ("process_refund", {"order_id": 9})]),
        (
            "What is the status of order 3, and refund order 4",
            [("get_order_status", {"order_id": 3}), ("process_refund", {"order_id": 4})],
        ),
        (
            "delete 50 old records from the users table",
            [("delete_records", {"table_name": "users", "count": 50})],
        ),
        (
            "notify ada@example.com saying your refund, and the letter, are on the way",
            [
                (
                    "send_notification",
                    {
                        "recipient": "ada@example.com",
                        "message": "your refund, and the letter, are on the way",
                    },
                )
            ],
        ),
        ("list orders", [("list_orders", {})]),
    ],
)
def test_plain_words_become_the_fitting_tool_call(text: str, expected: list[tuple[str, Any]]) -> None:
    """A request in plain words becomes the calls a reader would expect, one for every order it names."""
    turn = ask(text)
    assert called(turn) == expected
    assert turn.text, "a call comes with a rationale that a card can quote"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "delete_records table_name=users count=50",
            [("delete_records", {"table_name": "users", "count": 50})],
        ),
        (
            'delete_records(table_name="old users", count=5)',
            [("delete_records", {"table_name": "old users", "count": 5})],
        ),
        ('process_refund {"order_id": 8} thanks', [("process_refund", {"order_id": 8})]),
        (
            "process_refund order_id=1 and get_order_status order_id=1",
            [("process_refund", {"order_id": 1}), ("get_order_status", {"order_id": 1})],
        ),
        ('process_refund {"order_id": oops', [("process_refund", '{"order_id": oops')]),
    ],
)
def test_a_named_tool_is_called_with_the_arguments_as_written(
    text: str, expected: list[tuple[str, Any]]
) -> None:
    """A tool named with arguments is called with exactly those; broken JSON is passed on broken."""
    assert called(ask(text)) == expected


@pytest.mark.parametrize("text", ["hello there", "refund it", "approved", "I like orders"])
def test_no_call_is_invented(text: str) -> None:
    """Without words that fit a tool and its required arguments there is no call, only how to ask."""
    turn = ask(text)
    assert not turn.calls
    assert "scripted model" in (turn.text or "")
    assert "process_refund" in (turn.text or "")


def test_optional_arguments_are_filled_only_from_their_own_word() -> None:
    """A number is not taken for an optional parameter that the sentence does not mention."""
    tool = _tool("process_refund", "Refund.", ["order_id"], amount="number", order_id="integer")
    assert called(ask("refund order 7", [tool])) == [("process_refund", {"order_id": 7})]
    assert called(ask("refund order 7 amount 12.5", [tool])) == [
        ("process_refund", {"amount": 12.5, "order_id": 7})
    ]


def test_tool_results_are_told_in_words() -> None:
    """After tool results the script says which call said what, and calls nothing."""
    turn = answer({"model": "m", "messages": REFUND_PENDING, "tools": TOOLS})
    assert not turn.calls
    assert turn.text == "Here is what came back. process_refund(order_id=7): status: pending, request id: r1."


@pytest.mark.parametrize("role", ["system", "developer", "user"])
def test_a_late_outcome_is_told_in_words(role: str) -> None:
    """The outcome of a background call, arriving as a note, is passed on."""
    talk = [*REFUND_PENDING, {"role": "assistant", "content": "It needs a review."}]
    note = {"role": role, "content": "[process_refund for order 7 was rejected: wrong amount]"}
    turn = answer({"model": "m", "messages": [*talk, note], "tools": TOOLS})
    assert not turn.calls
    assert "rejected: wrong amount" in (turn.text or "")


def test_without_tools_the_pending_calls_are_named() -> None:
    """A message during a wait, answered with tools off, names the call that is waiting."""
    assert "process_refund(order_id=7)" in (ask("what about it?", None, REFUND_PENDING).text or "")
    assert "Nothing is pending" in (ask("hi", None).text or "")


@pytest_asyncio.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(port=0, api_key="k-1") as running:
        yield running


@pytest_asyncio.fixture
async def client(model: ScriptedModel) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="k-1", base_url=model.base_url, max_retries=0, timeout=10) as opened:
        yield opened


async def say(client: AsyncOpenAI, text: str = "refund order 7") -> Any:
    messages: Any = [{"role": "user", "content": text}]
    tools: Any = TOOLS
    return await client.chat.completions.create(model=MODEL_NAME, messages=messages, tools=tools)


async def test_the_real_client_reads_a_call_and_its_label(model: ScriptedModel, client: AsyncOpenAI) -> None:
    """The unmodified client parses calls, usage and the label; the same transcript gives the same ids."""
    first, second = await say(client), await say(client)
    (call,) = first.choices[0].message.tool_calls
    assert (call.type, call.function.name, json.loads(call.function.arguments)) == (
        "function",
        "process_refund",
        {"order_id": 7},
    )
    assert (first.model, first.system_fingerprint, first.choices[0].finish_reason) == (
        "signoff-scripted",
        "scripted",
        "tool_calls",
    )
    assert first.usage.total_tokens == first.usage.prompt_tokens + first.usage.completion_tokens > 0
    assert second.choices[0].message.tool_calls[0].id == call.id
    assert [entry.owned_by async for entry in client.models.list()] == ["scripted"]


async def test_streaming_adds_up_to_the_same_answer(model: ScriptedModel, client: AsyncOpenAI) -> None:
    """The streamed pieces, put together by the client, equal the answer that is not streamed."""
    whole = (await say(client)).choices[0]
    messages: Any = [{"role": "user", "content": "refund order 7"}]
    tools: Any = TOOLS
    async with client.chat.completions.stream(
        model=MODEL_NAME, messages=messages, tools=tools, stream_options={"include_usage": True}
    ) as stream:
        final = await stream.get_final_completion()
    streamed = final.choices[0]
    assert streamed.message.content == whole.message.content
    assert streamed.finish_reason == "tool_calls"
    assert final.usage is not None
    assert streamed.message.tool_calls
    assert streamed.message.tool_calls[0].function.arguments == whole.message.tool_calls[0].function.arguments
    assert streamed.message.tool_calls[0].id == whole.message.tool_calls[0].id


async def test_queued_turns_come_first_and_in_order(model: ScriptedModel, client: AsyncOpenAI) -> None:
    """Queued texts, calls (also malformed) and functions are used once each, then the default script."""
    released = asyncio.Event()

    async def held(request: dict[str, Any]) -> str:
        await released.wait()
        return f"You said {request['messages'][-1]['content']}"

    model.script("one", [("delete_records", {"count": 1}), ("delete_records", "{not json")], held)
    assert (await say(client)).choices[0].message.content == "one"
    calls = (await say(client)).choices[0].message.tool_calls
    assert [call.function.arguments for call in calls] == ['{"count": 1}', "{not json"]
    assert len({call.id for call in calls}) == 2
    waiting = asyncio.create_task(say(client, "tea"))
    assert (await model.wait_for_request(3))["messages"][-1]["content"] == "tea"
    assert not waiting.done()
    released.set()
    assert (await waiting).choices[0].message.content == "You said tea"
    assert (await say(client)).choices[0].message.tool_calls[0].function.name == "process_refund"
    assert len(model.requests) == 4


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (ModelFault.http(429, retry_after=3), openai.RateLimitError),
        (ModelFault.http(500), openai.InternalServerError),
        (ModelFault.http(503, retry_after=1), openai.InternalServerError),
        (ModelFault.reset(), openai.APIConnectionError),
        (ModelFault.garbage(), Exception),
    ],
)
async def test_faults_reach_the_client_as_its_own_errors(
    model: ScriptedModel, client: AsyncOpenAI, fault: ModelFault, error: type[Exception]
) -> None:
    """Each fault shows as the client's own error, with Retry-After, and the next request is answered."""
    model.script(fault)
    with pytest.raises(error) as caught:
        await say(client)
    if fault.retry_after is not None:
        assert isinstance(caught.value, openai.APIStatusError)
        assert caught.value.response.headers["retry-after"] == f"{fault.retry_after:g}"
    assert (await say(client)).choices[0].message.tool_calls


async def test_a_hanging_request_ends_with_the_clients_time_out(
    model: ScriptedModel, client: AsyncOpenAI
) -> None:
    """A hang lasts until the client gives up, and does not keep the server from stopping."""
    model.script(ModelFault.hang(), ModelFault.hang())
    with pytest.raises(openai.APITimeoutError):
        await say(client.with_options(timeout=0.2))
    hanging = asyncio.create_task(say(client))
    await model.wait_for_request(2)
    await asyncio.wait_for(model.stop(), timeout=5)
    with pytest.raises(openai.APIConnectionError):
        await hanging


async def test_another_key_is_refused(model: ScriptedModel, client: AsyncOpenAI) -> None:
    """With a key set, a wrong one gets 401 and the request is not counted."""
    with pytest.raises(openai.AuthenticationError):
        await say(client.with_options(api_key="k-2"))
    assert model.requests == []
