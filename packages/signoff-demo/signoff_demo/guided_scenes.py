"""The steps of the guide for the main job, scene by scene."""

from __future__ import annotations

from itertools import dropwhile

from signoff_demo.actors import ADA, GRACE, LINUS, REVIEWS, Actors, Message
from signoff_demo.examples import shop
from signoff_demo.guide import CRASH, Guide, Proof, Scene, Step
from signoff_demo.guided_policy import ALLOW, BOUND, TRY
from signoff_demo.guided_steps import approving, on_card, open_inbox, order, rejecting, run_as_ada, watch
from signoff_demo.rules import SECONDS
from slackbot.cards import ACTION_ASK_AGAIN, ACTION_CHOOSE, ACTION_EDIT, ACTION_GIVE_ANSWER, ACTION_REJECT
from slackbot.cards.question_form import FIELD, INPUT
from slackbot.cards.together_form import TICK, TICK_BLOCK, VERDICT
from slackbot.cards.values import ACTION_DECIDE_TOGETHER

MANAGER = (
    "/agent run data_manager delete 50 old records from the users table, and send notification "
    'recipient=ops message="the users table was tidied"'
)
TIDY = MANAGER.partition("data_manager ")[2]
DELETION, NOTIFICATION = "Delete 50 records", "send_notification"
MOVE = "move house"
LATE, PEOPLE = "Sorry, late", ["anna", "ben", "carla", "dan", "emma"]
RELEASE, REGION = "release 2.4", "Which region?"
DESK, SUPPLIES = "the new desk", "ordered for the new desk"
DONE = "has been made"
WAITS = "manual review"
"""The agent says so once the order is held for its refund: a question before that would hear that it is paid."""
RESTART_SECONDS = 60.0


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
    [
        order(7, "REFUNDED"),
        Proof("attempts to run the refund", 1, lambda actors: actors.attempts(_card(7))),
        Proof("buttons left on the card", ["Details"], lambda actors: actors.buttons(_card(7))),
        Proof("the agent tells Ada", True, lambda actors: actors.said(_task(7), DONE)),
    ],
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
    [order(2, "REFUNDED"), Proof("cards about it", 0, lambda actors: len(actors.cards(_card(2))))],
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
            approving(ADA),
        ),
        on_card(
            "As *Linus*, press *Reject* and give a reason.",
            LINUS,
            _card(5),
            "Rejected",
            rejecting(LINUS, reason_input="Bought in another shop"),
        ),
    ],
    "Nothing was refunded. The agent got the reason.",
    _task(5),
    [
        order(5, "REFUND_REJECTED, rejected"),
        Proof("the agent gets the reason", True, lambda actors: actors.said(_task(5), "another shop")),
        Proof("attempts to run the refund", 0, lambda actors: actors.attempts(_card(5))),
    ],
)


async def _correct(actors: Actors, card: Message) -> None:
    await actors.choose(GRACE, card, ACTION_EDIT)
    await actors.fill_in(GRACE, {"signoff:field": "4"})


EDIT = Scene(
    "Correct a mistake",
    "Ada asks for order 9, but means order 4.",
    [
        _ask(9),
        Step(
            "As *Grace*, press *More…*, then *Edit*, and change 9 to 4.",
            lambda seen: bool(seen.cards(_card(4))),
            "Show Grace the card",
            {"as": GRACE},
            lambda seen: seen.card(_card(9)),
            _correct,
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
    [order(4, "REFUNDED"), order(9, "PAID")],
)


async def _approve_at_the_worst_moment(actors: Actors, card: Message) -> None:
    """Crash once more, after the decision and before the refund, which looks the price up in the shop first."""
    await actors.slack.wait_for(lambda: actors.slack.sockets.connections, timeout=RESTART_SECONDS)
    async with shop.closed():
        await actors.approve(LINUS, card)
        actors.slack.levers[CRASH]()


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
            lambda seen: seen.run(_task(6)) if seen.said(_task(6), WAITS) else None,
        ),
        Step(
            "As *Grace*, press *Approve*. The card counts 1 of 2.",
            lambda seen: seen.shows(_card(6), "1 of 2 approvals") or seen.is_card(_card(6), "Approved"),
            "Show Grace the card",
            {"as": GRACE},
            lambda seen: seen.card(_card(6)),
            approving(GRACE),
        ),
        Step(
            "Kill the service (`kill -9`). It restarts automatically in a few seconds.",
            lambda seen: seen.starts() > 1,
            "Crash the service",
            {"lever": CRASH},
        ),
        on_card(
            "As *Linus*, press *Approve*.", LINUS, _card(6), "Approved", press=_approve_at_the_worst_moment
        ),
    ],
    "Grace's approval survived the crash, and the refund was made once.",
    _task(6),
    [
        Proof("starts of the service, killed twice", 3, Actors.starts),
        order(6, "REFUNDED"),
        Proof("attempts to run the refund", 1, lambda actors: actors.attempts(_card(6))),
        Proof("the agent tells Ada", True, lambda actors: actors.said(_task(6), DONE)),
    ],
)


