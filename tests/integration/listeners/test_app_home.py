"""App Home: what it shows to whom, its buttons, its pages, and how it is kept fresh."""

from __future__ import annotations

import time
from typing import Any

from agent.database.pools import Database
from agent.domain.request import Verdict
from agent.usecases import pause, runs
from slackbot.cards import (
    ACTION_APPROVE,
    ACTION_CANCEL_RUN,
    ACTION_DETAILS,
    ACTION_PAGE,
    ACTION_PAGE_BACK,
    ACTION_REJECT,
)
from slackbot.cards.app_home import MAX_WAITING
from slackbot.slack.app_home import AppHomes
from slackbot.slack_api.error_codes import Meaning, meaning_of
from tests.integration import alone
from tests.integration.asking import GRACE, LINUS, ask, ballot, reviewer, rule, start
from tests.integration.listeners.conftest import House
from tests.patience import promised
from tests.unit.test_error_codes import DOCUMENTED

REASON = "signoff:reason/signoff:reason_input"


async def home(house: House, user: str, words: str = "Waiting for me", but: str = "") -> dict[str, Any]:
    """Wait until this person's Home says these words, and not those."""

    def found() -> dict[str, Any] | None:
        view = house.slack.home(user)
        return view if view and words in str(view) and not (but and but in str(view)) else None

    view = await house.slack.wait_for(found)
    assert view is not None
    return view


def waiting_in(view: dict[str, Any]) -> set[str]:
    """The requests that can be approved here."""
    return {
        element["value"].split(".")[1]
        for block in view["blocks"]
        if block["type"] == "actions"
        for element in block["elements"]
        if element["action_id"] == ACTION_APPROVE
    }


async def test_home_shows_what_waits_for_its_reader(house: House) -> None:
    """Reviewers get the request with its buttons; who asked for it finds it among their own, without them."""
    asked = await ask(house.db)
    for user in ("U0GRACE", "U0ADA"):
        house.slack.person(user).open_home()
    grace = await home(house, "U0GRACE", "Waiting for me (1)")
    ada = await home(house, "U0ADA", "Waiting for me (0)")
    assert waiting_in(grace) == {str(asked.request_id)}
    assert waiting_in(ada) == set()
    assert str(asked.request_id) in str(ada)
    assert ACTION_CANCEL_RUN in str(ada)
    assert ACTION_CANCEL_RUN not in str(grace)


async def test_an_approval_in_home_counts_and_moves_on(house: House) -> None:
    """Approve in Home is a vote on that path; soon the request is among those decided."""
    asked, _ = await house.asked()
    grace = house.slack.person("U0GRACE")
    grace.open_home()
    assert (await grace.click(await home(house, "U0GRACE", ACTION_APPROVE), ACTION_APPROVE)).acked
    assert await house.status(asked.request_id) == "approved"
    assert house.rows("SELECT user_id, path FROM vote") == [("U0GRACE", "slack_home")]
    await home(house, "U0GRACE", "Waiting for me (0)", but=ACTION_APPROVE)


async def test_reject_and_details_open_from_home(house: House) -> None:
    """The other buttons of Home open their modals, and a rejection from there counts."""
    asked = await ask(house.db)
    grace = house.slack.person("U0GRACE")
    grace.open_home()
    view = await home(house, "U0GRACE", ACTION_REJECT)
    await grace.click(view, ACTION_DETAILS)
    await house.modal("U0GRACE", "order_id")
    await grace.click(view, ACTION_REJECT)
    await grace.submit(house.slack.views("U0GRACE")[-1], {REASON: "no"})
    assert await house.status(asked.request_id) == "rejected"
    await home(house, "U0GRACE", but=ACTION_REJECT)


async def test_a_refusal_in_home_is_told_in_a_modal(http_house: House) -> None:
    """Somebody who lost the right while the button was on their screen, or presses an old one, reads why."""
    asked = await ask(http_house.db)
    grace = http_house.slack.person("U0GRACE")
    grace.open_home()
    view = await home(http_house, "U0GRACE", ACTION_APPROVE)
    http_house.slack.workspace.change_usergroup("S0FINANCE", ["U0LINUS"])
    http_house.ctx.directory.forget("S0FINANCE")
    await grace.click(view, ACTION_APPROVE, stale=True)
    await http_house.modal("U0GRACE", "not among the reviewers")
    payload = grace.click_payload(view, ACTION_APPROVE, stale=True)
    payload["actions"][0]["action_id"] = "approve_v0"
    assert (await http_house.slack.deliveries.interactive(payload)).acked
    await http_house.modal("U0GRACE", "older version")
    assert await http_house.status(asked.request_id) == "waiting"


