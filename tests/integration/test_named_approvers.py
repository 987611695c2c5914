"""Where several approvals make a decision, people read the names of all who gave one."""

from __future__ import annotations

import asyncio
import re

import pytest

from agent.domain.errors import Refused
from agent.domain.people import Standing
from agent.domain.request_list import RequestKind
from agent.store import views
from signoff.values import Person
from slackbot.cards import details_modal, history_list, thread_line
from slackbot.masking import clean_view
from slackbot.reviewing.listing import PersonalLists
from tests.integration import alone, asking
from tests.integration.asking import GRACE, LINUS, TEAM, Asked, ask, ballot, reviewer, rule
from tests.integration.command import Command
from tests.integration.service.conftest import http_house  # noqa: F401
from tests.integration.test_delivery import Office, office  # noqa: F401
from tests.integration.web.visiting import Porch, porch  # noqa: F401
from tests.unit.cards.conftest import words

EVE, MARIE, ROSA = (Person(TEAM, user) for user in ("U0EVE", "U0MARIE", "U0ROSA"))


async def approved_by_all(office: Office, *people: Person, left: Person | None = None) -> Asked:  # noqa: F811
    """In this order; ``left`` approves first, and is no reviewer any more when the others do."""
    asked = await ask(office.db, rule(approvals_required=len(people)))
    standings = [reviewer(each) for each in people]
    if left:
        await alone.vote(office.db, ballot(asked, reviewer(left), others=standings, place=None))
        standings.append(Standing(left, frozenset()))
    for each in people:
        await alone.vote(office.db, ballot(asked, reviewer(each), others=standings, place=None))
    return asked


async def test_card_and_thread_name_all_whose_approvals_counted(office: Office) -> None:  # noqa: F811
    """The card's headline and the thread's line name them in the order of their votes, and nobody whose vote did not
    count.
    """
    await approved_by_all(office, LINUS, GRACE, left=EVE)
    await office.tell_all()
    (card,) = office.cards()
    headline = words(card["blocks"][1]["elements"][:1])
    assert headline.startswith("✅ Approved by U0LINUS and U0GRACE, ")
    body = (await office.column("SELECT body FROM delivery WHERE body ->> 'line' = 'approved'"))[0]
    assert "✅ Approved by U0LINUS and U0GRACE, " in words(thread_line(body).blocks)
    assert any("U0LINUS" in line and "U0GRACE" in line for line in office.lines(card)[-1:])


async def test_many_are_counted_where_space_is_short(office: Office) -> None:  # noqa: F811
    """Card and history name two of four and count the others; Details and the terminal name all."""
    people = (GRACE, LINUS, MARIE, ROSA)
    asked = await approved_by_all(office, *people)
    async with office.db.connection() as connection:
        view = await views.request_view(connection, asked.request_id)
    assert view is not None
    await office.tell_all()
    assert "Approved by U0GRACE, U0LINUS and 2 more, " in words(office.cards()[0]["blocks"])
    assert "by U0GRACE, U0LINUS, U0MARIE and U0ROSA, " in words(details_modal(await clean_view(view)))


async def test_the_page_names_all_and_finds_it_for_each(porch: Porch) -> None:  # noqa: F811
    """Page, list and timeline name both; the history of either, and of no third, has the request."""
    asked = await porch.asked(7, asking.rule(approvals_required=2))
    linus, grace = await porch.visitor("U0LINUS"), await porch.visitor("U0GRACE")
    for reader in (linus, grace):
        await reader.open(f"/inbox/requests/{asked}")
        assert (await reader.send(f"/inbox/requests/{asked}/approve", {"revision": "1"})).status_code == 303
    await grace.open(f"/inbox/requests/{asked}")
    both = "@linus (Linus Pauling) and @grace (Grace Hopper)"
    assert f"Approved by {both}, " in grace.words
    assert f'data-said="Approved by {both}"' in grace.page
    assert f"{both} decided it: approved" in grace.words
    for person, found in (("U0LINUS", True), ("U0GRACE", True), ("U0MALLORY", False)):
        await grace.open(f"/inbox/history?person={person}")
        assert (f"by {both}" in grace.words) is found, person
        assert re.search(rf'class="count"[^>]*>{int(found)}<', grace.page), person


async def test_all_who_approved_see_it_later(office: Office) -> None:  # noqa: F811
    """Who gave any of the approvals sees the request in their history, reviewer or not by then; others do not."""
    await approved_by_all(office, MARIE, ROSA)
    for person, seen in ((MARIE, 1), (ROSA, 1), (EVE, 0)):
        shown = await PersonalLists(office.db, office.directory, person).latest_decided(20)
        assert len(shown) == seen, person
    lines = await office.db.read(views.found_requests, TEAM, RequestKind.DECIDED)
    assert "decided by U0MARIE and U0ROSA, " in words(history_list(lines).blocks)


async def test_a_late_vote_is_told_who_decided(office: Office) -> None:  # noqa: F811
    """The refusal names all who approved."""
    asked = await approved_by_all(office, LINUS, GRACE)
    with pytest.raises(Refused) as caught:
        await alone.vote(office.db, ballot(asked, reviewer(EVE)))
    assert f"already approved by {LINUS} and {GRACE} at" in caught.value.sentence


async def test_the_terminal_names_all(office: Office, signoff: Command) -> None:  # noqa: F811
    """`signoff requests` and `signoff requests show` name all who approved."""
    asked = await approved_by_all(office, LINUS, GRACE)
    for arguments in (("list",), ("show", str(asked.request_id))):
        said = (await asyncio.to_thread(signoff, "requests", *arguments)).said
        assert f"{LINUS} and {GRACE}" in said


async def test_a_rejection_names_who_rejected(office: Office) -> None:  # noqa: F811
    """An approval before a rejection is not among who decided."""
    asked = await ask(office.db, rule(approvals_required=2))
    await alone.vote(office.db, ballot(asked, reviewer(LINUS), place=None))
    await alone.vote(
        office.db, ballot(asked, reviewer(GRACE), "reject", others=[reviewer(LINUS)], place=None)
    )
    await office.tell_all()
    assert "❌ Rejected by U0GRACE, " in words(office.cards()[0]["blocks"])
