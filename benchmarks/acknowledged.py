from __future__ import annotations

from benchmarks.clicks import Sender, free_port, serving
from benchmarks.report import Line
from benchmarks.setting import Setting
from benchmarks.side import Side
from benchmarks.stats import Rounds, median, p99, pooled, ratio
from benchmarks.waiting import seed

PER_SECOND = 50.0
WARM = 20


async def row_7(setting: Setting) -> list[Line]:
    """Clicks at a steady pace. Rounds alternate; the next begins when all tools of the last have started."""
    rounds, clicks, slack, ground = setting.size.rounds, setting.size.paced, setting.slack, setting.ground
    url = ground.fresh("bench_acks")
    rows = iter(await seed(url, slack, WARM + rounds * clicks))
    port = free_port()
    ours: Rounds = []
    floor: Rounds = []
    refused = 0
    arguments = (str(port), slack.api_url, slack.signing_secret)
    async with (
        Side("benchmarks.bolt_side", ground.home / "bolt.log", *arguments) as side,
        serving(url, slack, ground.home) as clicker,
    ):
        bolt = Sender(slack, await side.ask("port"))
        warm = [next(rows) for _ in range(WARM)]
        await bolt.paced(warm, PER_SECOND)  # Bolt first: decided requests have no buttons any more
        await clicker.press(warm, at_once=1)
        for _ in range(rounds):
            batch = [next(rows) for _ in range(clicks)]
            floor.append([ms for _, ms in await bolt.paced(batch, PER_SECOND)])
            answered = await clicker.paced(batch, PER_SECOND)
            ours.append([ms for _, ms in answered])
            done = [row for row, (status, _) in zip(batch, answered, strict=True) if status == 200]
            refused += len(batch) - len(done)
            await clicker.started(done)
    every, least = pooled(ours), pooled(floor)
    limit = p99(least) + 100
    return [
        Line(
            7,
            f"acknowledged, {PER_SECOND:.0f} clicks a second ({len(every)})",
            f"p50 {median(every):.1f} ms, p99 {p99(every):.1f} ms, worst {max(every):.0f} ms, {refused} refused",
            f"bare Bolt: p50 {median(least):.1f} ms, p99 {p99(least):.1f} ms",
            ratio(ours, floor, median),
            f"p99 <= {limit:.0f} ms (Bolt + 100)",
            p99(every) <= limit and not refused,
            {"ours": ours, "bolt": floor},
        )
    ]
