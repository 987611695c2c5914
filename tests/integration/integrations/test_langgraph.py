"""LangGraph: the refund agent through kills, what waits in the background, and interrupts in agent inbox's shapes."""

from __future__ import annotations

import asyncio
import operator
import runpy
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from signoff.client import ApprovalClient, AsyncApprovalClient
from signoff.errors import AlreadyClaimed, ApiError, CollaborationError, SignoffError
from signoff.integrations.langgraph import (
    Background,
    BackgroundCall,
    UnsupportedInterrupt,
    aresume_when_decided,
    resume_when_decided,
)
from signoff.integrations.langgraph_format import GraphThread
from tests.integration.integrations.conftest import POLICY, ROOT, Desk, until

EXAMPLES = ROOT / "examples"
REFUNDS = """
[[checkpoint]]
checkpoint_id = "orders"
action_pattern = "refund_order$"
when = "args.price > 1000.0"
"""
ARGUMENTS = {"table_name": "users", "count": 50}


@pytest.fixture
def policy() -> str:
    return POLICY.replace("[defaults]", '[defaults]\nunmatched = "deny"') + REFUNDS


@pytest.fixture
def client(actors: Desk) -> Iterator[ApprovalClient]:
    with ApprovalClient(actors.url, actors.key) as opened:
        yield opened


# --- the refund agent -------------------------------------------------------------------------------------

DYING = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
import langgraph_refunds as example
moment, real = sys.argv.pop(1), example.refund

def refund(shop, call):
    if call.arguments["order_id"] == 7 and moment == "claimed":
        os.kill(os.getpid(), signal.SIGKILL)
    result = real(shop, call)
    if call.arguments["order_id"] == 7 and moment == "refunded":
        os.kill(os.getpid(), signal.SIGKILL)
    return result

example.refund = refund
example.chat(os.environ["SHOP_DATABASE_URL"], "customer-1")
"""


class Customer:
    """Somebody who chats with the example, in a process that dies at a moment."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def say(self, words: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{words}\n".encode())
        answer = await asyncio.wait_for(self.process.stdout.readline(), 30)
        assert answer, (await self.process.communicate())[1].decode()
        return answer.decode()


