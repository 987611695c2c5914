"""The steps of the guide about policy: try one, and put it into force."""

from __future__ import annotations

from signoff_demo.actors import ADA, AGENTS, GRACE, Actors, Message
from signoff_demo.guide import REPLAY, Proof, Scene, Step
from signoff_demo.guided_steps import on_card, run_as_ada
from signoff_demo.replay import JUDGED_AGAIN
from slackbot.cards import ACTION_ALLOW_SIMILAR, ACTION_REVOKE
from slackbot.cards.grant_form import INPUT, PREFIX

TIDY = "delete {count} old records from the sessions table"
GRANT = "Allow similar calls of delete_records"
ORDERS = "list_orders"


async def _allow(actors: Actors, card: Message) -> None:
    await actors.choose(GRACE, card, ACTION_ALLOW_SIMILAR)
    await actors.fill_in(GRACE, {f"{PREFIX}:field:0/{INPUT}": "1 .. 100"})
    await actors.slack.wait_for(lambda: "May differ" in str(actors.slack.views(GRACE)))  # the preview
    await actors.fill_in(GRACE, {})


ALLOW = Scene(
    "Allow the next ones",
    "The sessions table is cleaned up every day. One approval can cover the next calls, within bounds that people set.",
    [
        Step(
            "As *Ada*, ask for 20 records to be deleted.",
            lambda seen: bool(seen.cards("Delete 20 records")),
            "Ask as Ada",
            run_as_ada(f"/agent run data_manager {TIDY.format(count=20)}"),
        ),
        Step(
            "As *Grace*, press *More…*, *Approve and allow similar…*. Write `1 .. 100` for *args.count*; then "
            "*Preview*, *Save*.",
            lambda seen: seen.is_card(GRANT, "Approved"),
            "Show Grace the card",
            {"as": GRACE},
            lambda seen: seen.card("Delete 20 records"),
            _allow,
        ),
        Step(
            "As *Ada*, ask for 30 more.",
            lambda seen: seen.said(TIDY.format(count=30), "Deleted 30 records"),
            "Ask as Ada",
            run_as_ada(f"/agent run data_manager {TIDY.format(count=30)}"),
        ),
        Step(
            "As *Grace*, press *Revoke* on the card of what she allowed.",
            lambda seen: seen.shows(GRANT, "revoked"),
            "Show Grace the card",
            {"as": GRACE},
            lambda seen: seen.card(GRANT),
            lambda actors, card: actors.slack.person(GRACE).click(card, ACTION_REVOKE),
        ),
    ],
    "The second deletion asked nobody, and the next one will ask again.",
    TIDY.format(count=30),
    [Proof("cards about the second deletion", 0, lambda actors: len(actors.cards("Delete 30 records")))],
)

BOUND = Scene(
    "Limit what runs without approval",
    "Reading all orders needs no approval. A limit lets each person do it once a day.",
    [
        Step(
            "As *Ada*, read all orders.",
            lambda seen: seen.said("list all orders", "PAID"),
            "Ask as Ada",
            run_as_ada("/agent run refunds list all orders"),
        ),
        Step(
            "As *Ada*, read them once more. Now people are asked, and the card says why.",
            lambda seen: seen.shows(ORDERS, "1 of 1 calls used in 24h"),
            "Ask again as Ada",
            run_as_ada("/agent run refunds list all orders"),
        ),
        on_card("As *Grace*, press *Approve*. The card shows the use.", GRACE, ORDERS, "Approved"),
    ],
    "Approved calls count as well, and no limit refuses them.",
    "list all orders",
    [
        Proof("cards, of two readings", 1, lambda actors: len(actors.cards(ORDERS))),
    ],
)

TRY = Scene(
    "Try another policy",
    "Every policy evaluation is stored. What would a policy have asked that requires approval above 300.00?",
    [
        Step(
            "Run `signoff check replay` with that policy. It changes nothing.",
            lambda seen: seen.is_in_channel(JUDGED_AGAIN),
            "Replay",
            {"as": ADA, "channel": AGENTS, "lever": REPLAY},
        )
    ],
    "The result is in #agents: what would have been asked, and how people decided.",
)
