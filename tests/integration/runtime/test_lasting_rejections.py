"""A rejection that holds: the very same action is refused in every run of its agent, for as long as policy says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from agent.domain.policy import Policy
from agent.domain.replay import Totals, replay
from agent.domain.rules import Defaults, RejectedAgain
from agent.domain.run import AnswerKind, CallState
from agent.usecases import judgements
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration.runtime.conftest import REVIEWER, Stage
from tests.integration.runtime.test_immediate_claims import asked, cleaner, deletes, done


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def holding(holds: timedelta | None, again: RejectedAgain = "refuse") -> Policy:
    return Policy(defaults=Defaults(rejected_holds=holds, rejected_again=again, on_reject="tell_model"))


@pytest.mark.parametrize("holds", [timedelta(hours=1), timedelta(milliseconds=1), None], ids=str)
async def test_what_was_rejected_is_refused_in_another_run(
    stage: Callable[..., Awaitable[Stage]], holds: timedelta | None
) -> None:
    """Within the time the model is pointed to the rejection; afterwards, or without the key, people are asked."""
    on = await stage(cleaner(), policy=holding(holds))
    call = await asked(on, "users", "Understood.")
    await on.reject(call, "not these")
    on.model.script(ScriptedTurn(calls=(ScriptedCall("delete", {"what": "users"}),)), "Understood.")
    (again,) = await on.calls(await on.go("cleaner", "delete users once more"))
    if holds != timedelta(hours=1):
        assert again.state is CallState.ASKED
        return
    assert again.answer is not None
    assert (again.answer.kind, done) == (AnswerKind.DENIED, [])
    assert again.answer.text == f"the same action was recently rejected, see request {call.request_id}"
    other = await asked(on, "logs")
    assert other.state is CallState.ASKED


async def test_a_refusal_for_a_rejection_is_replayed_as_what_policy_says(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    """Its judgement keeps that policy asks: the same policy, replayed, changes nothing of it."""
    policy = holding(timedelta(hours=1))
    on = await stage(cleaner(), policy=policy)
    call = await asked(on, "users", "Understood.")
    await on.reject(call)
    on.model.script(ScriptedTurn(calls=(ScriptedCall("delete", {"what": "users"}),)), "Understood.")
    (again,) = await on.calls(await on.go("cleaner", "delete users once more"))
    assert again.answer is not None
    assert again.answer.kind is AnswerKind.DENIED
    totals = Totals()
    async for page in judgements.recorded(on.db, datetime.now(UTC) - timedelta(hours=1)):
        assert list(replay(policy, page, totals)) == []
    assert totals.verdicts == {("ask", "ask"): 2}


async def test_what_was_rejected_is_asked_with_the_rejection(stage: Callable[..., Awaitable[Stage]]) -> None:
    """Where policy shows rejections, another run asks with a pointer to it; its own run still refuses."""
    on = await stage(cleaner(), policy=holding(timedelta(hours=1), "show"))
    same = ScriptedTurn(calls=(ScriptedCall("delete", {"what": "users"}),))
    call = await asked(on, "users", same, "Understood.")
    await on.reject(call, "not these")
    *_, repeated = await on.calls(call.run_id)
    again, other = await asked(on, "users"), await asked(on, "logs")
    shown, plain = await on.request(again), await on.request(other)
    assert plain.rejected_before is None
    earlier = shown.rejected_before
    assert earlier is not None
    assert (earlier.request_id, earlier.reason) == (call.request_id, "not these")
    assert earlier.person == REVIEWER
    assert repeated.answer is not None
    assert repeated.answer.kind is AnswerKind.DENIED
    assert done == []


async def test_what_is_asked_anew_still_points_to_the_rejection(
    stage: Callable[..., Awaitable[Stage]],
) -> None:
    """Facts that change after an approval make it void; people who are asked again see the rejection, too."""
    rows = [1]

    def count(what: str) -> dict[str, int]:
        return {"rows": rows[-1]}

    on = await stage(cleaner(deletes(facts=count)), policy=holding(timedelta(hours=1), "show"))
    call = await asked(on, "users", "Understood.")
    await on.reject(call)
    again = await asked(on, "users")
    rows.append(2)
    await on.approve(again)
    (anew,) = await on.calls(again.run_id)
    assert anew.request_id != again.request_id
    shown = (await on.request(anew)).rejected_before
    assert shown is not None
    assert shown.request_id == call.request_id
