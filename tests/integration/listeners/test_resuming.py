"""Resume on the line that says that a run failed."""

from __future__ import annotations

from agent.domain.errors import Refusal, sentence
from agent.usecases import runs
from slackbot.cards import ACTION_RESUME_RUN
from slackbot.slack.listeners import thread_buttons
from tests.integration import alone
from tests.integration.asking import ADA, TEAM
from tests.integration.listeners.conftest import House


async def test_its_requester_resumes_a_run_in_its_thread(http_house: House) -> None:
    """The line names who may resume; others get their own refusal; the first press counts, and the second gets a
    notice.
    """
    house = http_house
    new = runs.NewRun("refunds", "1", "refund order 7", "slack", ADA, "slack", TEAM, "C0AGENTS")
    run_id = (await runs.start(house.db, new)).run_id
    leased = await alone.lease(house.db, run_id, "w")
    assert leased is not None
    await runs.record_model_failure(house.db, leased.lease, "no such model", None)
    line = await house.run_line(run_id, "failed")
    assert "The person who started it" in str(line["blocks"])
    assert (await house.slack.person("U0GRACE").click(line, ACTION_RESUME_RUN)).acked
    await house.ephemeral("U0GRACE", sentence(Refusal.NOT_YOURS_TO_RESUME))
    assert (await house.slack.person("U0ADA").click(line, ACTION_RESUME_RUN)).acked
    assert house.rows("SELECT status::text FROM agent_run") == [("working",)]
    assert house.rows("SELECT body ->> 'user' FROM delivery WHERE body ->> 'line' = 'resumed'") == [
        ("U0ADA",)
    ]
    assert (await house.slack.person("U0ADA").click(line, ACTION_RESUME_RUN)).acked
    await house.ephemeral("U0ADA", thread_buttons.NOT_FAILED)
