"""`signoff demo --auto`: the scenes one after another, what came of them, and the proof on disk."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent import record
from agent.examples import shop
from agent.examples.shop import Order
from agent.store.database import Database
from slackbot.demo import evidence
from slackbot.demo.desk import Desk
from slackbot.demo.scene import Check, Scene, SceneFailed
from slackbot.demo.scenes import SCENES
from slackbot.demo.stand import Stand
from slackbot.sandbox import NotOnScreen


async def play(stand: Stand, console: Console) -> int:
    """Play everything, print it, keep the evidence. Returns the exit code: 0 when all was as expected."""
    began = datetime.now(UTC)
    scenes: list[Scene] = []
    async with Database(stand.database_url, application_name="signoff demo") as db:
        desk = Desk(stand, db)
        for title, act in SCENES:
            scene = _opened(scenes, console, title)
            started = time.monotonic()
            try:
                with suppress(SceneFailed):
                    await act(scene, desk)
            except (TimeoutError, NotOnScreen, LookupError) as error:
                _broken_off(scene, error)
            scene.seconds = time.monotonic() - started
        await _audit(_opened(scenes, console, "The record holds"), db)
        async with db.connection() as connection:
            postgresql = str((await connection.exec_driver_sql("SHOW server_version")).scalar_one())
    orders = await shop.orders()
    console.print(_table(orders))
    found = evidence.gathered(stand, scenes, orders, postgresql, began)
    path = evidence.write(stand.folder.evidence, found, began)
    _end(console, stand, found["ok"], found["seconds"])
    console.print(f"evidence: {path}")
    return 0 if found["ok"] else 1


def _opened(scenes: list[Scene], console: Console, title: str) -> Scene:
    def show(check: Check) -> None:
        mark = "[green]✓[/]" if check.ok else "[red]✗[/]"
        rest = "" if check.ok else f", expected {_plain(check.expected)}"
        took = f"  [dim]{check.seconds:.2f} s[/]" if check.seconds >= 0.01 else ""
        console.print(f"  {mark} {escape(f'{check.what}: {_plain(check.observed)}{rest}')}{took}")

    console.print(f"\n[bold]{len(scenes) + 1}. {escape(title)}[/]")
    scenes.append(Scene(title, show))
    return scenes[-1]


def _broken_off(scene: Scene, error: Exception) -> None:
    with suppress(SceneFailed):
        scene.note("played to its end", "yes", f"{type(error).__name__}: {error}")


async def _audit(scene: Scene, db: Database) -> None:
    """Every chain of the record, verified as `signoff audit verify` does."""
    started = time.monotonic()
    events, problems = await record.problems(db)
    with suppress(SceneFailed):
        scene.note("events in the record", True, events > 0)
        scene.note("places where its chain does not hold", [], [str(each) for each in problems])
    scene.seconds = time.monotonic() - started


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


def _end(console: Console, stand: Stand, ok: bool, seconds: float) -> None:
    if ok:
        console.print(f"[green]✓[/] all as expected, in {seconds:.1f} s")
        return
    console.print("[red]✗[/] not everything was as expected; the end of the service's log:")
    for line in stand.service.tail(30):
        console.print(f"  {escape(line)}")
