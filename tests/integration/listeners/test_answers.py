"""The button below a long answer."""

from __future__ import annotations

from agent.domain.run import Turn
from agent.usecases import runs
from slackbot.cards import ACTION_ANSWER, ACTION_PAGE
from slackbot.slack.listeners import answers
from tests.integration import alone
from tests.integration.asking import ADA, TEAM
from tests.integration.listeners.conftest import House

TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "abcdef"
ANSWER = f"The token is {TOKEN}.\n" + "\n".join(f"Finding {number} of the report." for number in range(900))


async def test_who_may_see_a_run_reads_its_whole_answer(http_house: House) -> None:
    """The thread has the beginning; the modal has every page, without secrets, and none for people elsewhere."""
    house = http_house
    new = runs.NewRun("refunds", "1", "report", "slack", ADA, "slack", TEAM, "C0AGENTS")
    run_id = (await runs.start(house.db, new)).run_id
    leased = await alone.lease(house.db, run_id, "w")
    assert leased is not None
    await alone.record_turn(house.db, leased.lease, Turn(ANSWER, (), 1, leased.heard))
    line = await house.run_line(run_id, "answer")
    assert "Finding 0" in str(line["blocks"])
    assert "Finding 899" not in str(line["blocks"])
    linus = house.slack.person("U0LINUS")
    assert (await linus.click(line, ACTION_ANSWER)).acked
    shown = await house.modal("U0LINUS", "page 1 of 3")
    assert (TOKEN in str(shown), "redacted" in str(shown)) == (False, True)
    for page in (2, 3):
        await linus.click(shown, ACTION_PAGE)
        shown = await house.modal("U0LINUS", f"page {page} of 3")
    assert "Finding 899" in str(shown)
    house.slack.workspace.add_member("U0OUT", "out")
    for stranger, notice in (("U0OUT", answers.NOT_VISIBLE), ("U0MALLORY", "Guests")):
        assert (await house.slack.person(stranger).click(line, ACTION_ANSWER)).acked
        await house.modal(stranger, notice)
