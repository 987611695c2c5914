"""The words by which requests are found: stored a moment later, masked, and never older than what they are about."""

from __future__ import annotations

from functools import partial

import psycopg
import pytest

from agent.database.pools import Database
from agent.domain.request_list import RequestFilter, RequestKind, RequestOrder
from agent.store import overdue, views
from agent.store import search as stored
from agent.store.views import request_lists
from agent.usecases import search
from signoff.values import Action
from slackbot.masking.search_words import search_words, words_of_request
from slackbot.service.scheduler import OVERDUE
from tests.integration import alone
from tests.integration.asking import GRACE, TEAM, ask, ballot, reviewer, rule
from tests.integration.test_lists import MANY, REVISIONS, pages

TOKEN = "xoxb-" + "1234567890-1234567890-" + "abcdefghijklmnopqrstuvwx"

store_words = partial(search.store_words, words_of=words_of_request)


async def found(db: Database, words: str) -> int:
    wanted = RequestFilter(words=tuple(search_words(words)))
    async with db.connection() as connection:
        return len(await views.found_requests(connection, TEAM, RequestKind.ANY, wanted))


async def due(db: Database) -> bool:
    async with db.connection() as connection:
        return "search" in await overdue.find(connection)


async def test_a_request_is_found_by_all_that_may_be_read_of_it(database: Database) -> None:
    """Description, arguments, facts, own words and reasons; by the beginnings of words, each of which must be there."""
    action = Action("process_refund", "1", {"order_id": 7, "address": {"city": "Düsseldorf"}})
    asked = await ask(
        database,
        action=action,
        facts={"price": 1499.5},
        rationale="The parcel was LOST.",
        context={"task": "soonest"},
    )
    assert await found(database, "parcel") == 0
    assert await due(database)
    assert OVERDUE["search"] is not None
    assert await store_words(database) == 1
    assert not await due(database)
    for words in (
        "parc",
        "lost PARCEL",
        "düssel",
        "1,499",
        "city refund",
        "process_refund",
        "soonest",
        "refunds",
    ):
        assert await found(database, words) == 1, words
    for words in ("arcel", "parcel found", "15000"):
        assert await found(database, words) == 0, words
    await alone.vote(database, ballot(asked, reviewer(GRACE), "reject", reason="Wrong customer"))
    assert await found(database, "customer") == 0
    await store_words(database)
    assert await found(database, "wrong customer parcel") == 1


async def test_a_word_may_be_somebodys_name(database: Database) -> None:
    """Whoever asked, voted or decided is found by a word that is their name, and the other words count as well."""
    asked = await ask(database)
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    await store_words(database)
    for words, who, expected in (
        (("lovelace", "refund"), "U0ADA", [asked.request_id]),
        (("somebody",), "U0GRACE", [asked.request_id]),
        (("lovelace", "nothing"), "U0ADA", []),
        (("lovelace",), "U0LINUS", []),
        (("lovelace",), "U0", []),
        (("lovelace",), "x' | 'refund", []),
    ):
        wanted = RequestFilter(words=words, named=((words[0], who),))
        found = await database.read(views.found_requests, TEAM, RequestKind.ANY, wanted)
        assert [line.id for line in found] == expected, (words, who)


async def test_nobody_finds_a_request_by_what_is_hidden(
    database: Database, owner: psycopg.Connection[object]
) -> None:
    """Neither tokens, nor values that a key or `redact` hides, nor what repeats them, are among the stored words."""
    await ask(
        database,
        rule(redact=("order_id",)),
        description=f"Refund with {TOKEN}",
        action=Action("process_refund", "1", {"order_id": "zq48151623", "password": "hunter2"}),
        rationale="it is zq48151623, says hunter2",
        context={"task": "refund zq48151623"},
    )
    await store_words(database)
    assert await found(database, "refund") == 1
    for words in ("zq48151623", "hunter2", "xoxb", "abcdefghijklmnopqrstuvwx", "1234567890"):
        assert await found(database, words) == 0, words
    stored = str(owner.execute("SELECT words FROM request_search").fetchall())
    assert "zq" not in stored
    assert "hunter2" not in stored


async def test_old_words_never_replace_later_ones(
    database: Database, owner: psycopg.Connection[object]
) -> None:
    """A round that had read a request before something was said of it does not undo the round that came after."""
    asked = await ask(database)
    await store_words(database)
    owner.execute("UPDATE request_search SET recorded = 1000, words = array_to_tsvector(ARRAY['later'])")
    owner.execute("INSERT INTO search_due (request_id) VALUES (%s)", [asked.request_id])
    await store_words(database)
    assert await found(database, "later") == 1


async def test_what_is_erased_is_not_found(database: Database, owner: psycopg.Connection[object]) -> None:
    """Words go in the transaction that erases what they stood in, and are written again from what is left."""
    asked = await ask(database, rationale="The parcel was lost.")
    await alone.vote(database, ballot(asked, reviewer(GRACE), "reject"))
    await store_words(database)
    assert await found(database, "parcel") == 1
    owner.execute(
        "WITH said AS (SELECT 'erased on ' || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS note)"
        "UPDATE request_revision SET action = '', arguments = NULL, facts = NULL, rationale = NULL,"
        " description = note, context = jsonb_build_object('task', note), erased_at = now() FROM said"
    )
    assert await found(database, "parcel") == 0
    await store_words(database)
    assert await found(database, "erased") == 1
    assert await found(database, "parcel") == 0


async def test_rounds_at_the_same_time_share_what_is_due(database: Database) -> None:
    """Two rounds take different requests and wait for nobody; what a failed one took is due again."""
    for order in range(4):
        await ask(database, order=order)

    async def broken(_: object) -> list[str]:
        raise RuntimeError("masking failed")

    with pytest.raises(RuntimeError):
        await search.store_words(database, broken, at_once=2)
    async with database.transaction() as tx:
        taken = await stored.take_due(tx, 2)
        assert len(taken) == 2
        assert await store_words(database, at_once=3) == 2
    assert await found(database, "refund") == 2


def test_words_are_folded() -> None:
    """Case, thousands and width do not matter; signs and underscores part words."""
    assert search_words("Refund 1,499.50 (ORDER_7) ＡＢ straße, 1,23") == [
        "refund", "1499", "50", "order", "7", "ab", "strasse", "1", "23",
    ]  # fmt: skip
    assert search_words("<>&|!()'\\ : *") == []


async def test_a_search_reads_an_index_and_not_all_requests(
    database: Database, owner: psycopg.Connection[object]
) -> None:
    """Of twenty thousand requests, no word costs more than a look at the latest thousand: neither a word of all of
    them, nor one of few, nor one that stands nowhere.
    """
    owner.execute(MANY, [TEAM])
    owner.execute(REVISIONS)
    owner.execute(
        "INSERT INTO request_search SELECT id, 1, array_to_tsvector(ARRAY['refund', 'order' || client_id])"
        " FROM approval_request"
    )
    owner.execute("ANALYZE")
    statement = request_lists._found(
        RequestKind.ANY, frozenset({"words"}), RequestOrder.NEWEST, 25, later=False
    )
    for words in ("'order777':*", "'refund':*", "'zebra':*"):
        assert await pages(database, statement, {"team": TEAM, "words": words}) < 8 * request_lists.WALKED, (
            words
        )
