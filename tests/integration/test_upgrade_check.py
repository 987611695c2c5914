"""`signoff check --pending`: what a new version of code or policy would strand, before it is deployed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agent.database.pools import Database
from tests.integration import alone, invariants
from tests.integration.asking import GRACE, Asked, ask, ballot, column, reviewer, write
from tests.integration.command import Command

AGENT = '''
from signoff import Agent, tool

@tool(version="{version}")
def process_refund({parameters}) -> str:
    """Refund an order."""
    return "refunded"

@tool
def other() -> str:
    """Something else."""
    return ""

refunds = Agent("{name}", "Refund orders.", [{tools}], version="{agent_version}")
'''
FUNCTION = """
from signoff import function_agent

@function_agent(name="refunds", version="{agent_version}")
async def refunds(task: str) -> str:
    return task
"""
NUMBER = itertools.count()
WIDE = "400"
"""Columns, so that no reason is wrapped."""


def on(url: str, work: Callable[[Database], Awaitable[Any]]) -> Any:
    async def do() -> Any:
        async with Database(url) as db:
            return await work(db)

    return asyncio.run(do())


def deploy(signoff: Command, code: str = AGENT, **changes: str) -> str:
    """Another version of the code in the folder; returns its module's name."""
    said = {
        "version": "1",
        "agent_version": "1",
        "parameters": "order_id: int",
        "name": "refunds",
        "tools": "process_refund",
    } | changes
    module = f"deployed_{next(NUMBER)}"
    (signoff.folder / f"{module}.py").write_text(code.format(**said))
    return module


def asked_and_approved(url: str) -> tuple[Asked, Asked]:
    async def both(db: Database) -> tuple[Asked, Asked]:
        waits, approved = await ask(db), await ask(db)
        await alone.vote(db, ballot(approved, reviewer(GRACE)))
        return waits, approved

    result: tuple[Asked, Asked] = on(url, both)
    return result


def states(url: str) -> list[str]:
    return list(on(url, lambda db: column(db, "SELECT state::text FROM tool_call ORDER BY id")))


def holds(url: str) -> None:
    assert on(url, invariants.broken) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "payments"}, "the agent no longer exists"),
        ({"tools": "other"}, "the tool no longer exists"),
        ({"parameters": "order: str"}, "its arguments no longer fit the tool"),
        ({"parameters": "order_id: int, cascade: bool = True"}, "its defaults or types have changed"),
        ({"version": "2"}, "the tool is at version 2, but people were asked about version 1"),
        ({"agent_version": "2"}, "the agent is at version 2, but people were asked about version 1"),
    ],
    ids=["agent", "tool", "schema", "default", "version", "agent version"],
)
def test_what_would_be_stranded_is_listed(
    signoff: Command, database_url: str, changes: dict[str, str], why: str
) -> None:
    """The same code strands nothing; without agent or tool, or with another schema or version, both are listed."""
    asked_and_approved(database_url)
    same = signoff("check", "--pending", SIGNOFF_AGENTS=deploy(signoff))
    assert (same.status, "no open work would be stranded" in same.said) == (0, True), same.said
    ended = signoff("check", "--pending", SIGNOFF_AGENTS=deploy(signoff, **changes), COLUMNS=WIDE)
    assert (ended.status, ended.said.count(why)) == (1, 2), ended.said
    assert states(database_url) == ["asked", "ready"]


def test_a_function_that_goes_no_further_is_listed(signoff: Command, database_url: str) -> None:
    """What people approved of another version of a function is done: the run, which would fail, can be cancelled."""

    async def approved_and_done(db: Database) -> None:
        asked = await ask(db)
        await alone.vote(db, ballot(asked, reviewer(GRACE)))
        await write(
            db, "UPDATE tool_call SET state = 'answered', answer_kind = 'result', answered_at = now()"
        )

    on(database_url, approved_and_done)
    same = signoff("check", "--pending", SIGNOFF_AGENTS=deploy(signoff, FUNCTION))
    assert same.status == 0, same.said
    newer = deploy(signoff, FUNCTION, agent_version="2")
    listed = signoff("check", "--pending", SIGNOFF_AGENTS=newer, COLUMNS=WIDE)
    said = listed.said.count("the agent is at version 2, but people were asked about version 1")
    assert (listed.status, said) == (1, 1), listed.said
    assert signoff("check", "--pending", "--cancel", SIGNOFF_AGENTS=newer).status == 0
    assert on(database_url, lambda db: column(db, "SELECT status::text FROM agent_run")) == ["cancelled"]