async def test_the_refund_agent_of_the_tour(
    actors: Desk,
    framework_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Small orders are refunded at once; large ones wait while the chat continues, and are refunded once despite kills.
    The process dies by kill -9 after it has claimed the refund, then after it has made it; the third one finishes.
    """
    script = tmp_path / "dying.py"
    script.write_text(DYING)
    url = framework_url.replace("+psycopg", "")

    async def customer(moment: str) -> Customer:
        return Customer(await actors.run(script, str(EXAMPLES), moment, SHOP_DATABASE_URL=url))

    async def order(number: int) -> tuple[Any, ...]:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            sql = "SELECT status, refunds, cause FROM orders WHERE order_id = %s"
            return await (await connection.execute(sql, [number])).fetchone() or ()

    first = await customer("claimed")
    assert "refund for order_id 1 has been approved" in await first.say("please refund order 1")
    assert await actors.statuses() == []
    assert "must undergo manual review. Please check your order status later" in await first.say(
        "refund order 5"
    )
    assert "must undergo manual review" in await first.say("refund order 7")
    assert "PENDING_REFUND" in await first.say("status of order 7")
    await actors.decide(await actors.asked(1), "rejected", reason="Too late")
    await until(lambda: _is(order(5), ("REFUND_REJECTED", 0, "Too late")), 20)
    await actors.click(number=1)
    assert await asyncio.wait_for(first.process.wait(), 20) == -9
    assert await actors.executions() == ["claimed"]
    second = await customer("refunded")
    assert await asyncio.wait_for(second.process.wait(), 90) == -9
    assert await order(7) == ("REFUNDED", 1, None)
    for name in ("SIGNOFF_URL", "SIGNOFF_KEY"):
        monkeypatch.setenv(name, actors.environment[name])
    finished = threading.Event()
    monkeypatch.setattr("sys.stdin", _until(finished, "status of order 7\n"))
    example = runpy.run_path(str(EXAMPLES / "langgraph_refunds.py"), run_name="third")
    third = asyncio.create_task(asyncio.to_thread(example["chat"], url, "customer-1"))
    await until(lambda: _is(actors.executions(), ["succeeded"]), 20)
    finished.set()
    await third
    assert "REFUNDED" in capsys.readouterr().out
    assert await order(7) == ("REFUNDED", 1, None)
    assert await actors.statuses() == ["rejected", "approved"]


def _until(finished: threading.Event, *lines: str) -> Iterator[str]:
    """A customer who says this, and leaves when it is finished."""
    yield from lines
    finished.wait(30)


async def _is(found: Any, expected: Any) -> bool:
    return bool(await found == expected)


# --- the background ---------------------------------------------------------------------------------------


class Deletions:
    """What was done and refused, by errands."""

    def __init__(self) -> None:
        self.done: list[BackgroundCall] = []
        self.refused: list[BackgroundCall] = []

    @asynccontextmanager
    async def handled_by(self, client: ApprovalClient, store: Any, **terms: Any) -> AsyncIterator[Background]:
        background = Background(client, store, name="one", every=600)
        background.handles("delete_records", self.run, refused=self.refused.append, **terms)
        background.handles("read_records", self.run, **terms)
        background.handles("wipe", self.run, **terms)
        background.start()
        yield background
        await asyncio.to_thread(background.stop)

    def run(self, call: BackgroundCall) -> str:
        self.done.append(call)
        return f"deleted {call.arguments.get('count')}"


async def test_what_waits_is_done_once_as_it_was_decided(actors: Desk, client: ApprovalClient) -> None:
    """The tool has its answer at once; woken, it runs an edit as edited; a no and an expiry reach `refused`."""
    seen, store = Deletions(), InMemoryStore()
    async with seen.handled_by(client, store) as background:
        read = await asyncio.to_thread(background.begin, "r", "read_records", {})
        assert (read.waiting, read.result) == (False, "deleted None")
        for number, key in enumerate("abc", start=1):
            begun = await asyncio.to_thread(background.begin, key, "delete_records", ARGUMENTS)
            assert begun.waiting
            await actors.asked(number)
        with pytest.raises(ApiError, match="denies"):
            await asyncio.to_thread(background.begin, "d", "wipe", {})
        again = await asyncio.to_thread(background.begin, "a", "delete_records", ARGUMENTS)
        assert again.waiting
        await actors.edit(await actors.asked(1), ARGUMENTS | {"count": 3}, reason="Three will do")
        await actors.decide(await actors.asked(2), "rejected", reason="Not these")
        background.wake()
        await until(lambda: _is(actors.executions(), ["succeeded"]))
        await until(lambda: _true(seen.refused))
        await actors.expire()
        await until(lambda: _is(actors.statuses(), ["approved", "rejected", "expired"]))
        background.wake()
        await until(lambda: _true(len(seen.refused) == 2 and not store.search(("signoff",))))
    edited = [(call.arguments["count"], call.notes) for call in seen.done if call.key == "a"]
    assert edited == [(3, ("Three will do",))]
    assert [call.asked["count"] for call in seen.done if call.key == "a"] == [50]
    assert [(each.key, each.cause, each.reason) for each in seen.refused] == [
        ("b", "rejected", "Not these"),
        ("c", "expired", None),
    ]
    assert len(await actors.statuses()) == 3


class Asked(TypedDict):
    asked: list[Any]


async def test_the_background_names_the_thread_of_the_graph(actors: Desk, client: ApprovalClient) -> None:
    """A tool's question is one of its thread; a call that an earlier version kept without one is the same call."""
    store, place = InMemoryStore(), {"configurable": {"thread_id": "chat-1"}}
    await asyncio.to_thread(client.submit, "delete_records", ARGUMENTS, key="kept")
    kept = {"action": "delete_records", "arguments": ARGUMENTS, "told": {}, "by": None, "begun": False}
    store.put(("signoff", "background"), "kept", kept, index=False)
    async with Deletions().handled_by(client, store) as background:

        def tool(state: Any) -> None:
            for key in ("new", "kept"):
                assert background.begin(key, "delete_records", ARGUMENTS).waiting
            assert background.begin("own", "delete_records", ARGUMENTS, session="ticket-7").waiting

        graph: Any = StateGraph(Asked).add_node("tool", tool).add_edge(START, "tool").compile()
        await asyncio.to_thread(graph.invoke, {"asked": []}, place)
    assert await actors.site.sessions() == [None, "chat-1", "ticket-7"]
    found = store.get(("signoff", "background"), "new")
    assert found is not None
    assert found.value["session"] == "chat-1"


class Killed(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("idempotent", [False, True])
async def test_what_was_begun_is_taken_up_only_if_it_may_be_done_twice(
    actors: Desk, client: ApprovalClient, idempotent: bool
) -> None:
    """Claimed by a process that is gone: done by the next one if it is idempotent, else left for people to settle."""
    store, seen = InMemoryStore(), Deletions()
    dead = Background(client, store, name="one")
    dead.handles("delete_records", _die, idempotent=idempotent)
    assert (await asyncio.to_thread(dead.begin, "a", "delete_records", ARGUMENTS)).waiting
    await actors.decide(await actors.asked())
    with pytest.raises(Killed):
        await asyncio.to_thread(dead._settle, "a")
    next_one = Background(client, store, name="one")
    next_one.handles("delete_records", seen.run, idempotent=idempotent)
    await asyncio.to_thread(next_one._settle, "a")
    assert len(seen.done) == (1 if idempotent else 0)
    assert await actors.executions() == (["succeeded"] if idempotent else ["claimed"])
    assert len(store.search(("signoff",))) == (0 if idempotent else 1)
    if not idempotent:
        await actors.settle("retry")
        await asyncio.to_thread(next_one._settle, "a")
        assert len(seen.done) == 1
        assert not store.search(("signoff",))


async def test_what_needs_nobody_is_not_begun_twice(actors: Desk, client: ApprovalClient) -> None:
    """While one process runs the action another one leaves it alone; if its process died, nobody repeats it. Processes
    are distinguished by their names, so a name is required.
    """
    with pytest.raises(TypeError, match="name"):
        Background(client, InMemoryStore())  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="needs a name"):
        Background(client, InMemoryStore(), name="")
    store, seen, inside, leave = InMemoryStore(), Deletions(), threading.Event(), threading.Event()

    def slowly(_: BackgroundCall) -> None:
        inside.set()
        leave.wait(20)
        raise Killed

    first, second, restarted = (Background(client, store, name=name) for name in ("one", "two", "one"))
    first.handles("read_records", slowly)
    for each in (second, restarted):
        each.handles("read_records", seen.run)
    beginning = asyncio.create_task(asyncio.to_thread(first.begin, "r", "read_records", {}))
    await asyncio.to_thread(inside.wait, 20)
    await asyncio.to_thread(second._settle, "r")
    with pytest.raises(AlreadyClaimed, match="another process"):
        await asyncio.to_thread(second.begin, "r", "read_records", {})
    leave.set()
    with pytest.raises(Killed):
        await beginning
    await asyncio.to_thread(restarted._settle, "r")
    with pytest.raises(AlreadyClaimed, match="already begun"):
        await asyncio.to_thread(restarted.begin, "r", "read_records", {})
    assert not seen.done


def _die(_: Any) -> None:
    raise Killed


async def _true(value: object) -> bool:
    return bool(value)


# --- interrupts -------------------------------------------------------------------------------------------


class State(TypedDict, total=False):
    asked: list[dict[str, Any]]
    answers: list[dict[str, Any]]


def human(action: str = "delete_records", **changes: Any) -> dict[str, Any]:
    """A `HumanInterrupt`."""
    allowed = {"allow_ignore": True, "allow_respond": True, "allow_edit": True, "allow_accept": True}
    return {
        "action_request": {"action": action, "args": ARGUMENTS},
        "config": allowed | changes,
        "description": "Tidy up",
    }


def a_graph(saver: Any, effect: Callable[[list[Any]], Any] = list) -> Any:
    """One node that asks, and does something with the answers."""

    def ask(state: State) -> State:
        given = interrupt(state["asked"])
        answers = given if isinstance(given, list) else [given]
        effect(answers)
        return {"answers": answers}

    return StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)


