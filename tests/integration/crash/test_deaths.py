"""The service dies and comes back; nothing is lost, nothing happens twice."""

from __future__ import annotations

from pathlib import Path

from agent.fault_points import POINTS
from tests.integration.crash.by_answers import die_by_answers
from tests.integration.crash.by_form import BY_FORM, die_by_form
from tests.integration.crash.by_program import die_by_a_program
from tests.integration.crash.deaths import EVERY, STUCK, WORST, die_and_recover
from tests.integration.crash.street import AGENT, street, until
from tests.integration.crash.under_grant import die_under_a_grant
from tests.integration.crash.within_limits import die_within_limits


async def test_the_worst_moments_to_die_lose_nothing_and_repeat_nothing(
    database_url: str, tmp_path: Path
) -> None:
    """No acknowledged decision is lost, no tool runs twice, no card appears twice; a person settles the doubts."""
    async with street(database_url, tmp_path, lanes=len(WORST)) as here:
        await die_and_recover(here, WORST)
        assert here.doubted, "nothing was ever in doubt, so the doubt was not tested"
        assert await here.serve.stop() == 0, here.serve.said()


def test_the_full_matrix_dies_at_every_point() -> None:
    """The stress test covers every fault point in the code."""
    assert {death.partition(":")[0] for death in EVERY} == POINTS


async def test_a_request_outlives_kill_9_and_a_change_of_the_code(database_url: str, tmp_path: Path) -> None:
    """Killed while a request waits, the code changed, restarted: the click resumes the run, and the tool runs once."""
    async with street(database_url, tmp_path, lanes=1) as here:
        await here.start()
        await here.ask(0)
        card = await here.card(0)
        await until(lambda: here.column("SELECT ts FROM card_place WHERE ts IS NOT NULL"), 10.0)
        await here.serve.kill()
        changed = AGENT.format(sink=str(here.sink), options="").replace(
            "wrote lane", "the new code wrote lane"
        )
        (tmp_path / "lanes.py").write_text(f"# a comment moves every line\n{changed}")
        await here.start()
        answer = await here.slack.person("U0GRACE").click(card, "signoff:approve")
        assert answer.error is None
        await until(lambda: here.column("SELECT 1 FROM agent_run WHERE status = 'completed'"), STUCK)
        assert here.written() == {0: 1}
        [heard] = [request for request in here.model.requests if "the new code wrote lane 0" in str(request)]
        assert "write_line lane=0" in str(heard["messages"]), "the run has forgotten what it was asked"


async def test_an_idempotent_tool_of_a_dead_worker_is_retried_by_itself(
    database_url: str, tmp_path: Path
) -> None:
    """The worker dies after the effect: another one calls the tool again, with the same key, and nobody is asked."""
    async with street(database_url, tmp_path, lanes=1, options="(idempotent=True)") as here:
        await here.start("after_effect")
        await here.play_until_death(0)
        await here.start()
        await until(lambda: here.column("SELECT 1 FROM agent_run WHERE status = 'completed'"), STUCK)
        assert here.written() == {0: 2}
        assert await here.column("SELECT count(*) FROM execution WHERE status = 'in_doubt'") == [0]
        assert await here.column("SELECT count(*) FROM decision") == [1]


async def test_sigterm_lets_a_running_tool_end(database_url: str, tmp_path: Path) -> None:
    """Told to stop while a tool runs, the service waits for it and ends with 0: done, and not in doubt."""
    async with street(database_url, tmp_path, lanes=1) as here:
        gate = tmp_path / "gate"
        slow = AGENT.format(sink=str(here.sink), options="").replace(
            "    with SINK",
            f"    import pathlib, time\n    pathlib.Path({str(tmp_path / 'begun')!r}).touch()\n"
            f"    while not pathlib.Path({str(gate)!r}).exists():\n        time.sleep(0.01)\n    with SINK",
        )
        (tmp_path / "lanes.py").write_text(slow)
        await here.start(SIGNOFF_DRAIN_SECONDS="20")
        await here.ask(0)
        await here.approve(0)

        async def begun() -> bool:
            return (tmp_path / "begun").exists()

        await until(begun, 10.0)
        here.serve.terminate()
        await here.serve.says("service.stopping")
        gate.touch()
        assert await here.serve.ends(20.0) == 0, here.serve.said()
        assert here.written() == {0: 1}
        assert await here.column("SELECT status::text FROM execution") == ["succeeded"]


async def test_what_dies_within_a_limit_is_counted_once(database_url: str, tmp_path: Path) -> None:
    """Killed with a claim, and before a question commits: the limit holds, and each call counts once in the end."""
    await die_within_limits(
        database_url, tmp_path, by_itself=["after_claim"], asked=["before_request_commits"]
    )


async def test_what_dies_under_a_grant_is_one_use(database_url: str, tmp_path: Path) -> None:
    """Killed with a claim under a grant: the use is counted once, runs no second time, and no other use is lost."""
    await die_under_a_grant(database_url, tmp_path, deaths=["after_claim"])


async def test_what_a_program_does_outlives_the_service(database_url: str, tmp_path: Path) -> None:
    """Killed with its decision, its claim and its result: the program repeats itself, and its effect happens once."""
    deaths = ("after_decision_commits", "after_claim", "after_result")
    await die_by_a_program(database_url, tmp_path, deaths=deaths)


async def test_an_answer_outlives_the_service(database_url: str, tmp_path: Path) -> None:
    """Killed before and after the answer's commit, and before its run is told: it counts once, and the run has it."""
    deaths = ("before_decision_commits", "after_decision_commits", "after_ack:2")
    await die_by_answers(database_url, tmp_path, deaths=deaths)


async def test_a_form_outlives_the_service(database_url: str, tmp_path: Path) -> None:
    """Killed while a group is asked about, posted, decided and begun: one message, one vote each, and all has run."""
    await die_by_form(database_url, tmp_path, deaths=BY_FORM)