def test_a_stricter_policy_is_said_beforehand(signoff: Command, database_url: str) -> None:
    """Open work that people would be asked about again is listed, with the field that became stricter."""
    asked_and_approved(database_url)
    (signoff.folder / "checkpoints.toml").write_text(
        '[defaults]\napprovers = ["S0FINANCE"]\napprovals_required = 2\n'
    )
    ended = signoff("check", "--pending", SIGNOFF_AGENTS=deploy(signoff), COLUMNS=WIDE)
    assert (ended.status, ended.said.count("policy is stricter than before (approvals_required)")) == (
        1,
        2,
    ), ended.said


def test_a_policy_that_denies_it_strands_it(signoff: Command, database_url: str) -> None:
    """Policy on disk counts as well as code."""
    asked_and_approved(database_url)
    (signoff.folder / "checkpoints.toml").write_text(
        '[defaults]\napprovers = ["S0FINANCE"]\nunmatched = "deny"\n'
    )
    ended = signoff("check", "--pending", SIGNOFF_AGENTS=deploy(signoff))
    assert (ended.status, ended.said.count("policy denies it now")) == (1, 2), ended.said


def test_cancel_withdraws_and_calls_off(signoff: Command, database_url: str) -> None:
    """`--cancel`: the question is withdrawn, the approved call will not run, both on record with the operator."""
    asked_and_approved(database_url)
    ended = signoff("check", "--pending", "--cancel", SIGNOFF_AGENTS=deploy(signoff, tools="other"))
    assert (ended.status, "2 dealt with (cancel), 0 left" in ended.said) == (0, True), ended.said
    assert states(database_url) == ["refused", "refused"]
    kinds = on(
        database_url,
        lambda db: column(db, "SELECT event FROM audit_event WHERE actor LIKE 'cli:%' ORDER BY event"),
    )
    assert kinds == ["approval.called_off", "request.withdrawn"]
    holds(database_url)


def test_cancel_ends_runs_of_agents_that_are_gone(signoff: Command, database_url: str) -> None:
    """Nobody would ever look at them again: the runs are cancelled with what they ask."""
    asked_and_approved(database_url)
    ended = signoff("check", "--pending", "--cancel", SIGNOFF_AGENTS=deploy(signoff, name="payments"))
    assert ended.status == 0, ended.said
    assert on(database_url, lambda db: column(db, "SELECT DISTINCT status::text FROM agent_run")) == [
        "cancelled"
    ]
    holds(database_url)


@pytest.mark.parametrize("choice", [(), ("--re-ask",), ("--cancel",)], ids=str)
def test_without_any_agent_nothing_is_cancelled(
    signoff: Command, database_url: str, choice: tuple[str, ...]
) -> None:
    """Where no agents are loaded the setting is missing: open work is left alone, and the line says what to set."""
    assert (
        signoff("check", "--pending", *choice, SIGNOFF_AGENTS=None).status == 0
    )  # a service of programs alone
    asked_and_approved(database_url)
    (line,) = signoff.is_wrong("check", "--pending", *choice, SIGNOFF_AGENTS=None)
    assert "SIGNOFF_AGENTS=my_agents signoff check --pending" in line
    assert states(database_url) == ["asked", "ready"]
    holds(database_url)


def test_re_ask_has_it_judged_anew(signoff: Command, database_url: str) -> None:
    """`--re-ask`: the request is withdrawn and its call judged again; what cannot be asked stays: exit 1."""
    asked_and_approved(database_url)
    ended = signoff("check", "--pending", "--re-ask", SIGNOFF_AGENTS=deploy(signoff, tools="other"))
    assert (ended.status, states(database_url)) == (1, ["asked", "ready"])
    ended = signoff("check", "--pending", "--re-ask", SIGNOFF_AGENTS=deploy(signoff, agent_version="2"))
    assert (ended.status, states(database_url)) == (0, ["new", "ready"]), ended.said
    status = on(database_url, lambda db: column(db, "SELECT status::text FROM approval_request ORDER BY id"))
    assert status == ["cancelled", "approved"]
    holds(database_url)


def test_the_choices_belong_together(signoff: Command) -> None:
    """One choice at a time, and only for what is open."""
    for arguments in (("--cancel",), ("--pending", "--cancel", "--re-ask")):
        assert signoff("check", *arguments).status == 2
