"""What a run's thread shows of many calls at once."""

from __future__ import annotations

from sqlalchemy import text

from agent.usecases import requests
from tests.integration.asking import question, rule, start
from tests.integration.test_delivery import Office, office  # noqa: F401
from tests.unit.cards.conftest import words


async def test_thirteen_calls_of_a_turn_are_one_short_line(office: Office) -> None:  # noqa: F811
    """The thread counts what waits and what expired, names the first, and has no paragraph for each."""
    run_id, calls = await start(office.db, calls=13)
    for order, call_id in enumerate(calls):
        await requests.open(office.db, question(run_id, call_id, rule(), order=order, background=True))
    await office.tell_all("C0AGENTS")
    async with office.db.transaction() as tx:
        await tx.execute(text("UPDATE approval_request SET expires_at = clock_timestamp()"))
    await requests.expire_due(office.db)
    await office.tell_all("C0AGENTS")
    (root,) = office.slack.messages("C0AGENTS")
    waits, expired = office.slack.thread("C0AGENTS", root["ts"])[1:]
    about = "Refund 1500 for order 0, Refund 1500 for order 1 and 11 more"
    assert words(waits["blocks"]) == f"⏳ Waiting for review · 13 requests in C0REVIEW: {about}"
    assert words(expired["blocks"]).startswith("⌛ Expired · 13 requests: Refund 1500 for order ")
    assert words(expired["blocks"]).endswith(
        " and 11 more. Nobody decided in time, which is not a rejection; nothing was run."
    )
