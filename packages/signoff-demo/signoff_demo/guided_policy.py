from __future__ import annotations

from signoff_demo.guide import ADA, AGENTS, GRACE, REPLAY, Scene, Step
from signoff_demo.guided_steps import on_card, run_as_ada
from signoff_demo.replay import JUDGED_AGAIN

TIDY = "delete {count} old records from the sessions table"
GRANT = "Allow similar calls of delete_records"
ORDERS = "list_orders"

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
            "As *Grace*, press *Approve and allow similar…*. Write `1 .. 100` for *args.count*; *Preview*, *Save*.",
            lambda seen: seen.is_card(GRANT, "Approved"),
            "Show Grace the card",
            {"as": GRACE},
            lambda seen: seen.card("Delete 20 records"),
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
        ),
    ],
    "The second deletion asked nobody, and the next one will ask again.",
    TIDY.format(count=30),
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
            "As *Ada*, read them once more. Now people are asked.",
            lambda seen: bool(seen.cards(ORDERS)),
            "Ask again as Ada",
            run_as_ada("/agent run refunds list all orders"),
        ),
        on_card("As *Grace*, press *Approve*. The card shows the use.", GRACE, ORDERS, "Approved"),
    ],
    "Approved calls count as well, and no limit refuses them.",
    "list all orders",
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