CONFIG: Any = {"configurable": {"thread_id": "t-1"}}


async def test_interrupts_are_answered_in_order(actors: Desk, client: ApprovalClient) -> None:
    """Each is a request, unless policy needs nobody or denies it; answered in order, with notes, and reported."""
    graph = a_graph(InMemorySaver())
    graph.invoke({"asked": [human(), human(), human(), human("read_records"), human("wipe")]}, CONFIG)
    running = asyncio.create_task(asyncio.to_thread(resume_when_decided, client, graph, CONFIG, timeout=30))
    await actors.asked(3)
    await actors.decide(await actors.asked(3), "rejected", reason="Not these")
    await actors.edit(await actors.asked(2), ARGUMENTS | {"count": 3}, reason="Three will do")
    assert not running.done()
    await actors.decide(await actors.asked(1))
    answers = (await running)["answers"]
    assert [each["type"] for each in answers] == ["accept", "edit", "response", "accept", "ignore"]
    assert answers[1]["args"] == {"action": "delete_records", "args": ARGUMENTS | {"count": 3}}
    assert [each.get("note") for each in answers] == [None, "Three will do", None, None, None]
    assert "Not these" in answers[2]["args"]
    assert await actors.executions() == ["succeeded", "succeeded"]


async def test_an_expiry_is_ignored_and_never_accepted(actors: Desk) -> None:
    """Nobody answers: the call times out, called again it has the same request; its expiry is `ignore`. With async."""
    graph = a_graph(InMemorySaver())
    await graph.ainvoke({"asked": [human()]}, CONFIG)
    async with AsyncApprovalClient(actors.url, actors.key) as client:
        with pytest.raises(TimeoutError):
            await aresume_when_decided(client, graph, CONFIG, timeout=0.2)
        await actors.expire()
        values = await aresume_when_decided(client, graph, CONFIG, timeout=30)
    assert values["answers"] == [{"type": "ignore", "args": None}]
    assert await actors.statuses() == ["expired"]


