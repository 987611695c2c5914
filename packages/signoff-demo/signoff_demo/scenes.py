"""Each scene acts through people's interfaces and checks the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from signoff_demo.actors import Actors, ephemeral_text
from signoff_demo.examples import shop
from signoff_demo.guide import CRASH
from signoff_demo.guided_policy import ALLOW, BOUND, GRANT, ORDERS, TIDY
from signoff_demo.guided_scenes import APPROVE, FUNCTION, REJECT, SMALL, TWO_CALLS
from signoff_demo.rules import SECONDS_AUTO
from signoff_demo.scene import Scene
from slackbot.cards import ACTION_ALLOW_SIMILAR, ACTION_APPROVE, ACTION_REJECT, ACTION_REVOKE
from slackbot.cards.grant_entry import INPUT, PREFIX

GENERAL = "C0GENERAL"  # two alternating channels: each takes one message a second
DONE = "has been made"
BACK_SECONDS = 60.0  # a service restart on a busy machine


async def small(scene: Scene, actors: Actors) -> None:
    """Below the limit no approval is needed."""
    run = await actors.ask("please refund order 2", where=GENERAL)
    await scene.see("order 2 (389.00)", "REFUNDED", lambda: actors.status(2))
    await scene.see("the agent tells Ada", True, lambda: DONE in actors.said(run))
    scene.note("cards about it", 0, len(actors.cards(2)))


async def approve(scene: Scene, actors: Actors) -> None:
    """Above the limit only the reviewers decide; meanwhile the chat continues."""
    run = await actors.ask("please refund order 7")
    await scene.see("cards about order 7 (1,249.50)", 1, lambda: len(actors.cards(7)))
    await scene.see("requests that wait", 1, actors.waiting)
    await scene.see("order 7", "PENDING_REFUND", lambda: actors.status(7))
    actors.ada.say(run["channel"], "what is the status of order 7?", run["ts"])
    await scene.see(
        "the chat continues: it reports the status", True, lambda: "PENDING_REFUND" in actors.said(run)
    )
    refused = await actors.ada.click(actors.card(7), ACTION_APPROVE)
    await scene.see(
        "Ada's own click is refused", True, lambda: "not among the reviewers" in ephemeral_text(refused)
    )
    await actors.grace.click(actors.card(7), ACTION_APPROVE)
    await scene.see("order 7 after Grace's click", "REFUNDED", lambda: actors.status(7))
    await scene.see("attempts to run the refund", 1, lambda: actors.attempts(7))
    await scene.see("buttons left on the card", ["Details"], lambda: actors.buttons(7))
    await scene.see("the agent tells Ada", True, lambda: DONE in actors.said(run))


async def reject(scene: Scene, actors: Actors) -> None:
    """A price that the user states and the model repeats changes nothing; the agent receives a rejection's reason."""
    run = await actors.ask("please refund order 5, it costs only 5.00", by=actors.grace, where=GENERAL)
    await scene.see("cards about order 5", 1, lambda: len(actors.cards(5)))
    scene.note("the card shows the shop's price", True, "1,899.00" in str(actors.card(5)))
    await scene.see("order 5", "PENDING_REFUND", lambda: actors.status(5))
    refused = await actors.grace.click(actors.card(5), ACTION_APPROVE)
    await scene.see(
        "Grace asked, so her click is refused", True, lambda: "You asked" in ephemeral_text(refused)
    )
    await actors.linus.click(actors.card(5), ACTION_REJECT)
    await scene.see("the form for the reason", 1, lambda: len(actors.env.slack.views("U0LINUS")))
    form = actors.env.slack.views("U0LINUS")[-1]
    await actors.linus.submit(form, {"signoff:reason_input": "Bought in another shop"})
    await scene.see("order 5 after Linus's click", "REFUND_REJECTED, rejected", lambda: actors.status(5))
    await scene.see("the agent gets the reason", True, lambda: "another shop" in actors.said(run))
    scene.note("attempts to run the refund", 0, await actors.attempts(5))


async def expire(scene: Scene, actors: Actors) -> None:
    """Without a decision in time nothing runs, and it does not count as a rejection."""
    run = await actors.ask("please refund order 8")
    await scene.see("cards about order 8 (7,320.00)", 1, lambda: len(actors.cards(8)))
    await scene.see("order 8", "PENDING_REFUND", lambda: actors.status(8))
    late = actors.card(8)
    await scene.see(
        "order 8 after its deadline",
        "REFUND_REJECTED, expired",
        lambda: actors.status(8),
        within=SECONDS_AUTO + 10,
    )
    await scene.see("buttons left on the card", ["Ask again", "Details"], lambda: actors.buttons(8))
    await scene.see("the agent tells Ada", True, lambda: "expired" in actors.said(run).lower())
    refused = await actors.grace.click(late, ACTION_APPROVE, stale=True)
    await scene.see("a late click is refused", True, lambda: "too late" in ephemeral_text(refused))
    scene.note("the request stays", "expired", (await actors.request(8)).status.value)


