from __future__ import annotations

from signoff_demo.guide import ADA, CRASH, GRACE, LINUS, REVIEWS, Guide, Scene, Step
from signoff_demo.guided_policy import ALLOW, BOUND, TRY
from signoff_demo.guided_steps import on_card, open_inbox, run_as_ada
from signoff_demo.rules import SECONDS

MANAGER = (
    "/agent run data_manager delete 50 old records from the users table, and send notification "
    'recipient=ops message="the users table was tidied"'
)
DELETION, NOTIFICATION = "Delete 50 records", "send_notification"
MOVE = "move house"


def _task(order: int) -> str:
    return f"please refund order {order}"


def _card(order: int) -> str:
    return f"for order {order}"


def _ask(order: int) -> Step:
    return Step(
        f"As *Ada*, ask the agent to refund order {order}.",
        lambda seen: bool(seen.cards(_card(order))),
        "Ask as Ada",
        run_as_ada(f"/agent run refunds {_task(order)}"),
    )


APPROVE = Scene(
    "Approve a refund",
    "Refunds above 1,000.00 need approval. Order 7 cost 1,249.50.",
    [
        _ask(7),
        on_card("As *Grace*, press *Approve* on the card.", GRACE, _card(7), "Approved"),
    ],
    "Approved, and refunded. The agent told Ada in the thread of its run.",
    _task(7),
)

SMALL = Scene(
    "Refund without approval",
    "Order 2 cost 389.00, which is below the limit.",
    [
        Step(
            "As *Ada*, ask the agent to refund order 2.",
            lambda seen: seen.said(_task(2), "has been made"),
            "Ask as Ada",
            run_as_ada(f"/agent run refunds {_task(2)}"),
        )
    ],
    "Refunded at once. Nobody was asked.",
    _task(2),
)

REJECT = Scene(
    "Reject a refund",
    "Only the people that the policy names can decide. Here they are @finance: Grace and Linus.",
    [
        _ask(5),
        Step(
            "As *Ada*, press *Approve*. Signoff does not count it.",
            lambda seen: seen.received_ephemeral(ADA, "not among the reviewers"),
            "Show Ada the card",
            {"as": ADA},
            lambda seen: seen.card(_card(5)),
        ),
        on_card("As *Linus*, press *Reject* and give a reason.", LINUS, _card(5), "Rejected"),
    ],
    "Nothing was refunded. The agent got the reason.",
    _task(5),
)

EDIT = Scene(
    "Correct a mistake",
    "Ada asks for order 9, but means order 4.",
    [
        _ask(9),
        Step(
            "As *Grace*, press *Edit* and change 9 to 4.",
            lambda seen: bool(seen.cards(_card(4))),
            "Show Grace the card",
            {"as": GRACE},
            lambda seen: seen.card(_card(9)),
        ),
        on_card(
            "As *Linus*, press *Approve*. Grace edited it, so somebody else approves.",
            LINUS,
            _card(4),
            "Approved",
        ),
    ],
    "Order 4 was refunded, and order 9 was not. The agent got the change.",
    _task(9),
)

CRASHED = Scene(
    "Crash between two approvals",
    "Refunds above 2,000.00 need two people. Order 6 cost 2,450.00.",
    [
        _ask(6),
        Step(
            "The agent answers while it waits. Ask it in the thread of its run.",
            lambda seen: seen.said(_task(6), "PENDING_REFUND"),
            "Ask for the status as Ada",
            {"as": ADA, "reply": "what is the status of order 6?"},
            lambda seen: seen.run(_task(6)),
        ),
        Step(
            "As *Grace*, press *Approve*. The card counts 1 of 2.",
            lambda seen: seen.shows(_card(6), "1 of 2 approvals") or seen.is_card(_card(6), "Approved"),
            "Show Grace the card",
            {"as": GRACE},
            lambda seen: seen.card(_card(6)),
        ),
        Step(
            "Kill the service (`kill -9`). It restarts automatically in a few seconds.",
            lambda seen: seen.starts() > 1,
            "Crash the service",
            {"lever": CRASH},
        ),
        on_card("As *Linus*, press *Approve*.", LINUS, _card(6), "Approved"),
    ],
    "Grace's approval survived the crash, and the refund was made once.",
    _task(6),
)

EXPIRE = Scene(
    "Let a request expire",
    f"Order 8 cost 7,320.00. Its rule gives people {SECONDS} seconds.",
    [
        _ask(8),
        on_card(f"Wait {SECONDS} seconds.", GRACE, _card(8), "Expired"),
        Step(
            "As *Ada*, press *Ask again*.",
            lambda seen: len(seen.cards(_card(8))) > 1,
            "Show Ada the card",
            {"as": ADA},
            lambda seen: seen.card(_card(8)),
        ),
    ],
    "Silence is never approval. There is a new card, with a new deadline.",
    _task(8),
)

INBOX = Scene(
    "Approve in the browser",
    "Reviewers also have an inbox outside Slack. Order 10 cost 1,640.00.",
    [
        _ask(10),
        open_inbox(REVIEWS),
        on_card("Open the request for order 10 in the inbox, and approve it.", GRACE, _card(10), "Approved"),
    ],
    "There is one decision, wherever it is made: the card in Slack shows it too.",
    _task(10),
)

TWO_CALLS = Scene(
    "Approve one call, reject another",
    "The data manager wants to delete records and to notify somebody. Each call gets its own card.",
    [
        Step(
            "As *Ada*, ask the data manager.",
            lambda seen: bool(seen.cards(DELETION) and seen.cards(NOTIFICATION)),
            "Ask as Ada",
            run_as_ada(MANAGER),
        ),
        on_card("As *Grace*, approve the deletion.", GRACE, DELETION, "Approved"),
        on_card("As *Linus*, reject the notification.", LINUS, NOTIFICATION, "Rejected"),
    ],
    "The records were deleted, and nobody was notified.",
    MANAGER.partition("data_manager ")[2],
)

FUNCTION = Scene(
    "Approve a step of a function",
    "An agent can be a plain Python function without a model. It can wait for days.",
    [
        Step(
            "As *Ada*, start it.",
            lambda seen: bool(seen.cards(MOVE)),
            "Start as Ada",
            run_as_ada(f"/agent run durable-task {MOVE}"),
        ),
        on_card("As *Grace*, press *Approve*.", GRACE, MOVE, "Approved"),
    ],
    "The function continued where it stopped, to its end.",
    MOVE,
)

OVERVIEW = Scene(
    "See what waits and what was decided",
    "Each person has an overview in Slack.",
    [
        Step(
            "As *Grace*, open *signoff* under Apps.",
            lambda seen: seen.slack.home(GRACE) is not None,
            "Open App Home",
            {"as": GRACE, "home": True},
        ),
        Step(
            "As *Grace*, list the decisions about refunds.",
            lambda seen: seen.received_ephemeral(GRACE, "History"),
            "List as Grace",
            {"as": GRACE, "channel": REVIEWS, "command": "/approvals history agent:refunds"},
        ),
    ],
    "Every decision links to its card and its thread.",
)


def for_refunds() -> Guide:
    refunds = (APPROVE, SMALL, REJECT, EDIT, CRASHED, EXPIRE, INBOX, TWO_CALLS, FUNCTION)
    return Guide("Guide", (*refunds, ALLOW, BOUND, TRY, OVERVIEW))
