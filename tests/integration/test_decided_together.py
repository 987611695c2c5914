"""What the record says of votes that one form cast on several requests: how many came together, and by whom."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from uuid import UUID, uuid4

from agent.database.pools import Database
from agent.domain.request import Together
from agent.domain.request_list import RequestKind
from agent.domain.request_view import RequestView
from agent.store import views
from signoff.values import Person
from slackbot.cards import details_modal, history_list, request_card
from tests.integration import alone
from tests.integration.asking import GRACE, LINUS, TEAM, Asked, ask, ballot, column, reviewer, rule
from tests.integration.command import Command
from tests.integration.test_delivery import Office, office
from tests.unit.cards.conftest import words

__all__ = ["office"]

WORDS = "in one form with"
ALL = [reviewer(GRACE), reviewer(LINUS)]


async def cast(
    db: Database, form: UUID, person: Person, *asked: Asked, sent: int | None = None, verdict: str = "approve"
) -> None:
    """One form's votes of one person; ``sent``: on how many requests, if not all are counted."""
    others = (sent or len(asked)) - 1
    for each in asked:
        shown = "SELECT digest FROM request_revision WHERE request_id = :id"
        (digest,) = await column(db, shown, id=each.request_id)
        together = Together(form, digest, others)
        cast_by = ballot(each, reviewer(person), verdict, ALL, together=together, place=None)
        await alone.vote(db, cast_by)


async def view_of(db: Database, asked: Asked) -> RequestView:
    async with db.connection() as connection:
        view = await views.request_view(connection, asked.request_id)
    assert view is not None
    return view


async def details(db: Database, asked: Asked) -> str:
    return words(details_modal(await view_of(db, asked))["blocks"])


async def test_a_thread_says_how_many_were_sent_together(office: Office) -> None:
    """A line is written while the other votes are being cast, so it counts what was sent; of one that came alone it
    says nothing.
    """
    first = await ask(office.db)
    waits = await ask(office.db, rule(approvals_required=2))
    single = await ask(office.db)
    await cast(office.db, uuid4(), GRACE, first, waits, sent=3)
    await cast(office.db, uuid4(), GRACE, single)
    await office.tell_all()
    decided, counted, by_itself = [str(office.lines(card)) for card in office.cards()]
    assert f"{WORDS} 2 others" in decided
    assert f"{WORDS} 2 others" in counted
    assert WORDS not in by_itself


async def test_details_name_each_vote_that_came_with_others(database: Database) -> None:
    """Details count what is stored; the card, which stays as it is, does not name it."""
    asked = [await ask(database, rule(approvals_required=2)) for _ in range(3)]
    await cast(database, uuid4(), GRACE, *asked)
    await cast(database, uuid4(), LINUS, *asked[:2], verdict="reject")
    shown = await details(database, asked[0])
    assert f"U0GRACE approved {WORDS} 2 others" in shown
    assert f"U0LINUS rejected {WORDS} 1 other" in shown
    assert f"{WORDS} 1 other" not in await details(database, asked[2])
    assert WORDS not in words(request_card(await view_of(database, asked[0])).blocks)


async def test_a_vote_that_came_alone_is_not_together(database: Database) -> None:
    """A form that decided one request, once or twice, is named nowhere in Slack."""
    asked, form = await ask(database, rule(approvals_required=2)), uuid4()
    await cast(database, form, GRACE, asked)
    await cast(database, form, GRACE, asked, verdict="reject")
    assert WORDS not in await details(database, asked)
    lines = await database.read(views.found_requests, TEAM, RequestKind.DECIDED)
    assert [(line.together, line.others) for line in lines] == [(form, 0)]
    assert WORDS not in words(history_list(lines).blocks)


async def test_two_people_with_one_form_are_not_together(database: Database) -> None:
    """The form's id is what its sender claims: Details and history count per form and person."""
    of_grace, of_linus = [await ask(database) for _ in range(3)], [await ask(database) for _ in range(2)]
    form = uuid4()
    await cast(database, form, GRACE, *of_grace)
    await cast(database, form, LINUS, *of_linus)
    assert [vote.others for vote in (await view_of(database, of_grace[0])).votes] == [2]
    assert [vote.others for vote in (await view_of(database, of_linus[0])).votes] == [1]
    lines = await database.read(views.found_requests, TEAM, RequestKind.DECIDED)
    assert [line.others for line in lines] == [1, 1, 2, 2, 2]
    shown = words(history_list(lines).blocks)
    assert shown.count(f"{WORDS} 2 others") == 3
    assert shown.count(f"{WORDS} 1 other") == 2


async def test_the_terminal_names_what_came_together(office: Office, signoff: Command) -> None:
    """`signoff requests show` has a line for each vote that came with others, and none for one that came alone."""
    asked, form = [await ask(office.db) for _ in range(3)], uuid4()
    await cast(office.db, form, GRACE, *asked[:2])
    await cast(office.db, uuid4(), GRACE, asked[2])
    said = (await asyncio.to_thread(signoff, "requests", "show", str(asked[0].request_id))).said
    assert re.search(rf"^together +{GRACE} {WORDS} 1 other, {form}$", said, re.MULTILINE)
    assert WORDS not in (await asyncio.to_thread(signoff, "requests", "show", str(asked[2].request_id))).said


async def test_the_export_names_the_form(office: Office, signoff: Command) -> None:
    """Each exported vote has its form, as a member and as a column; a vote on a card has none."""
    asked, form = [await ask(office.db) for _ in range(3)], uuid4()
    await cast(office.db, form, GRACE, *asked[:2])
    await alone.vote(office.db, ballot(asked[2], reviewer(GRACE), place=None))
    lines = (await asyncio.to_thread(signoff, "export", "--since", "1d")).said.splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    told = [each["together"] for each in records if each["kind"] == "vote"]
    assert told == [str(form), str(form), None]
    table = await asyncio.to_thread(
        signoff, "export", "--since", "1d", "--format", "csv", "--output", "all.csv"
    )
    assert table.status == 0, table.said
    rows = csv.DictReader(io.StringIO((signoff.folder / "all.csv").read_text(), newline=""))
    assert [row["together"] for row in rows if row["kind"] == "vote"] == [str(form), str(form), ""]
