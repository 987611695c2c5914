"""What goes first in a process."""

from __future__ import annotations

import asyncio

from agent.database.precedence import Precedence, Rank


async def test_lower_ranks_wait_until_a_person_has_been_served() -> None:
    """Model turns, sweeps and background work begin when nothing before them is in progress any more."""
    precedence, began = Precedence(dict.fromkeys(Rank, 3600)), list[Rank]()

    async def begin(rank: Rank) -> None:
        await precedence.give_way(rank)
        began.append(rank)

    with precedence.at_work(Rank.SWEEP):
        with precedence.at_work(Rank.PERSON), precedence.at_work(Rank.PERSON):
            tasks = [asyncio.create_task(begin(rank)) for rank in Rank]
            await asyncio.sleep(0)
            assert began == [Rank.PERSON]
        await asyncio.wait(tasks[1:3], return_when=asyncio.ALL_COMPLETED)
        assert began == [Rank.PERSON, Rank.TURN, Rank.SWEEP]
    await asyncio.gather(*tasks)
    assert began == list(Rank)


async def test_nothing_waits_for_ever() -> None:
    """The last in order is slowed down by those before it, and never stopped."""
    precedence = Precedence(dict.fromkeys(Rank, 0.001))
    with precedence.at_work(Rank.PERSON):
        await precedence.give_way(Rank.BACKGROUND)
