"""Keys of programs, on a real PostgreSQL: made, shown once, recognised, rotated, revoked, counted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.database.pools import Database
from agent.domain.api_keys import Scope
from agent.domain.errors import NotFound
from agent.usecases import api_keys, audit
from agent.usecases.api_keys import KeyRejected, TooManyCalls
from signoff.errors import Conflict
from tests.integration.asking import ADA, column, rows, write


async def make(db: Database, name: str = "crm", *scopes: Scope, **terms: Any) -> str:
    return await api_keys.create(db, name, scopes or [Scope.REQUEST], by="cli:test", **terms)


async def test_a_key_is_recognised_and_its_secret_is_nowhere(database: Database) -> None:
    """The secret names its key with scopes, owner and agent; no row of the database holds it."""
    secret = await make(database, "crm", Scope.REQUEST, Scope.READ, owner=ADA, agent="refunds")
    principal = await api_keys.authenticate(database, secret)
    assert principal is not None
    assert (principal.name, principal.owner, principal.agent) == ("key:crm", ADA, "refunds")
    assert principal.scopes == {Scope.REQUEST, Scope.READ}
    [kept] = await rows(database, "SELECT row_to_json(api_key)::text FROM api_key")
    assert secret not in kept[0]
    assert secret[: api_keys.SHOWN] in kept[0]


async def test_what_is_no_key_is_nobody(database: Database) -> None:
    """A wrong, shortened, lengthened, expired or revoked secret names nobody."""
    secret = await make(database)
    other = "signoff_" + "A" * 43
    for presented in (
        "",
        "x",
        other,
        secret[:-1],
        secret + "A",
        secret.upper(),
        secret + "\n",
        secret + "\x00",
    ):
        assert await api_keys.authenticate(database, presented) is None, presented
    await write(database, "UPDATE api_key SET expires_at = clock_timestamp() - interval '1 s'")
    assert await api_keys.authenticate(database, secret) is None
    await write(database, "UPDATE api_key SET expires_at = NULL")
    assert await api_keys.authenticate(database, secret) is not None
    await api_keys.revoke(database, "crm", by="cli:test")
    assert await api_keys.authenticate(database, secret) is None


async def test_a_rotated_key_has_a_new_secret(database: Database) -> None:
    """The old secret ends at once, or after the time that it was given; the new one counts from now on."""
    first = await make(database)
    second = await api_keys.rotate(database, "crm", by="cli:test")
    assert await api_keys.authenticate(database, first) is None
    third = await api_keys.rotate(database, "crm", by="cli:test", keep_old=timedelta(hours=1))
    assert await api_keys.authenticate(database, second) is not None
    assert await api_keys.authenticate(database, third) is not None
    await write(database, "UPDATE api_key SET old_until = clock_timestamp() - interval '1 s'")
    assert await api_keys.authenticate(database, second) is None
    assert len({first, second, third}) == 3


async def test_every_change_is_on_record(database: Database) -> None:
    """The key's audit chain records making, rotating and revoking, by whom, without any secret; the chain is valid."""
    secret = await make(database, owner=ADA)
    await api_keys.rotate(database, "crm", by="cli:grace")
    await api_keys.revoke(database, "crm", by="cli:grace")
    sql = "SELECT actor, event, detail::text FROM audit_event WHERE subject = 'key:crm' ORDER BY seq"
    found = await rows(database, sql)
    assert [each[:2] for each in found] == [
        ("cli:test", "key.created"),
        ("cli:grace", "key.rotated"),
        ("cli:grace", "key.revoked"),
    ]
    assert not any(secret[api_keys.SHOWN :] in detail for _, _, detail in found)
    assert (await audit.find_problems(database))[1] == []


async def test_a_name_is_used_once(database: Database) -> None:
    """Two keys of one name cannot be, not even at once, nor after the first was revoked."""
    made = await asyncio.gather(*(make(database) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(each, str) for each in made) == 1
    assert sum(isinstance(each, Conflict) for each in made) == 4
    await api_keys.revoke(database, "crm", by="cli:test")
    with pytest.raises(Conflict):
        await make(database)
    for gone in ("crm", "never"):
        with pytest.raises(NotFound):
            await api_keys.rotate(database, gone, by="cli:test")


async def test_keys_that_would_undo_the_separation_are_not_made(database: Database) -> None:
    """Requesting with deciding, deciding without an owner, on_behalf or sessions alone, no scope, a strange name."""
    for scopes, terms in (
        ([Scope.REQUEST, Scope.DECIDE], {"owner": ADA}),
        ([Scope.DECIDE], {}),
        ([Scope.ON_BEHALF], {}),
        ([Scope.SESSIONS, Scope.READ], {}),
        ([], {}),
        ([Scope.READ], {"per_minute": 0}),
    ):
        with pytest.raises(KeyRejected):
            await api_keys.create(database, "k", scopes, by="cli:test", **terms)
    for name in ("", "a b", "x" * 65, "-x", "key:x", "a\n"):
        with pytest.raises(KeyRejected):
            await make(database, name)
    assert await column(database, "SELECT count(*) FROM api_key") == [0]


async def test_uses_are_counted_by_the_minute(database: Database) -> None:
    """Concurrent uses are all counted; beyond the limit the answer says when to retry, and others are served."""
    secret, other = await make(database, per_minute=20), await make(database, "erp")
    await write(database, "DELETE FROM key_use")
    outcomes = await asyncio.gather(
        *(api_keys.authenticate(database, secret) for _ in range(50)), return_exceptions=True
    )
    refused = [each for each in outcomes if isinstance(each, TooManyCalls)]
    assert all(1 <= each.seconds <= 60 for each in refused)
    counted = await column(database, "SELECT calls FROM key_use ORDER BY minute")
    assert sum(counted) == 50
    # The minute may turn in between: then each minute has let its twenty pass.
    assert len(refused) == sum(max(0, calls - 20) for calls in counted)
    assert await api_keys.authenticate(database, other) is not None


async def test_counts_of_past_minutes_are_forgotten(database: Database) -> None:
    """The sweep takes away counts of minutes that are over, and leaves the present one."""
    secret = await make(database)
    await api_keys.authenticate(database, secret)
    await write(database, "UPDATE key_use SET minute = minute - interval '10 minutes'")
    await api_keys.authenticate(database, secret)
    await api_keys.forget_uses(database)
    assert await column(database, "SELECT calls FROM key_use") == [1]


async def test_the_list_shows_all_and_no_secret(database: Database) -> None:
    """Keys are listed oldest first, revoked ones too, with how they begin."""
    secret = await make(database, expires_at=datetime.now(UTC) + timedelta(days=1))
    await make(database, "erp")
    await api_keys.revoke(database, "erp", by="cli:test")
    crm, erp = await api_keys.list_keys(database)
    assert (crm.name, crm.prefix, crm.revoked_at) == ("crm", secret[: api_keys.SHOWN], None)
    assert erp.revoked_at is not None