@pytest.mark.parametrize(
    "asked",
    [
        [human(), human(allow_accept=False)],
        [human(), human("Send e-mail")],
        [human() | {"deadline": "now"}],
        [{"question": "really?"}],
        {"question": "really?"},
        {"question": "really?", "options": ["yes"], "form": {"type": "object"}},
        {"question": "really?", "options": ["yes"], "urgent": True},
        {"question": "", "options": ["yes"]},
        [],
        "really?",
    ],
)
async def test_what_cannot_be_honoured_is_refused(asked: Any) -> None:
    """Another shape, a wish for words, a name that no checkpoint can judge: an error before anybody is asked."""
    graph = a_graph(InMemorySaver())
    graph.invoke({"asked": asked}, CONFIG)
    with ApprovalClient("http://127.0.0.1:9", "signoff_x") as client, pytest.raises(UnsupportedInterrupt):
        resume_when_decided(client, graph, CONFIG, timeout=1)
    assert graph.get_state(CONFIG).interrupts


REGION = {"question": "Which region?", "options": ["eu", "us"]}
ORDER = {
    "question": "What do you need?",
    "form": {
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["item"],
    },
}


async def test_a_graph_goes_on_with_what_people_answer(actors: Desk, client: ApprovalClient) -> None:
    """An option, a form, and an action of the same pause; a new process finds the questions. Nothing is approved."""
    saver = InMemorySaver()
    nodes = {"region": REGION, "order": ORDER, "tidy": [human()]}

    def life() -> Any:
        built: Any = StateGraph(Answers)
        for name, asked in nodes.items():
            built.add_node(name, lambda _, asked=asked, name=name: {"found": {name: interrupt(asked)}})
            built.add_edge(START, name)
        return built.compile(checkpointer=saver)

    life().invoke({"found": {}}, CONFIG)
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(resume_when_decided, client, life(), CONFIG, timeout=0)
    waiting = {each.description: each for each in await asyncio.to_thread(client.pending)}
    assert len(waiting) == 3
    given = {"item": "pens", "count": 3}
    await actors.decide(waiting["The agent asks: “Which region?”"].id, "answered", answer="the moon")
    await actors.decide(waiting["The agent asks: “What do you need?”"].id, "answered", answer=given)
    await actors.decide(waiting["Delete 50 records from “users”"].id)
    values = await asyncio.to_thread(resume_when_decided, client, life(), CONFIG, timeout=30)
    assert values["found"] == {
        "region": "the moon",
        "order": given,
        "tidy": [{"type": "accept", "args": None}],
    }
    assert sorted(await actors.statuses()) == ["answered", "answered", "approved"]
    assert await actors.executions() == ["succeeded"]
    assert set(await actors.site.sessions()) == {"t-1"}


