"""`signoff check explain` and `replay`: what a policy says of one action, and of what was judged."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from agent.database.pools import Database
from agent.domain import checkpoints
from agent.domain.api_keys import Principal
from agent.domain.audit import AuditKind
from agent.domain.judgement import ToolTraits
from agent.domain.policy import Policy
from agent.domain.run import AnswerKind, CallAnswer
from agent.store.ids import id_at
from agent.usecases import judgements, requests, retention, runs
from agent.usecases import policy as policies
from agent.usecases.requests import Edit
from signoff.values import Action
from tests.integration import alone
from tests.integration.asking import GRACE, Asked, asked_as, ballot, column, question, reviewer, start
from tests.integration.command import Command

OLD = """
[[checkpoint]]
checkpoint_id = "small"
action_pattern = "process_refund"
when = "args.amount > 10 && args.amount <= 1000"
approvers = ["S0FINANCE"]

[[checkpoint]]
checkpoint_id = "large"
action_pattern = "process_refund"
when = "facts.price > 1000.0"
approvers = ["S0FINANCE"]
approvals_required = 2
timeout = "2h"
"""
READ = """
[[checkpoint]]
checkpoint_id = "dear"
action_pattern = "transfer"
when = "has(facts.price) && facts.price > 0.3"

[[checkpoint]]
checkpoint_id = "theirs"
action_pattern = "close"
when = "agent == 'refunds' && requester == 'U0ADA'"
"""
DENYING = f"""{OLD}
[[checkpoint]]
checkpoint_id = "never"
action_pattern = "process_refund"
when = "facts.price > 1400.0"
verdict = "deny"
because = "The bank does that."
"""
NEW = OLD.replace("args.amount > 10 &&", "args.amount > 500 &&")


def test_explain_says_which_rule_wins_and_who_would_be_asked(signoff: Command, tmp_path: Path) -> None:
    """Each checkpoint that names the tool, what its condition came to, the verdict, who is asked and until when."""
    file = tmp_path / "old.toml"
    file.write_text(OLD)
    refund = ("check", "explain", "--policy", str(file), "--action", "process_refund", "--arg", "amount=1500")
    said = signoff(*refund, "--fact", "price=1500.0").said
    assert "does not apply │ when (args.amount > 10 && args.amount <= 1000) is false" in said
    assert "catches it" in said
    assert 'verdict: ask, because checkpoint "large": when (facts.price > 1000.0) is true' in said
    assert "asked: S0FINANCE in the service's own channel; 2 approvals, risk medium" in said
    assert "UTC if asked now; then it expires" in said
    assert "verdict: run" in signoff(*refund, "--fact", "price=5").said
    assert "needs the missing field" in signoff(*refund).said  # no fact is known
    file.write_text(DENYING)
    said = signoff(*refund, "--fact", "price=1500.0").said
    assert "denies it           │ when (facts.price > 1400.0) is true" in said
    assert "would also catch it" in said
    assert "the agent reads: The bank does that" in said
    (wrong,) = [
        line for line in signoff(*refund, "--arg", "amount").said.splitlines() if "name=value" in line
    ]
    assert "--arg" in wrong


async def _judge(
    db: Database,
    policy: Policy,
    tool: ToolTraits,
    arguments: dict[str, Any],
    facts: dict[str, Any] | None,
    agent: str = "refunds",
    requester: str | None = "U0ADA",
) -> Asked | None:
    """Let a run propose this call: it runs, is asked about, or is refused."""
    run_id, (call,) = await start(db)
    action = Action(tool.name, tool.version, arguments)
    judged = policy.judge(tool, action, facts, agent, requester)
    if judged.verdict == "run":
        await runs.pass_call(db, call, action)
        assert await alone.claim(db, call, worker="w", idempotent=False, judgement=judged)
    elif judged.rule is not None:
        known = judged.inputs.facts if judged.inputs else None
        about: dict[str, Any] = {"facts": known, "judgement": judged, "policy_epoch": judged.epoch}
        new = question(run_id, call, judged.rule, action=action, **about)
        return await asked_as(db, (await requests.open(db, new)).request_id, call, run_id)
    else:
        await runs.refuse_call(db, call, CallAnswer(AnswerKind.DENIED, "no"), judgement=judged)
    return None


async def _judge_four(url: str, policy: Policy) -> None:
    """One call runs, one is approved, one is rejected; a program's action is on record."""
    async with Database(url) as db:
        for amount in (5, 100, 5000):
            asked = await _judge(
                db, policy, ToolTraits("process_refund", "1"), {"amount": amount}, {"price": amount}
            )
            if asked is not None:
                await alone.vote(db, ballot(asked, reviewer(GRACE), "approve" if amount == 100 else "reject"))
        judgement = policy.judge(
            ToolTraits("read", "external"), Action("read", "external", {}), None, "ci", None
        )
        key = Principal(None, "ci", frozenset(), None, None)  # type: ignore[arg-type]
        await judgements.record(db, key, AuditKind.REVIEW_NOT_REQUIRED, {}, judgement)


