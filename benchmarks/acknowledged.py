"""Row 7: how soon Slack hears that a click has arrived, at fifty clicks a second, against Bolt with nothing to do."""

from __future__ import annotations

from benchmarks.clicks import Sender, free_port, serving
from benchmarks.ground import Ground
from benchmarks.report import Line, median, quantile
from benchmarks.side import Side
from benchmarks.waiting import seed
from slack_sandbox import SlackSandbox

PER_SECOND = 50.0
WARM = 20


async def lines(ground: Ground, slack: SlackSandbox, *, rounds: int, clicks: int) -> list[Line]:
    """Rounds take turns; the next begins when all tools of the last have started."""
    url = ground.fresh("bench_acks")
    rows = iter(await seed(url, slack, WARM + rounds * clicks))
    port = free_port()
    ours: list[float] = []
    floor: list[float] = []
    refused = 0
    arguments = (str(port), slack.api_url, slack.signing_secret)
    async with (
        Side("benchmarks.bolt_side", ground.home / "bolt.log", *arguments) as side,
        serving(url, slack, ground.home) as clicker,
    ):
        bolt = Sender(slack, await side.ask("port"))
        warm = [next(rows) for _ in range(WARM)]
        await bolt.paced(warm, PER_SECOND)  # Bolt first, always: what we have decided has no buttons any more
        await clicker.press(warm, at_once=1)
        for _ in range(rounds):
            batch = [next(rows) for _ in range(clicks)]
            floor += [ms for _, ms in await bolt.paced(batch, PER_SECOND)]
            answered = await clicker.paced(batch, PER_SECOND)
            ours += [ms for _, ms in answered]
            done = [row for row, (status, _) in zip(batch, answered, strict=True) if status == 200]
            refused += len(batch) - len(done)
            await clicker.started(done)
    limit = quantile(floor, 0.99) + 100
    p99 = quantile(ours, 0.99)
    return [
        Line(
            7,
            f"acknowledged, {PER_SECOND:.0f} clicks a second ({len(ours)})",
            f"p99 <= {limit:.0f} ms",
            f"p50 {median(ours):.1f} ms, p99 {p99:.1f} ms, worst {max(ours):.0f} ms, {refused} refused",
            f"bare Bolt: p50 {median(floor):.1f} ms, p99 {quantile(floor, 0.99):.1f} ms",
            median(floor) / median(ours),
            p99 <= limit and not refused,
            {"ours": ours, "bolt": floor},
        )
    ]