def _expire(seconds: int) -> Scene:
    return Scene(
        "Let a request expire",
        f"Order 8 cost 7,320.00. Its rule gives people {seconds} seconds.",
        [
            _ask(8),
            on_card(f"Wait {seconds} seconds.", GRACE, _card(8), "Expired", watch),
            Step(
                "As *Ada*, press *Ask again*.",
                lambda seen: len(seen.cards(_card(8))) > 1,
                "Show Ada the card",
                {"as": ADA},
                lambda seen: seen.card(_card(8)),
                lambda actors, card: actors.slack.person(ADA).click(card, ACTION_ASK_AGAIN),
            ),
        ],
        "Silence is never approval. There is a new card, with a new deadline.",
        _task(8),
        [
            order(8, "REFUND_REJECTED, expired"),
            Proof("attempts to run the refund", 0, lambda actors: actors.attempts(_card(8))),
            Proof("the agent tells Ada", True, lambda actors: actors.said(_task(8), "expired")),
        ],
    )


INBOX = Scene(
    "Approve in the browser",
    "Reviewers also have an inbox outside Slack. Order 10 cost 1,640.00.",
    [
        _ask(10),
        open_inbox(REVIEWS),
        on_card(
            "Open the request for order 10 in the inbox, and approve it.",
            GRACE,
            _card(10),
            "Approved",
            lambda actors, _: actors.approve_in_browser(GRACE, _card(10)),
        ),
    ],
    "There is one decision, wherever it is made: the card in Slack shows it too.",
    _task(10),
    [order(10, "REFUNDED")],
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
        on_card(
            "As *Linus*, reject the notification.",
            LINUS,
            NOTIFICATION,
            "Rejected",
            rejecting(LINUS, reason_input="Nobody needs to know"),
        ),
    ],
    "The records were deleted, and nobody was notified.",
    TIDY,
    [
        Proof("what was approved was done", True, lambda actors: actors.said(TIDY, "Deleted 50 records")),
        Proof("the agent gets the reason", True, lambda actors: actors.said(TIDY, "Nobody needs to know")),
        Proof("what was rejected was done", False, lambda actors: actors.said(TIDY, "Sent notification")),
    ],
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
    [Proof("it went on to its end", True, lambda actors: actors.said(MOVE, "Agent successful: move house"))],
)

CHOICE = Scene(
    "Choose an option",
    "An agent can ask for more than yes or no. This one offers three regions.",
    [
        Step(
            "As *Ada*, start it.",
            lambda seen: bool(seen.cards(REGION)),
            "Start as Ada",
            run_as_ada(f"/agent run deployment {RELEASE}"),
        ),
        on_card(
            "As *Grace*, press *Europe*.",
            GRACE,
            REGION,
            "Answered",
            lambda actors, card: actors.slack.person(GRACE).click(card, ACTION_CHOOSE[0]),
        ),
    ],
    "The agent got the option. An answer approves nothing: what the agent does next meets policy as always.",
    RELEASE,
    [
        Proof("the agent gets the option", True, lambda actors: actors.said(RELEASE, "Europe it is")),
        Proof("buttons left on the card", ["Details"], lambda actors: actors.buttons(REGION)),
    ],
)


async def _fill_in_order(actors: Actors, card: Message) -> None:
    await actors.slack.person(GRACE).click(card, ACTION_GIVE_ANSWER)
    given = ("Desk lamp", "2", "1", "yes")
    await actors.fill_in(GRACE, {f"{FIELD}{at}/{INPUT}": value for at, value in enumerate(given)})