def test_replay_judges_again_what_was_judged(signoff: Command, database_url: str, tmp_path: Path) -> None:
    """Old verdict to new verdict, totals, and what people had said; erased content is counted and left out."""
    old = checkpoints.load(OLD, filename="old.toml")
    asyncio.run(_judge_four(database_url, old))
    new = tmp_path / "new.toml"
    new.write_text(NEW)
    said = signoff("check", "replay", "--policy", str(new), "--since", "1h").said
    assert "4 evaluations were replayed" in said
    assert "ask → run: 1" in said
    assert "would run and had been asked; people said approved: 1" in said
    assert "ask (small)" in said
    same = tmp_path / "same.toml"
    same.write_text(OLD)
    said = signoff("check", "replay", "--policy", str(same)).said
    assert "no verdict changes" in said
    asyncio.run(_erase(database_url))
    assert "2 could not be replayed: their content is erased" in signoff("check", "replay").said


def test_the_same_file_changes_nothing(signoff: Command, database_url: str, tmp_path: Path) -> None:
    """Everything that a verdict rests on is kept: the tool's traits, exact and failed facts, agent and requester."""
    file = tmp_path / "same.toml"
    file.write_text(READ)
    policy = checkpoints.load(READ, filename="same.toml")
    calls: list[tuple[Any, ...]] = [
        (ToolTraits("transfer", "1"), {}, {"price": 0.1 + 0.2}),
        (ToolTraits("transfer", "1"), {}, {"price": 0.3}),
        (ToolTraits("transfer", "1"), {}, {"price": math.nan}),
        (ToolTraits("close", "1"), {}, None),
        (ToolTraits("close", "1"), {}, None, "other"),
        (ToolTraits("close", "1"), {}, None, "refunds", None),
        (ToolTraits("delete", "1", requires_approval=True), {}, None),
        (ToolTraits("list", "1", read_only=True), {}, None),
    ]

    async def work() -> list[bool]:
        async with Database(database_url) as db:
            return [await _judge(db, policy, *call) is not None for call in calls]

    assert asyncio.run(work()) == [True, False, True, True, False, False, True, False]
    said = signoff("check", "replay", "--policy", str(file)).said
    assert "no verdict changes" in said
    assert said.splitlines()[-1] == "8 evaluations were replayed"


