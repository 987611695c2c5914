from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent.database.pools import Database
from agent.usecases import audit
from signoff_demo import evidence
from signoff_demo.actors import Actors
from signoff_demo.environment import DemoEnvironment
from signoff_demo.examples import shop
from signoff_demo.examples.shop import Order
from signoff_demo.sandbox import NotOnScreen
from signoff_demo.scene import Check, Scene, SceneFailed
from signoff_demo.scenes import GUIDED, PLAY, Act


async def play(env: DemoEnvironment, console: Console) -> int:
    """Returns 0 if all was as expected."""
    began = datetime.now(UTC)
    scenes: list[Scene] = []
    async with Database(env.database_url, application_name="signoff demo") as db:
        actors = Actors(env, db)
        for acts in PLAY:
            scenes += await _together(actors, console, acts, len(scenes) + 1)
        scenes += await _together(
            actors, console, (("The audit log and the guide agree", _audit(db)),), len(scenes) + 1
        )
        async with db.connection() as connection:
            postgresql = str((await connection.exec_driver_sql("SHOW server_version")).scalar_one())
    orders = await shop.orders()
    console.print(_table(orders))
    found = evidence.gather_evidence(env, scenes, orders, postgresql, began)
    path = evidence.write(env.workdir.evidence, found, began)
    _end(console, env, found["ok"], found["seconds"])
    console.print(f"evidence: {path}")
    return 0 if found["ok"] else 1


async def _together(
    actors: Actors, console: Console, acts: Sequence[tuple[str, Act]], number: int
) -> list[Scene]:
    programmes = [_Programme(console) for _ in acts]
    scenes = [Scene(title, page.show) for (title, _), page in zip(acts, programmes, strict=True)]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_run(act, scene, actors)) for (_, act), scene in zip(acts, scenes, strict=True)
        ]
        for scene, page, task in zip(scenes, programmes, tasks, strict=True):
            page.open(f"\n[bold]{number + scenes.index(scene)}. {escape(scene.title)}[/]")
            await task
    return scenes


async def _run(act: Act, scene: Scene, actors: Actors) -> None:
    began = time.monotonic()
    with suppress(SceneFailed):
        try:
            await act(scene, actors)
        except (TimeoutError, NotOnScreen, LookupError) as error:
            scene.note("played to its end", "yes", f"{type(error).__name__}: {error}")
    scene.seconds = time.monotonic() - began


def _audit(db: Database) -> Act:
    """Verify the audit log as `signoff audit verify` does, and compare the ticks of the guide."""

    async def act(scene: Scene, actors: Actors) -> None:
        events, problems = await audit.find_problems(db)
        scene.note("events in the audit log", True, events > 0)
        scene.note("breaks in its chain", [], [str(each) for each in problems])
        scene.note("scenes ticked in the guide", GUIDED, actors.env.guide.finished(actors.env.slack))

    return act


class _Programme:
    """One scene's output, buffered until its turn."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._kept: list[str] | None = []

    def open(self, heading: str) -> None:
        for line in (heading, *(self._kept or ())):
            self._console.print(line)
        self._kept = None

    def show(self, check: Check) -> None:
        mark = "[green]✓[/]" if check.ok else "[red]✗[/]"
        rest = "" if check.ok else f", expected {_plain(check.expected)}"
        took = f"  [dim]{check.seconds:.2f} s[/]" if check.seconds >= 0.01 else ""
        line = f"  {mark} {escape(f'{check.what}: {_plain(check.observed)}{rest}')}{took}"
        if self._kept is None:
            self._console.print(line)
        else:
            self._kept.append(line)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _table(orders: list[Order]) -> Table:
    table = Table("order", "item", title="\nThe orders at the end", title_justify="left")
    table.add_column("price", justify="right")
    table.add_column("status")
    table.add_column("cause")
    for each in orders:
        cells = (each.item, f"{each.price:,.2f}", each.status, each.cause or "")
        table.add_row(str(each.order_id), *map(escape, cells))
    return table


def _end(console: Console, env: DemoEnvironment, ok: bool, seconds: float) -> None:
    if ok:
        console.print(f"[green]✓[/] all as expected, in {seconds:.1f} s")
        return
    console.print("[red]✗[/] not everything was as expected; the end of the service's log:")
    for line in env.service.tail(30):
        console.print(f"  {escape(line)}")
