"""`signoff check explain` and `replay`: what a policy says of one action, and of what was judged."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.database.pools import Database
from agent.domain import checkpoints
from agent.domain.api_keys import Principal
from agent.domain.audit import AuditKind
from agent.domain.judgement import ToolTraits
from agent.domain.policy import Policy
from agent.domain.run import AnswerKind, CallAnswer
from agent.usecases import requests, retention, runs
from agent.usecases.executions import external
from signoff.values import Action
from tests.integration import alone
from tests.integration.asking import GRACE, asked_as, ballot, column, question, reviewer, start
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
    (wrong,) = [
        line for line in signoff(*refund, "--arg", "amount").said.splitlines() if "name=value" in line
    ]
    assert "--arg" in wrong


async def _judge_three(url: str, policy: Policy) -> None:
    """One call runs, one is asked and approved, one is refused; a program's action runs."""
    async with Database(url) as db:
        run_id, calls = await start(db, calls=3)
        for order, (call, amount) in enumerate(zip(calls, (5, 100, 5000), strict=True)):
            action = Action("process_refund", "1", {"amount": amount})
            traits = ToolTraits("process_refund", "1")
            judged = policy.judge(traits, action, {"price": amount}, "refunds", "U0ADA")
            if order == 0:
                await runs.pass_call(db, call, action)
                assert await alone.claim(db, call, worker="w", idempotent=False, judgement=judged)
            elif judged.rule is not None and order == 1:
                new = question(
                    run_id, call, judged.rule, action=action, facts={"price": amount}, judgement=judged
                )
                opened = await requests.open(db, new)
                waiting = await asked_as(db, opened.request_id, call, run_id)
                await alone.vote(db, ballot(waiting, reviewer(GRACE)))
            else:
                await runs.refuse_call(db, call, CallAnswer(AnswerKind.DENIED, "no"), judgement=judged)
        told = policy.judge(ToolTraits("read", "external"), Action("read", "external", {}), None, "ci", None)
        key = Principal(None, "ci", frozenset(), None, None)  # type: ignore[arg-type]
        await external.record_judgement(db, key, AuditKind.REVIEW_NOT_REQUIRED, {}, told)


def test_replay_judges_again_what_was_judged(signoff: Command, database_url: str, tmp_path: Path) -> None:
    """Old verdict to new verdict, totals, and what people had said; erased content is counted and left out."""
    old = checkpoints.load(OLD, filename="old.toml")
    asyncio.run(_judge_three(database_url, old))
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
    assert "3 could not be replayed: their content is erased" in signoff("check", "replay").said


async def _erase(url: str) -> None:
    async with Database(url, role=None) as db:
        before = (await column(db, "SELECT clock_timestamp() + interval '1 minute'"))[0]
        async for _ in retention.erase(db, before, by="cli:test"):
            pass
        assert await column(db, "SELECT count(*) FROM judgement WHERE num_nonnulls(action, facts) > 0") == [0]