FORM = Scene(
    "Fill in a form",
    "An agent can also ask for a form: text, a number, one of some options, yes or no.",
    [
        Step(
            "As *Ada*, start it.",
            lambda seen: bool(seen.cards(SUPPLIES)),
            "Start as Ada",
            run_as_ada(f"/agent run supplies {DESK}"),
        ),
        on_card(
            "As *Grace*, press *Answer…*, fill in the form, and press *Answer*.",
            GRACE,
            SUPPLIES,
            "Answered",
            _fill_in_order,
        ),
    ],
    "The function got the answer as its own type, already checked.",
    DESK,
    [
        Proof(
            "the agent gets the form",
            True,
            lambda actors: actors.said(DESK, "2 × Desk lamp, medium, by express delivery"),
        ),
    ],
)


def _notification(person: str) -> str:
    return f'send_notification recipient={person} message="{LATE}"'


MANY = f"/agent run data_manager {' '.join(map(_notification, PEOPLE))}"


async def _decide_four(actors: Actors, message: Message) -> None:
    def last() -> str | None:
        """The tick of the one that is left."""
        blocks = [block for form in actors.slack.views(GRACE) for block in form["blocks"]]
        ticks = (each for each in blocks if each["block_id"].startswith(TICK_BLOCK))
        return next((each["block_id"] for each in ticks if PEOPLE[-1] in str(each["element"])), None)

    await actors.slack.person(GRACE).click(message, ACTION_DECIDE_TOGETHER)
    await actors.fill_in(GRACE, {f"{await actors.slack.wait_for(last)}/{TICK}": [], VERDICT: "approve"})


async def _reject_the_last(actors: Actors, _: Message) -> None:
    def row() -> tuple[Message, str] | None:
        """Home, and the buttons below the request that is left."""
        home = actors.slack.home(LINUS) or {"blocks": []}
        below = dropwhile(
            lambda block: PEOPLE[-1] not in str(block) or block["type"] != "rich_text", home["blocks"]
        )
        found = next((block["block_id"] for block in below if ACTION_REJECT in str(block)), None)
        return (home, found) if found else None

    home, block_id = await actors.slack.wait_for(row)
    await actors.slack.person(LINUS).click(home, ACTION_REJECT, block_id=block_id)
    await actors.fill_in(LINUS, {"signoff:reason_input": "She knows already"})


TOGETHER = Scene(
    "Decide several in one form",
    "What an agent asks in one turn shares a message, from four requests on. One form decides them, each by itself.",
    [
        Step(
            "As *Ada*, ask for five notifications.",
            lambda seen: seen.group(LATE) is not None,
            "Ask as Ada",
            run_as_ada(MANY),
        ),
        Step(
            f"As *Grace*, press *Decide together…*. Untick the one for {PEOPLE[-1]}, choose *Approve*, press *Record*.",
            lambda seen: "1 of 5 requests" in str((seen.group(LATE) or {}).get("blocks")),
            "Show Grace the message",
            {"as": GRACE},
            lambda seen: seen.group(LATE),
            _decide_four,
        ),
        Step(
            "As *Linus*, reject the one that is left, in the Home tab of *signoff*.",
            lambda seen: "none waits any more" in str((seen.group(LATE) or {}).get("blocks")),
            "Open App Home as Linus",
            {"as": LINUS, "home": True},
            lambda seen: seen.group(LATE),
            _reject_the_last,
        ),
    ],
    "Four were sent, and one was not. Each decision has its own entry in the audit log.",
    _notification(PEOPLE[-1]),
    [
        Proof("cards about them", 0, lambda actors: len(actors.cards(LATE))),
        Proof(
            "who was told",
            PEOPLE[:-1],
            lambda actors: [
                each
                for each in PEOPLE
                if actors.said(_notification(PEOPLE[-1]), f"Sent notification to {each}")
            ],
        ),
    ],
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


NEXT = (
    "*Your own agents*: `signoff init my-agents`, then `signoff demo --agents my_agents` in that folder.",
    "*Your own workspace*: `signoff manifest` prints the Slack app; docs/quickstart.md leads on, to `signoff serve`.",
    "*A program that runs elsewhere*: the terminal shows the command of one that asks here (examples/guide_agent.py).",
)


def for_refunds(seconds: int = SECONDS) -> Guide:
    """A very large refund expires after `seconds`."""
    refunds = (APPROVE, SMALL, REJECT, EDIT, CRASHED, _expire(seconds), INBOX, TWO_CALLS)
    return Guide(
        "Guide", (*refunds, FUNCTION, CHOICE, FORM, TOGETHER, ALLOW, BOUND, TRY, OVERVIEW), following=NEXT
    )
