"""`signoff demo --auto`: press the guide's own buttons, and check its ticks."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Awaitable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

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
from signoff_demo.guide import Guide, Scene, Step
from signoff_demo.played import LOOK_SECONDS, Check, PlayedScene, SceneFailed
from signoff_demo.sandbox import NotOnScreen


async def play(env: DemoEnvironment, console: Console) -> int:
    """Returns 0 if all was as expected."""
    began = datetime.now(UTC)
    scenes: list[PlayedScene] = []
    async with Database(env.database_url, application_name="signoff demo") as db:
        actors = Actors(env.slack, db)
        for number, scene in enumerate(env.guide.scenes):
            played = _open(console, f"{number + 1}. {scene.title}")
            await _timed(played, _play_scene(env.guide, number, scene, actors, played))
            scenes.append(played)
        played = _open(console, "The audit log")
        await _timed(played, _verify(db, played))
        scenes.append(played)
        async with db.connection() as connection:
            postgresql = str((await connection.exec_driver_sql("SHOW server_version")).scalar_one())
    orders = await shop.orders()
    console.print(_table(orders))
    found = evidence.gather_evidence(env, scenes, orders, postgresql, began)
    path = evidence.write(env.workdir.evidence, found, began)
    _end(console, env, found["ok"], found["seconds"])
    console.print(f"evidence: {path}")
    return 0 if found["ok"] else 1


def _open(console: Console, heading: str) -> PlayedScene:
    def show(check: Check) -> None:
        mark = "[green]✓[/]" if check.ok else "[red]✗[/]"
        told = "" if check.expected is True and check.ok else f": {_plain(check.observed)}"
        rest = "" if check.ok else f", expected {_plain(check.expected)}"
        took = f"  [dim]{check.seconds:.2f} s[/]" if check.seconds >= 0.01 else ""
        console.print(f"  {mark} {escape(f'{check.what}{told}{rest}')}{took}")

    console.print(f"\n[bold]{escape(heading)}[/]")
    return PlayedScene(heading, show)


async def _timed(played: PlayedScene, work: Awaitable[None]) -> None:
    began = time.monotonic()
    with suppress(SceneFailed):
        try:
            await work
        except (TimeoutError, NotOnScreen, LookupError, OSError) as error:
            played.note("played to its end", "yes", f"{type(error).__name__}: {error}")
    played.seconds = time.monotonic() - began


async def _play_scene(guide: Guide, number: int, scene: Scene, actors: Actors, played: PlayedScene) -> None:
    for place, step in enumerate(scene.steps):

        def shown(place: int = place) -> dict[str, Any]:
            found: dict[str, Any] = guide(actors.slack)["scenes"][number]["steps"][place]
            return found

        await actors.slack.wait_for(lambda: not shown()["waits"], timeout=LOOK_SECONDS)
        await _press(actors, step, shown())
        await played.see(re.sub(r"[*`]", "", step.text), True, lambda: shown()["done"])
    for proof in scene.proofs:
        await played.see(proof.what, proof.expected, partial(proof.look, actors), proof.within)


async def _press(actors: Actors, step: Step, shown: dict[str, Any]) -> None:
    """Press the button as the page does, then do what the step asks for where the button leads."""
    person = actors.slack.person(shown["as"]) if "as" in shown else None
    if "lever" in shown:
        told = actors.slack.levers[shown["lever"]]()
        await told if inspect.isawaitable(told) else None
    elif person is None:
        raise LookupError(f"the step {step.text!r} has no button")
    elif shown.get("home"):
        person.open_home()
    elif "reply" in shown:
        person.say(shown["channel"], shown["reply"], shown["ts"])
    elif "command" in shown:
        command, _, text = shown["command"].partition(" ")
        await person.command(command, text, shown["channel"])
    if step.press is not None and (message := step.at and step.at(actors)):
        await step.press(actors, message)


async def _verify(db: Database, played: PlayedScene) -> None:
    """As `signoff audit verify` does."""
    events, problems = await audit.find_problems(db)
    played.note("it has events", True, events > 0)
    played.note("breaks in its chain", [], [str(each) for each in problems])


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
        console.print(f"[green]✓[/] all as expected, in {seconds:.1f} s\n\n[bold]What next[/]")
        for line in env.guide.following:
            console.print(f"  {escape(re.sub(r'[*`]', '', line))}")
        console.print()
        return
    console.print("[red]✗[/] not everything was as expected; the end of the service's log:")
    for line in env.service.tail(30):
        console.print(f"  {escape(line)}")