class Answers(TypedDict):
    found: Annotated[dict[str, Any], operator.or_]


@pytest.mark.parametrize("end", ["rejected", "expired"])
async def test_a_question_without_an_answer(actors: Desk, client: ApprovalClient, end: str) -> None:
    """The graph goes on with what its question has for that case; a question that has nothing is an error."""
    for thread, more in (("with", {"otherwise": None}), ("without", {})):
        place: Any = {"configurable": {"thread_id": thread}}
        graph = a_graph(InMemorySaver())
        graph.invoke({"asked": REGION | more}, place)
        running = asyncio.create_task(
            asyncio.to_thread(resume_when_decided, client, graph, place, timeout=30)
        )
        request = await actors.asked(1 if more else 2)
        await (actors.expire() if end == "expired" else actors.decide(request, "rejected"))
        if more:
            assert (await running)["answers"] == [None]
        else:
            with pytest.raises(CollaborationError, match=end):
                await running
            assert graph.get_state(place).interrupts


async def test_a_graph_does_not_go_on_with_an_erased_answer(
    actors: Desk, client: ApprovalClient, owner: psycopg.Connection[Any]
) -> None:
    """A process that comes back after the answer was erased gets an error, not an empty answer."""
    graph = a_graph(InMemorySaver())
    graph.invoke({"asked": REGION}, CONFIG)
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(resume_when_decided, client, graph, CONFIG, timeout=0)
    await actors.decide(await actors.asked(), "answered", answer="eu")
    assert owner.execute("UPDATE answer SET value = '', erased_at = now()").rowcount == 1
    with pytest.raises(SignoffError, match="has been erased"):
        await asyncio.to_thread(resume_when_decided, client, graph, CONFIG)
    assert graph.get_state(CONFIG).interrupts


async def test_a_form_that_no_person_can_fill_in_asks_nobody(actors: Desk, client: ApprovalClient) -> None:
    """The service's sentence, and neither the form nor the action of the same pause is asked about."""
    graph: Any = StateGraph(Answers)
    nested = {"type": "object", "properties": {"a": {"type": "object"}}}
    for name, asked in (("tidy", [human()]), ("form", {"question": "What?", "form": nested})):
        graph.add_node(name, lambda _, asked=asked: interrupt(asked))
        graph.add_edge(START, name)
    graph = graph.compile(checkpointer=InMemorySaver())
    graph.invoke({"found": {}}, CONFIG)
    with pytest.raises(UnsupportedInterrupt, match="cannot be asked for in a form"):
        await asyncio.to_thread(resume_when_decided, client, graph, CONFIG)
    assert await actors.statuses() == []
    assert len(graph.get_state(CONFIG).interrupts) == 2


async def test_a_no_that_the_graph_cannot_hear_stops_it(actors: Desk, client: ApprovalClient) -> None:
    """Neither `ignore` nor `response` allowed: an error, and the graph keeps waiting. An edit is no accept."""
    deaf = human(allow_ignore=False, allow_respond=False, allow_edit=False)
    graph = a_graph(InMemorySaver())
    graph.invoke({"asked": [deaf]}, CONFIG)
    running = asyncio.create_task(asyncio.to_thread(resume_when_decided, client, graph, CONFIG))
    await actors.edit(await actors.asked(), ARGUMENTS | {"count": 3})
    with pytest.raises(CollaborationError, match="changed the arguments"):
        await running
    assert graph.get_state(CONFIG).interrupts
    assert await actors.executions() == []