async def test_home_follows_what_others_do(http_house: House) -> None:
    """A new request appears and one that somebody else decided goes, without anybody opening Home again."""
    house = http_house
    house.slack.person("U0GRACE").open_home()
    await home(house, "U0GRACE", "Waiting for me (0)")
    asked, card = await house.asked()
    view = await home(house, "U0GRACE", "Waiting for me (1)")
    assert waiting_in(view) == {str(asked.request_id)}
    await house.slack.person("U0LINUS").click(card, ACTION_APPROVE)
    await home(house, "U0GRACE", "Waiting for me (0)")


async def test_nothing_is_published_that_is_the_same(http_house: House) -> None:
    """A change that does not concern a person does not publish their Home again, and many changes at once are few
    views.
    """
    house = http_house
    house.slack.workspace.add_member("U0OUT", "out")
    for user in ("U0GRACE", "U0OUT"):
        house.slack.person(user).open_home()
        await home(house, user)
    for _ in range(12):
        await ask(house.db)
    await home(house, "U0GRACE", ACTION_PAGE)

    def published(user: str) -> int:
        return sum(call.args.get("user_id") == user for call in house.slack.calls_of("views.publish"))

    assert published("U0OUT") == 1
    assert published("U0GRACE") < 12


async def test_a_thousand_are_one_page_away(http_house: House) -> None:
    """With 1,000 waiting requests Home comes within a second, counted, a page of them; Next and Back turn it."""
    house = http_house
    asked = await ask(house.db)
    house.owner.execute(
        """
        WITH many AS MATERIALIZED (
            SELECT gen_random_uuid() AS id, n FROM generate_series(1, 999) AS n
        ), proposed AS (
            INSERT INTO tool_call
                (id, principal, client_id, content_digest, agent, tool, executor, state, blocking, ask_no)
            SELECT id, 'key:many', n::text, '', 'many', 'many', 'program', 'asked', false, 1 FROM many
        )
        INSERT INTO approval_request SELECT (jsonb_populate_record(r, jsonb_build_object(
            'id', many.id, 'client_id', 'many:' || n, 'source', 'api', 'run_id', NULL, 'call_id', many.id))).*
        FROM approval_request AS r, many WHERE r.id = %s
        """,
        (asked.request_id,),
    )
    house.owner.execute(
        """
        INSERT INTO request_revision SELECT (jsonb_populate_record(v, jsonb_build_object('request_id', r.id))).*
        FROM request_revision AS v, approval_request AS r WHERE r.id <> v.request_id
        """
    )
    grace = house.slack.person("U0GRACE")
    began = time.monotonic()
    grace.open_home()
    first = waiting_in(await home(house, "U0GRACE", ACTION_PAGE))
    assert time.monotonic() - began < promised(2)
    assert len(first) == MAX_WAITING
    assert "Waiting for me (200+)" in str(house.slack.home("U0GRACE"))
    await grace.click("home", ACTION_PAGE)
    second = waiting_in(await home(house, "U0GRACE", ACTION_PAGE_BACK))
    assert len(second) == MAX_WAITING
    assert not first & second
    await grace.click("home", ACTION_PAGE_BACK)
    assert waiting_in(await home(house, "U0GRACE", ACTION_PAGE, but=ACTION_PAGE_BACK)) == first


async def test_a_rate_limit_is_waited_for(http_house: House) -> None:
    """After a 429 nothing is published before Slack's time is over, and then it is."""
    house = http_house
    await ask(house.db, rule(approvers=("U0GRACE",)))
    house.slack.faults.ratelimited("views.publish", retry_after=1)
    began = time.monotonic()
    house.slack.person("U0GRACE").open_home()
    await home(house, "U0GRACE", "Waiting for me (1)")
    assert time.monotonic() - began >= 1.0
    assert len(house.slack.calls_of("views.publish")) == 2