def test_totals_tell_verdicts_checkpoints_and_outcomes_apart(
    signoff: Command, database_url: str, tmp_path: Path
) -> None:
    """Each revision of an edited request by itself; the latest changes are listed, and the totals are of all."""
    old = checkpoints.load(OLD.replace("approvers", "allow_edit = true\napprovers"), filename="old.toml")

    async def work() -> None:
        async with Database(database_url) as db:
            refund = ToolTraits("process_refund", "1")
            for amount, verdict in ((100, "approve"), (200, "reject")):
                decided = await _judge(db, old, refund, {"amount": amount}, {"price": amount})
                assert decided is not None
                await alone.vote(db, ballot(decided, reviewer(GRACE), verdict))
            asked = await _judge(db, old, refund, {"amount": 300}, {"price": 300})
            assert asked is not None
            action = Action("process_refund", "1", {"amount": 900})
            judged = old.judge(refund, action, {"price": 900}, "refunds", "U0ADA")
            by, rule = reviewer(GRACE), judged.rule
            edit = Edit(asked.request_id, 1, by, action, {"price": 900}, rule, "test", judgement=judged)
            assert (await requests.edit(db, edit)).revision == 2

    asyncio.run(work())
    new, gone = tmp_path / "new.toml", tmp_path / "gone.toml"
    new.write_text(NEW.replace('"small"', '"middle"'))
    said = signoff("check", "replay", "--policy", str(new), "--show", "1").said
    assert "ask (small)" in said
    assert (
        "run" not in said.partition("evaluations")[0]
    )  # the edited call is asked about, by another checkpoint
    assert said.splitlines()[-6:] == [
        "4 evaluations were replayed",
        "  ask → run: 3",
        "  the same verdict by another checkpoint: 1",
        "  would run and had been asked; people said approved: 1",
        "  would run and had been asked; people said rejected: 1",
        "  would run and had been asked; people said waiting: 1",
    ]
    gone.write_text('[defaults]\nunmatched = "deny"\n')
    said = signoff("check", "replay", "--policy", str(gone), "--show", "0").said
    assert said.splitlines() == [
        "4 evaluations were replayed",
        "  ask → deny: 4",
        "  would deny and had been asked; people said approved: 1",
        "  would deny and had been asked; people said rejected: 1",
        "  would deny and had been asked; people said waiting: 2",
    ]


def test_replay_compares_the_terms_of_approvals(signoff: Command, database_url: str, tmp_path: Path) -> None:
    """Asked by the same checkpoint, but for less: the fields are listed, against the policy of that time."""
    strict = OLD.replace("approvers", 'risk = "high"\ntimeout = "2h"\napprovers', 1)
    old = replace(checkpoints.load(strict, filename="old.toml"), epoch=1)

    async def work() -> None:
        async with Database(database_url) as db:
            await policies.apply(db, old, by="cli:ada")
            await _judge(db, old, ToolTraits("process_refund", "1"), {"amount": 100}, {"price": 100})

    asyncio.run(work())
    new, same = tmp_path / "new.toml", tmp_path / "same.toml"
    new.write_text(strict.replace('"high"', '"low"').replace('"2h"', '"1h"'))
    same.write_text(strict + "# a comment\n")
    said = signoff("check", "replay", "--policy", str(new)).said
    assert "ask (small): risk looser, timeout tighter" in said
    assert said.splitlines()[-3:] == [
        "1 evaluations were replayed",
        "  asked in both, with risk looser: 1",
        "  asked in both, with timeout tighter: 1",
    ]
    assert "no verdict changes, and no terms" in signoff("check", "replay", "--policy", str(same)).said


def test_since_is_by_the_clock_of_the_database(
    signoff: Command, database_url: str, owner: psycopg.Connection[Any]
) -> None:
    """What was evaluated before is left out, and what a process with a slow clock evaluated since is not."""
    asyncio.run(_judge_four(database_url, checkpoints.load(OLD, filename="old.toml")))
    owner.execute("UPDATE judgement SET created_at = created_at - interval '61 min' WHERE verdict = 'ask'")
    slow = id_at(datetime.now(UTC) - timedelta(minutes=100))
    owner.execute("UPDATE judgement SET id = %s WHERE verdict = 'run'", [slow])
    assert "1 evaluations were replayed" in signoff("check", "replay", "--since", "1h").said
    assert "4 evaluations were replayed" in signoff("check", "replay", "--since", "2h").said


async def _erase(url: str) -> None:
    async with Database(url, role=None) as db:
        before = (await column(db, "SELECT clock_timestamp() + interval '1 minute'"))[0]
        async for _ in retention.erase(db, before, by="cli:test"):
            pass
        assert await column(db, "SELECT count(*) FROM judgement WHERE num_nonnulls(action, facts) > 0") == [0]
