"""How much delivering messages asks of the database: counted, not timed."""

from __future__ import annotations

from agent.store import outbox
from agent.usecases import deliveries
from tests.integration.asking import REVIEWS, TEAM, ask
from tests.integration.test_delivery import CHANNEL, POST, UPDATE, Office, office  # noqa: F401
from tests.statement_counter import counting


async def test_a_new_card(office: Office) -> None:  # noqa: F811
    """A card that is posted costs three statements: with nothing left in the channel, there is no look for more."""
    await ask(office.db)
    await office.tell_all()
    await ask(office.db)
    with counting() as counted:
        await office.tell()
    assert len(office.slack.calls_of(POST)) == 2
    assert len(counted.statements) == 3
    assert counted.transactions == 2


async def test_a_decided_card_and_its_line(office: Office) -> None:  # noqa: F811
    """The changed card costs three statements, and the line in its thread, which quotes nobody, two."""
    asked = await ask(office.db)
    await office.tell_all()
    await office.approve(asked)
    posted = len(office.slack.calls_of(POST))
    with counting() as counted:
        await office.tell()
    assert len(office.slack.calls_of(UPDATE)) == 1
    assert len(office.slack.calls_of(POST)) == posted + 1
    assert len(counted.statements) == 5
    assert counted.transactions == 3


async def test_ten_messages_in_a_busy_channel(office: Office) -> None:  # noqa: F811
    """Ten cards that change together cost three statements and one transaction each."""
    asked = [await ask(office.db) for _ in range(10)]
    await office.tell_all()
    for each in asked:
        await office.touch(each)
    with counting() as counted:
        await office.tell()
    assert len(office.slack.calls_of(UPDATE)) == 10
    assert len(counted.statements) == 30
    assert counted.transactions == 11


async def test_lines_that_wait_together(office: Office) -> None:  # noqa: F811
    """Lines of one thread are one message, and cost as much as one."""
    asked = await ask(office.db)
    await office.tell_all()
    async with office.db.transaction() as tx:
        outbox.enqueue(tx, [outbox.request_line(REVIEWS, asked.request_id, "reminder")] * 5)
    posted = len(office.slack.calls_of(POST))
    with counting() as counted:
        await office.tell()
    assert len(office.slack.calls_of(POST)) == posted + 1
    assert len(counted.statements) == 2


async def test_an_idle_round(office: Office) -> None:  # noqa: F811
    """A round that finds nothing is one statement outside any transaction; a channel with nothing due costs one."""
    await ask(office.db)
    await office.tell_all()
    with counting() as counted:
        assert CHANNEL not in await deliveries.channels_due(office.db, TEAM)
    assert (len(counted.statements), counted.transactions) == (1, 0)
    with counting() as counted:
        await office.tell()
    assert len(counted.statements) == 1


async def test_a_channel_that_rests(office: Office) -> None:  # noqa: F811
    """While neither a new message nor a change may be sent, the drain learns that another look would find nothing."""
    asked = await ask(office.db)
    await office.tell_all()
    await office.touch(asked)
    for posts, changes, rests in ((60, 60, True), (60, 0, False), (0, 60, False)):
        await office.execute(
            f"UPDATE outlet SET next_at = clock_timestamp() + interval '{posts} s',"
            f" next_update_at = clock_timestamp() + interval '{changes} s'"
        )
        look = await deliveries.take_next(office.db, REVIEWS, "test")
        assert look.rests is rests
        if look.due is not None:
            await deliveries.release(office.db, look.due)


async def test_nothing_is_read_while_the_pace_allows_nothing(office: Office) -> None:  # noqa: F811
    """After a line, while only lines wait, the channel is not read until the pace allows the next."""
    asked = [await ask(office.db) for _ in range(2)]
    await office.tell_all()
    async with office.db.transaction() as tx:
        outbox.enqueue(tx, [outbox.request_line(REVIEWS, each.request_id, "reminder") for each in asked])
    with counting() as counted:
        await office.drain(pace=60.0).run(TEAM, CHANNEL)
    assert len(office.slack.calls_of(POST)) == 3
    assert len(counted.statements) == 2
    assert await office.pending() == 1


async def test_a_change_does_not_wait_for_the_pace_of_new_messages(office: Office) -> None:  # noqa: F811
    """A new message and a change go one right after the other; then neither pace allows more, and nothing is read."""
    asked = await ask(office.db)
    await office.tell_all()
    for _ in range(2):
        await ask(office.db)
    await office.touch(asked)
    with counting() as counted:
        await office.drain(pace=60.0).run(TEAM, CHANNEL)
    assert len(office.slack.calls_of(POST)) == 2
    assert len(office.slack.calls_of(UPDATE)) == 1
    assert len(counted.statements) == 6
    assert await office.pending() == 1