async def test_a_home_that_slack_does_not_take_says_so(http_house: House) -> None:
    """Whatever Slack's documented error is, the Home says which commands show the same."""
    house = http_house
    for code in DOCUMENTED["views.publish"]:
        if (
            meaning_of(code, "views.publish") in (Meaning.SLOW_DOWN, Meaning.PASSING)
            or code == "hash_conflict"
        ):
            continue  # tried again, or another process has published
        house.slack.faults.error("views.publish", code)
        for words in ("Slack does not accept this page", "Waiting for me"):
            house.ctx.homes._viewers.clear()
            house.slack.person("U0GRACE").open_home()
            await home(house, "U0GRACE", words)


async def test_home_shows_what_commands_show(http_house: House) -> None:
    """A reviewer outside the channel finds a decided request in Home, as in `/approvals history`. Home also shows the
    outcome of an approval, and that a run is paused.
    """
    house = http_house
    house.slack.workspace.channels["C0REVIEW"].members.discard("U0GRACE")
    asked = await ask(house.db, rule(approvers=("U0GRACE", "U0LINUS")))
    await alone.vote(house.db, ballot(asked, reviewer(LINUS, "U0LINUS"), Verdict.REJECT))
    grace = house.slack.person("U0GRACE")
    answer = await grace.command("/approvals", "history", "C0AGENTS")
    assert str(asked.request_id) in str(answer.response)
    grace.open_home()
    await home(house, "U0GRACE", str(asked.request_id))
    approved = await ask(house.db, rule(approvers=("U0GRACE", "U0LINUS")))
    await alone.vote(house.db, ballot(approved, reviewer(LINUS, "U0LINUS")))
    await runs.cancel_by_operator(house.db, approved.run_id, "test", "no longer wanted")
    await home(house, "U0GRACE", "Approved, not run")
    await start(house.db)
    await pause.pause(house.db, "refunds", by="test")
    house.slack.person("U0ADA").open_home()
    await home(house, "U0ADA", "⏸ Paused")


async def test_who_does_not_belong_here_sees_no_requests(http_house: House) -> None:
    """A guest's Home explains itself and lists nothing."""
    await ask(http_house.db, rule(approvers=("channel",)))
    http_house.slack.person("U0MALLORY").open_home()
    view = await home(http_house, "U0MALLORY", "Members of this workspace")
    assert "Refund 1500" not in str(view)


async def test_the_messages_tab_publishes_nothing(http_house: House) -> None:
    """`app_home_opened` comes for the other tab too."""
    http_house.slack.person("U0GRACE").open_home("messages")
    await http_house.slack.wait_for(lambda: http_house.slack.deliveries.events)
    assert http_house.slack.calls_of("views.publish") == []


async def test_two_processes_do_not_fight_over_a_home(http_house: House) -> None:
    """The process that published last keeps a Home fresh; the other one lets go of it when it notices."""
    house, other = (
        http_house,
        AppHomes(
            http_house.db,
            http_house.ctx.directory,
            http_house.client,
            http_house.ctx.permalinks,
            http_house.ctx.services.policies,
            pace=0.2,
        ),
    )
    house.slack.person("U0GRACE").open_home()
    await home(house, "U0GRACE")
    other.show(GRACE)
    await house.slack.wait_for(lambda: len(house.slack.calls_of("views.publish")) == 2)
    assert house.ctx.homes.open == 1
    await ask(house.db)
    await home(house, "U0GRACE", "Waiting for me (1)")
    await house.slack.wait_for(lambda: len(house.slack.calls_of("views.publish")) >= 4)
    await ask(house.db)
    await home(house, "U0GRACE", "Waiting for me (2)")
    assert house.ctx.homes.open + other.open == 1
    await other.stop()


async def test_a_database_that_is_away_comes_back(http_house: House) -> None:
    """While the database does not answer Home stays as it was; when it does again, Home follows."""
    house = http_house
    homes = house.ctx.homes
    house.slack.person("U0GRACE").open_home()
    await home(house, "U0GRACE", "Waiting for me (0)")
    homes._db = Database("postgresql://nobody@127.0.0.1:1/nowhere")
    await ask(house.db)
    homes.refresh(GRACE)
    homes._db = house.db
    await home(house, "U0GRACE", "Waiting for me (1)")
