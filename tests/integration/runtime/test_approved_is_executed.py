"""What was approved is what runs: after a deployment, and after somebody wrote to the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from agent.domain.request import Verdict
from agent.domain.run import CallState, CallView
from agent.runtime.agents import Agent
from agent.runtime.calls import advance_call
from agent.runtime.tool import Tool, tool
from signoff.values import Action
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration import alone
from tests.integration.runtime.conftest import Stage

done: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def agent(*tools: Tool) -> Agent:
    return Agent("cleaner", "You keep tables tidy.", tools=tools)


def before() -> Tool:
    @tool
    def delete(order_id: int, note: str = "by the agent") -> str:
        done.append((order_id, note))
        return "deleted"

    return delete


def with_another_parameter() -> Tool:
    @tool
    def delete(order_id: int, note: str = "by the agent", cascade: bool = True) -> str:
        done.append((order_id, note, cascade))
        return "deleted"

    return delete


def with_another_default() -> Tool:
    @tool
    def delete(order_id: int, note: str = "by Signoff") -> str:
        done.append((order_id, note))
        return "deleted"

    return delete


def with_another_type() -> Tool:
    @tool
    def delete(order_id: float, note: str = "by the agent") -> str:
        done.append((order_id, note))
        return "deleted"

    return delete


def with_other_words() -> Tool:
    @tool
    def delete(order_id: int, note: str = "by the agent") -> str:
        """Delete an order.

        Args:
            order_id: The order's number.
        """
        done.append((order_id, note))
        return "deleted"

    return delete


async def asked(stage: Callable[..., Any]) -> tuple[Stage, CallView]:
    """People are asked about `delete(order_id=7)`."""
    on = await stage(agent(before()))
    on.model.script(ScriptedTurn(calls=(ScriptedCall("delete", {"order_id": 7}),)), "Deleted.")
    (call,) = await on.calls(await on.go("cleaner", "delete order 7"))
    return on, call


@pytest.mark.parametrize("deployed", [with_another_parameter, with_another_default, with_another_type])
async def test_changed_parameters_are_asked_about_again(stage: Any, deployed: Callable[[], Tool]) -> None:
    """An approval does not cover a parameter, a type or a default that the tool did not have when people approved."""
    on, call = await asked(stage)
    on.services.registry._agents["cleaner"] = agent(deployed())
    await on.approve(call)
    (again,) = await on.calls(call.run_id)
    assert (done, again.state) == ([], CallState.ASKED)
    shown = (await on.request(again)).action.arguments
    assert shown == {"order_id": 7, "note": "by the agent"} | (
        {"cascade": True} if deployed is with_another_parameter else {}
    )
    await on.approve(again)
    assert len(done) == 1


async def test_other_words_about_the_same_parameters_change_nothing(stage: Any) -> None:
    """A tool whose docstring was improved runs what was approved before."""
    on, call = await asked(stage)
    on.services.registry._agents["cleaner"] = agent(with_other_words())
    await on.approve(call)
    assert done == [(7, "by the agent")]


async def test_a_revision_without_a_digest_of_parameters_is_compared_by_its_arguments(
    stage: Any, owner: psycopg.Connection[Any]
) -> None:
    """What people approved under the version before this one runs, unless the tool would get other arguments."""
    on, call = await asked(stage)
    _tamper(owner, "request_revision", "SET signature_digest = NULL")
    await on.approve(call)
    assert done == [(7, "by the agent")]


async def test_an_action_that_was_altered_with_its_decision_does_not_run(
    stage: Any, owner: psycopg.Connection[Any]
) -> None:
    """An attacker who rewrites the approved action and the decision's digest still lacks the audit event."""
    on, call = await asked(stage)
    await on.vote(call, Verdict.APPROVE)
    action = Action("delete", "1", {"order_id": 8, "note": "by the agent"})
    altered = {"action": action.canonical, "digest": action.digest}
    _tamper(owner, "request_revision", "SET action = %(action)s, digest = %(digest)s", altered)
    _tamper(owner, "decision", "SET digest = %(digest)s", altered)
    assert await alone.claim(on.db, call.id, worker="w", idempotent=False) is None
    await on.play()
    (again,) = await on.calls(call.run_id)
    assert (done, again.state) == ([], CallState.ASKED)
    assert again.request_id != call.request_id


async def test_an_invented_decision_runs_nothing(stage: Any, owner: psycopg.Connection[Any]) -> None:
    """A decision that was written to the database without its audit event is no approval."""
    on, call = await asked(stage)
    with owner.transaction():
        owner.execute(
            "INSERT INTO decision (request_id, outcome, revision, digest, team_id, user_id)"
            " SELECT request_id, 'approved', n, digest, 'T0TEST', 'U0NOBODY' FROM request_revision"
        )
        owner.execute("UPDATE approval_request SET status = 'approved', decided_at = now()")
        owner.execute("UPDATE tool_call SET state = 'ready'")
    assert await alone.claim(on.db, call.id, worker="w", idempotent=False) is None
    await advance_call(on.services, call.id)
    (again,) = await on.calls(call.run_id)
    assert (done, again.state) == ([], CallState.ASKED)
    assert again.request_id != call.request_id


def _tamper(owner: psycopg.Connection[Any], table: str, change: str, values: Any = None) -> None:
    owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    owner.execute(f"UPDATE {table} {change}", values)
    owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL")