@pytest.mark.parametrize("idempotent", [False, True])
async def test_killed_in_the_middle_of_what_was_approved(
    actors: Desk, client: ApprovalClient, idempotent: bool
) -> None:
    """A new process over the same checkpoints continues if the action may be repeated; otherwise people settle it."""
    saver = InMemorySaver()
    a_graph(saver).invoke({"asked": [human()]}, CONFIG)
    running = asyncio.create_task(
        asyncio.to_thread(resume_when_decided, client, a_graph(saver, _die), CONFIG, idempotent=idempotent)
    )
    await actors.decide(await actors.asked())
    with pytest.raises(Killed):
        await running
    effects: list[Any] = []
    again = asyncio.to_thread(
        resume_when_decided, client, a_graph(saver, effects.append), CONFIG, idempotent=idempotent
    )
    if idempotent:
        assert (await again)["answers"] == [{"type": "accept", "args": None}]
        assert await actors.executions() == ["succeeded"]
    else:
        with pytest.raises(AlreadyClaimed):
            await again
        assert effects == []
        await actors.settle("done")
        values = await asyncio.to_thread(
            resume_when_decided, client, a_graph(saver, effects.append), CONFIG, timeout=5
        )
        assert [each["type"] for each in values["answers"]] == ["response"]
        assert "marked it as done" in values["answers"][0]["args"]
        assert await actors.executions() == ["in_doubt"]
    assert len(await actors.statuses()) == 1


async def test_the_last_pause_is_found_however_far_back_it_lies() -> None:
    """Through more steps than are read at once, in both manners; what came before new input is no longer looked at."""

    def step(state: State) -> Any:
        return Command(
            goto="step" if len(state["answers"]) < 50 else END, update={"answers": [1, *state["answers"]]}
        )

    given: State = {"asked": [human()], "answers": []}
    graph: Any = (
        StateGraph(State)
        .add_node("ask", lambda state: {"answers": interrupt(state["asked"])} if state["asked"] else {})
        .add_node("step", step)
        .add_edge(START, "ask")
        .add_edge("ask", "step")
        .compile(checkpointer=InMemorySaver())
    )
    graph.invoke(given, CONFIG)
    graph.invoke(Command(resume=[]), CONFIG)
    here, there = (GraphThread(graph, CONFIG, asynchronous=each) for each in (False, True))
    async with AsyncApprovalClient("http://127.0.0.1:9", "signoff_x") as waiting:
        assert (await waiting.do(there.last_pause())).interrupts[0].value == given["asked"]
    with ApprovalClient("http://127.0.0.1:9", "signoff_x") as client:
        assert client.do(here.last_pause()).interrupts[0].value == given["asked"]
        graph.invoke({"asked": [], "answers": []}, CONFIG)
        assert client.do(here.last_pause()) is None


async def test_what_the_node_raises_is_reported(actors: Desk, client: ApprovalClient) -> None:
    """The node's own error comes out, the card shows it, and the approval is used up."""

    def fail(_: Any) -> None:
        raise LookupError("no table users")

    graph = a_graph(InMemorySaver(), fail)
    graph.invoke({"asked": [human()]}, CONFIG)
    running = asyncio.create_task(asyncio.to_thread(resume_when_decided, client, graph, CONFIG))
    await actors.decide(await actors.asked())
    with pytest.raises(LookupError):
        await running
    assert await actors.executions() == ["failed"]
    with pytest.raises(AlreadyClaimed):
        await asyncio.to_thread(resume_when_decided, client, graph, CONFIG)


def test_without_the_framework_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing the integration where LangGraph is missing says what to install."""
    for name in (
        "signoff.integrations.langgraph",
        "signoff.integrations.background",
        "signoff.integrations.langgraph_loop",
    ):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("langgraph.prebuilt", "langgraph.store.base", "langgraph.types"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install '\.\[langgraph\]'"):
        __import__("signoff.integrations.langgraph")