async def kill(scene: Scene, actors: Actors) -> None:
    """`kill -9` after the decision and before the refund: the restarted service makes the refund, once."""
    service = actors.env.service
    run = await actors.ask("please refund order 6", where=GENERAL)
    await scene.see("cards about order 6 (2,450.00)", 1, lambda: len(actors.cards(6)))
    await scene.see("order 6", "PENDING_REFUND", lambda: actors.status(6))
    # The price is looked up again before the refund. Closing the shop blocks that, so the moment is
    # deterministic.
    async with shop.closed():
        await actors.grace.click(actors.card(6), ACTION_APPROVE)
        scene.note("the request after Grace's click", "waiting", (await actors.request(6)).status.value)
        await actors.linus.click(actors.card(6), ACTION_APPROVE)
        scene.note("the request after Linus's as well", "approved", (await actors.request(6)).status.value)
        scene.note("attempts to run the refund", 0, await actors.attempts(6))
        await scene.see("Slack is up to date and quiet", True, actors.quiet)
        actors.env.slack.levers[CRASH]()
        await scene.see("the service was killed by signal", [9], lambda: [-code for code in service.endings])
    scene.note("order 6 while the service is down", "PENDING_REFUND", await actors.status(6))
    await scene.see("order 6 after the restart", "REFUNDED", lambda: actors.status(6), within=BACK_SECONDS)
    await scene.see("buttons left on the card", ["Details"], lambda: actors.buttons(6), within=BACK_SECONDS)
    await scene.see("the agent tells Ada", True, lambda: DONE in actors.said(run), within=BACK_SECONDS)
    scene.note("attempts to run the refund in total", 1, await actors.attempts(6))


async def manage(scene: Scene, actors: Actors) -> None:
    """Two calls of one turn are decided separately."""
    words = 'delete 50 old records from the users table, and send notification recipient=ops message="tidied"'
    run = await actors.ask(words, where=GENERAL, agent="data_manager")
    await scene.see(
        "cards about the deletion", 1, lambda: len(actors.cards_with("Delete 50 records from “users”"))
    )
    await scene.see("cards about the notification", 1, lambda: len(actors.cards_with("send_notification")))
    await actors.grace.click(actors.cards_with("Delete 50 records from “users”")[-1], ACTION_APPROVE)
    await actors.linus.click(actors.cards_with("send_notification")[-1], ACTION_REJECT)
    await scene.see("the form for the reason", 1, lambda: len(actors.env.slack.views("U0LINUS")))
    await actors.linus.submit(
        actors.env.slack.views("U0LINUS")[-1], {"signoff:reason_input": "Nobody needs to know"}
    )
    await scene.see("what was approved was done", True, lambda: "Deleted 50 records" in actors.said(run))
    await scene.see("the agent gets the reason", True, lambda: "Nobody needs to know" in actors.said(run))
    scene.note("what was rejected was done", False, "Sent notification" in actors.said(run))


async def durable(scene: Scene, actors: Actors) -> None:
    """A plain function asks between two steps, and continues after the decision."""
    run = await actors.ask("move house", agent="durable-task")
    question = "Should I proceed with task: move house?"
    await scene.see("cards with its question", 1, lambda: len(actors.cards_with(question)))
    await actors.grace.click(actors.cards_with(question)[-1], ACTION_APPROVE)
    await scene.see("it went on to its end", True, lambda: "Agent successful: move house" in actors.said(run))


async def allow(scene: Scene, actors: Actors) -> None:
    """One approval covers further calls within its bounds, until it is revoked."""
    await actors.ask(TIDY.format(count=20), agent="data_manager")
    await scene.see("cards about it", 1, lambda: len(actors.cards_with("Delete 20 records")))
    await actors.grace.click(actors.cards_with("Delete 20 records")[-1], ACTION_ALLOW_SIMILAR)
    await scene.see("the form", 1, lambda: len(actors.env.slack.views("U0GRACE")))
    await actors.grace.submit(
        actors.env.slack.views("U0GRACE")[-1], {f"{PREFIX}:field:0/{INPUT}": "1 .. 100"}
    )
    await scene.see("its preview", True, lambda: "May differ" in str(actors.env.slack.views("U0GRACE")))
    await actors.grace.submit(actors.env.slack.views("U0GRACE")[-1])
    await scene.see("cards of the grant", 1, lambda: len(actors.cards_with(GRANT)))
    run = await actors.ask(TIDY.format(count=30), agent="data_manager")
    await scene.see("the next one runs", True, lambda: "Deleted 30 records" in actors.said(run))
    scene.note("cards about that", 0, len(actors.cards_with("Delete 30 records")))
    await actors.grace.click(actors.cards_with(GRANT)[-1], ACTION_REVOKE)
    await scene.see("the grant has ended", True, lambda: "revoked" in str(actors.cards_with(GRANT)[-1]))


async def bound(scene: Scene, actors: Actors) -> None:
    """Once a limit is used up, people are asked about calls that would otherwise run."""
    run = await actors.ask("list all orders", where=GENERAL)
    await scene.see("the first time it runs without asking", True, lambda: "PAID" in actors.said(run))
    scene.note("cards about it", 0, len(actors.cards_with(ORDERS)))
    await actors.ask("list all orders", where=GENERAL)
    await scene.see("cards about the second time", 1, lambda: len(actors.cards_with(ORDERS)))
    scene.note(
        "the card gives the reason", True, "1 of 1 calls used in 24h" in str(actors.cards_with(ORDERS)[-1])
    )
    await actors.grace.click(actors.cards_with(ORDERS)[-1], ACTION_APPROVE)
    await scene.see("its card", True, lambda: actors.cards_with(ORDERS)[-1]["text"].startswith("Approved"))


GUIDED = [each.title for each in (APPROVE, SMALL, REJECT, TWO_CALLS, FUNCTION, ALLOW, BOUND)]
"""The guide's scenes that this play completes."""

Act = Callable[[Scene, Actors], Awaitable[None]]

PLAY: tuple[tuple[tuple[str, Act], ...], ...] = (
    (("A small refund happens at once", small), ("Approve", approve)),
    (("Reject, with a model that repeats a false price", reject), ("Expire", expire)),
    (("Two calls, one approved and one rejected", manage), ("A task without a model", durable)),
    (("Allow the next ones", allow), ("A limit over time", bound)),
    (("kill -9 between decision and refund", kill),),
)
"""Scenes in one group are independent and run concurrently."""
