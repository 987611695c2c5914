"""Another version beside this one on one database: as while an installation is upgraded process by process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from pathlib import Path

import pytest

from agent.database import migrations
from agent.usecases import audit
from tests.integration import next_revision
from tests.integration.crash.other_version import OtherServe, invent_next, unpack
from tests.integration.crash.process import Serve
from tests.integration.crash.street import CHECKPOINT, Street, street, until

LANES = 8
TWO = "approvals_required = 2\n"
VOTED = "SELECT 1 FROM vote AS v JOIN approval_request AS r ON r.id = v.request_id WHERE r.channel_id = :lane"


@pytest.mark.stress
async def test_an_older_worker_beside_this_one(database_url: str, tmp_path: Path) -> None:
    """Both vote, judge, claim and report on the same requests: nothing is lost or done twice. Or the older refuses."""
    if unpack(tree := tmp_path / "older") is None:
        pytest.skip("the history of this checkout has no version before")
    await _beside(database_url, tmp_path, tree, may_refuse=True)


@pytest.mark.stress
async def test_this_worker_beside_a_newer_one(database_url: str, tmp_path: Path) -> None:
    """The same while the next version is rolled out: its revision is made up, additive, and works with this one."""
    invent_next(tree := tmp_path / "newer")
    with next_revision.code_with(tree / "alembic"):
        migrations.upgrade(database_url)
    await _beside(database_url, tmp_path, tree)


async def _beside(database_url: str, tmp_path: Path, tree: Path, *, may_refuse: bool = False) -> None:
    async with street(database_url, tmp_path, lanes=LANES) as here:
        rules = (CHECKPOINT.format(lane=n) + (TWO if n % 2 else "") for n in range(LANES))
        (tmp_path / "checkpoints.toml").write_text("".join(rules))
        other = OtherServe(here.serve.settings, tmp_path, tree=tree)
        try:
            await here.start()
            await other.start(may_end=may_refuse)
            if not other.alive:
                assert len(other.lines) == 1, other.said()
                return
            await _work(here, other)
            assert await other.stop() == 0, other.said()
        finally:
            await other.kill()
        await here.settle_all()
        await here.check()
        assert len(await here.column("SELECT DISTINCT worker FROM execution")) == 2
        _, problems = await audit.find_problems(here.db)
        assert problems == []


async def _work(here: Street, other: OtherServe) -> None:
    """Half of the runs begin in each version, and each request that takes two people gets one vote in each."""
    ways = (here.serve, other)
    for turn, way in enumerate(ways):
        await _through(here, way, (_ask(here, lane) for lane in range(LANES) if lane // 2 % 2 == turn))
    await asyncio.gather(*(here.card(lane, 60.0) for lane in range(LANES)))
    for turn, (way, person) in enumerate(zip(ways, ("U0GRACE", "U0LINUS"), strict=True)):
        alone = (lane for lane in range(0, LANES, 2) if lane // 4 % 2 == turn)
        await _through(here, way, (_approve(here, lane, person) for lane in (*alone, *range(1, LANES, 2))))


async def _through(here: Street, way: Serve, acts: Iterable[Awaitable[object]]) -> None:
    """Slack sends what people do to this process."""
    here.slack.request_url = f"http://127.0.0.1:{way.port}/slack/events"
    await asyncio.gather(*acts)


async def _ask(here: Street, lane: int) -> None:
    await here.begin(lane, 60.0)


async def _approve(here: Street, lane: int, person: str) -> None:
    """Approve until the vote counts: a look-up may take too long on a busy machine."""

    async def counts() -> bool:
        answer = await here.slack.person(person).click(await here.card(lane), "signoff:approve")
        return answer.error is None and len(await here.column(VOTED, lane=f"C0LANE{lane}")) > 0

    await until(counts, 30.0)
    here.approved.add(lane)
