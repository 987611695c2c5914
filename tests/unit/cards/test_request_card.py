"""The request card: order, states, buttons, and that nobody approves what they cannot read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from agent.domain.facts import FactsSource
from agent.domain.limits import LimitView
from agent.domain.request import ExecutionStatus, RequestStatus, Verdict
from agent.domain.request_view import Change, EarlierRejection, FollowUp, VoteView
from agent.domain.short_ids import short_id
from agent.domain.verdicts import ENDED, OUTCOMES
from signoff.description import shown as stored_as_shown
from signoff.values import Risk
from slackbot.cards import (
    Names,
    details_modal,
    details_text,
    more_modal,
    named_in,
    parse_button_value,
    request_card,
    run_line,
    thread_line,
)
from slackbot.masking import clean_view
from tests.rendered import above_the_buttons
from tests.unit.cards.conftest import RULE

LONG = {"order_id": 7, "note": "x" * 10_000}


def test_waiting_card_says_everything_in_order(samples: Any, referee: Any) -> None:
    """Risk and object first, then facts, arguments, one small line, and last the agent's own words."""
    view = samples.view(approvals_required=2)
    card = request_card(view)
    referee.judge(card)
    words = referee.words(card.blocks)
    order = [
        "High risk · Refund 1,499.00 for order 7",
        "Waiting for review",
        "0 of 2 approvals, 2 more needed",
        "Facts, looked up by the tool",
        "price: 1,499.00",
        "Arguments of process_refund",
        "amount: 1,499.00",
        "order_id: 7",
        "for <@U0ADA> ·",
        "refunds · 2 of S0FINANCE ·",
        "until <!date^1801386000^{date_short_pretty} {time}|2027-01-31 09:00 UTC>",
        "The agent's own words (not checked):",
        "The customer got the wrong size.",
        "Approve",
        "Reject",
    ]
    places = [words.index(each) for each in order]
    assert places == sorted(places)
    assert card.blocks[0]["type"] == "header"
    details = referee.words(details_modal(view)["blocks"])
    for moved in (
        "version 3",
        "version 2",
        "refund-over-limit",
        str(view.id),
        "revision 1",
        view.digest.hex(),
    ):
        assert moved in details, moved
        assert moved not in words, moved


def test_a_card_of_the_tour_is_nine_lines_long(samples: Any) -> None:
    """Title, whom it waits for, three facts with their source, the small line and one of the agent's words."""
    rule = RULE.model_copy(update={"description_template": "Refund {facts.price} for order {args.order_id}"})
    facts = {"price": 1499.0, "customer": "Ines", "item": "desk"}
    view = replace(samples.view(arguments={"order_id": 7}, facts=facts), rule=rule)
    lines = above_the_buttons(request_card(view, names=Names(groups={"S0FINANCE": "finance"})).blocks)
    assert len(lines) == 9, lines
    assert "order_id" not in str(lines)  # as the title says it


@pytest.mark.parametrize(
    ("order", "template", "shown"),
    [
        (7, "Refund {facts.price} for order {args.order_id}", False),
        ("7", "Refund {facts.price} for order {args.order_id}", True),  # of another type
        ("x" * 80, "Refund {facts.price} for order {args.order_id}", True),  # cut there
        (7, "Refund of 7.00", True),  # not this 7
        (7, f"{'Refund ' * 90} for order {{args.order_id}}", True),  # the title is cut
        ({"id": 7}, "Refund {args.order_id}", True),
    ],
)
def test_an_argument_is_left_out_only_where_the_title_shows_all_of_it(
    samples: Any, referee: Any, order: Any, template: str, shown: bool
) -> None:
    """Whole, under its own name and of its type; else it stands among the arguments."""
    rule = RULE.model_copy(update={"description_template": template})
    view = samples.view(arguments={"order_id": order})
    said = stored_as_shown(rule.describe(view.action, view.facts))
    card = request_card(replace(view, rule=rule, description=said))
    referee.judge(card)
    assert ("order_id: " in referee.words(card.blocks)) == shown


@pytest.mark.parametrize(
    ("arguments", "template", "own_words"),
    [
        # The title has no room for `zip`, which another argument's text seems to name.
        (
            {"a": "for you, zip: 15, now", **{f"b{n}": "y" * 50 for n in range(9)}, "c": "z" * 58, "zip": 15},
            None,
            None,
        ),
        ({"zip": 15}, None, "Refund 1 item · zip: 15, please"),
        ({"zip": 5}, "Refund {args.zip}", "Refund 15"),  # an older policy's title
    ],
)
def test_what_only_seems_to_be_in_the_title_is_among_the_arguments(
    samples: Any, referee: Any, arguments: Any, template: str | None, own_words: str | None
) -> None:
    """Another argument's text, somebody's own words and a part of the title do not stand for an argument."""
    view = samples.view(arguments=arguments, description_template=template)
    said = own_words or stored_as_shown(view.rule.describe(view.action, view.facts))
    card = request_card(replace(view, description=said))
    referee.judge(card)
    assert f"• zip: {arguments['zip']}" in above_the_buttons(card.blocks)


async def test_arguments_that_a_generated_title_has_are_left_out(samples: Any) -> None:
    """Masked ones, too, and those beside a gate's command; a text that looks like a number is named again."""
    arguments = {"zip": 15, "password": "hunter2", "signoff_command": ["ls", "-l"], "text": "15"}
    view = samples.view(arguments=arguments)
    view = await clean_view(replace(view, description=view.rule.describe(view.action, view.facts)))
    lines = above_the_buttons(request_card(view).blocks)
    at = lines.index("Arguments of process_refund")
    assert lines[at + 1 : at + 3] == ['• text: "15"', "` ls -l"]


def test_own_words_that_repeat_the_card_are_only_in_details(samples: Any, referee: Any) -> None:
    """A paragraph with no word of its own is left out; one more word, or number, brings it back."""
    said = "The request was: “please refund order 7”. So I ask for 1,499.00.\n\nprocess_refund(order_id=7)"
    view = samples.view(rationale=said)
    assert "own words" not in referee.words(request_card(view).blocks)
    assert "process_refund(order_id=7)" in referee.words(details_modal(view)["blocks"])
    more = request_card(samples.view(rationale=f"{said}\n\nRefund order 8")).blocks
    assert "own words (not checked):Refund order 8" in referee.words(more)
    for said in ("I was asked not to refund order 7", "Refund order 7 now", "Refund order 7 if it was lost"):
        assert f"(not checked):{said}" in referee.words(request_card(samples.view(rationale=said)).blocks)


@pytest.mark.parametrize("outcome", [each for each in RequestStatus if each is not RequestStatus.WAITING])
def test_a_decided_card_is_short(samples: Any, referee: Any, outcome: RequestStatus) -> None:
    """Title, outcome, who and why stay, with Details; what had to be judged is behind it, and no deadline is shown."""
    view = samples.view(**samples.decided(outcome, "Wrong size"))
    card = request_card(view)
    referee.judge(card)
    words = referee.words(card.blocks)
    for kept in ("High risk · Refund 1,499.00 for order 7", "by U0GRACE", "Details", "revision 1"):
        assert kept in words, kept
    for gone in ("Arguments", "price", "Requested by", "Needs", "own words", "deadline", "Decide before"):
        assert gone not in words, gone
    assert len(str(card.blocks)) < len(str(request_card(view, whole=True).blocks)) / 2
    assert "Arguments of process_refund" in referee.words(request_card(view, whole=True).blocks)


def test_a_card_in_doubt_keeps_what_people_have_to_judge(samples: Any, referee: Any) -> None:
    """Whether to run it again is judged by what it would do: facts and arguments stay until somebody has settled it."""
    doubted = samples.view(**samples.executed(ExecutionStatus.IN_DOUBT))
    assert "Arguments of process_refund" in referee.words(request_card(doubted).blocks)
    settled = samples.view(**samples.executed(ExecutionStatus.IN_DOUBT, settled_as="done"))
    assert "Arguments of process_refund" not in referee.words(request_card(settled).blocks)


def test_the_confirmation_calls_the_requester_by_name(samples: Any) -> None:
    """Everybody whom the card's own words call by name is among those whose names are looked up for it."""
    view = samples.view()
    names = Names(people={each: f"name of {each}" for each in named_in(view)})
    assert "for @name of U0ADA" in str(request_card(view, names=names).blocks)


def test_buttons_carry_place_request_and_revision(samples: Any, referee: Any) -> None:
    """What a click sends back names the place, the request and the revision that were on screen."""
    view = samples.view(revision=3)
    made = referee.buttons(request_card(view))
    assert {name: each["action_id"] for name, each in made.items()} == {
        "Approve": "signoff:approve",
        "Reject": "signoff:reject",
        "Details": "signoff:details",
        "More…": "signoff:more",
    }
    assert list(made) == ["Approve", "Reject", "Details", "More…"]
    for each in made.values():
        value = parse_button_value(each["value"])
        assert value is not None
        assert (value.nonce, value.request_id, value.revision) == (view.place_nonce, view.id, 3)
        assert value.execution_id is None


def test_no_place_no_buttons(samples: Any, referee: Any) -> None:
    """A card that belongs to no place cannot be clicked."""
    assert not referee.buttons(request_card(samples.view(place_nonce="")))


@pytest.mark.parametrize("risk", list(Risk))
def test_high_risk_asks_twice(samples: Any, referee: Any, risk: Risk) -> None:
    """From high risk on, a dialog repeats object and money before an approval counts."""
    view = samples.view(risk=risk, description="Refund order 7")
    confirm = referee.buttons(request_card(view))["Approve"].get("confirm")
    if risk < Risk.HIGH:
        assert confirm is None
    else:
        assert "Refund order 7 (price 1,499.00 EUR), for U0ADA" in confirm["text"]["text"]
        assert risk.value in confirm["title"]["text"]


def test_cut_arguments_are_counted_and_lead_to_the_details(samples: Any, referee: Any) -> None:
    """What does not fit is announced with counts, and a button leads to all of it."""
    card = request_card(samples.view(arguments=LONG))
    referee.judge(card)
    words = referee.words(card.blocks)
    whole = len('{"note": "' + "x" * 10_000 + '", "order_id": 7}')
    assert f"Cut here: all {whole:,} characters of the arguments are in Details." in words
    assert "more characters" in words
    assert "order_id: 7" in words
    assert "Details" in referee.buttons(card)


def test_a_hundred_kilobytes_still_make_a_card(samples: Any, referee: Any) -> None:
    """However large the arguments, the card is posted, with its buttons."""
    many = {f"key {n}": "v" * 20 for n in range(4_000)}
    for arguments in ({"body": "& <x>\n" * 17_000}, many, {"n": [*range(20_000)]}):
        card = request_card(samples.view(arguments=arguments))
        referee.judge(card)
        assert {"Approve", "Details"} <= set(referee.buttons(card))
        assert "are in Details" in referee.words(card.blocks)


def test_approve_is_withheld_when_the_digest_does_not_fit(samples: Any, referee: Any) -> None:
    """A stored action that is not what its digest says is never offered for approval."""
    card = request_card(samples.view(digest=b"\0" * 32))
    assert "Approve" not in referee.buttons(card)
    assert "digest" in referee.words(card.blocks)


def test_arguments_come_from_the_canonical_bytes(samples: Any, referee: Any) -> None:
    """Changing the parsed arguments in memory changes nothing on the card."""
    view = samples.view()
    view.action.arguments["order_id"] = 8
    assert "order_id: 7" in referee.words(request_card(view).blocks)


def test_without_facts_the_card_says_so(samples: Any, referee: Any) -> None:
    """Nobody mistakes the agent's claims for facts."""
    words = referee.words(request_card(samples.view(facts=None)).blocks)
    assert "No facts were looked up: this is the agent's own claim." in words


def test_asked_anew_shows_the_difference(samples: Any, referee: Any) -> None:
    """After an approval that became void, before and after stand on the new card."""
    card = request_card(samples.view(previous_facts={**samples.view().facts, "price": 999}))
    referee.judge(card)
    words = referee.words(card.blocks)
    assert "Changed since an earlier approval, which is void" in words
    assert "price: 999.00 → 1,499.00" in words
    assert "currency: EUR →" not in words


def test_votes_so_far_and_still_needed(samples: Any, referee: Any) -> None:
    """Who has approved, and how many more it takes."""
    vote = VoteView(samples.view().requester, Verdict.APPROVE, "fine", samples.view().created_at)
    words = referee.words(request_card(samples.view(approvals_required=3, votes=(vote,))).blocks)
    assert "1 of 3 approvals, 2 more needed" in words
    assert "U0ADA approved, " in words
    assert "“fine”" in words


@pytest.mark.parametrize(
    ("changes", "words", "buttons"),
    [
        (
            ("decided", RequestStatus.REJECTED, "Wrong customer"),
            ["❌ Rejected by U0GRACE, ", "Wrong customer"],
            {"Details"},
        ),
        (("decided", RequestStatus.APPROVED), ["✅ Approved by U0GRACE, ", "Not started yet."], {"Details"}),
        (("decided", RequestStatus.EXPIRED, None, None), ["⌛ Expired, "], {"Ask again", "Details"}),
        (
            ("decided", RequestStatus.CANCELLED, "run ended", None),
            ["🚫 Withdrawn, ", "run ended"],
            {"Details"},
        ),
        (("executed", ExecutionStatus.CLAIMED), ["✅ Approved by U0GRACE", "▶ Running since"], {"Details"}),
        (
            ("executed", ExecutionStatus.SUCCEEDED),
            ["✅ Approved by U0GRACE", "✅ Done in 1.2 s"],
            {"Details"},
        ),
        (
            ("executed", ExecutionStatus.FAILED, "no money"),
            ["❌ Failed after 1.2 s", "The tool said:no money"],
            {"Details"},
        ),
        (
            ("executed", ExecutionStatus.IN_DOUBT),
            ["⚠ In doubt", "nobody knows"],
            {"Retry", "Mark as done", "Details"},
        ),
    ],
)
def test_states(
    samples: Any, referee: Any, changes: tuple[Any, ...], words: list[str], buttons: set[str]
) -> None:
    """The first lines show the state, and only the buttons that work are there."""
    maker, *arguments = changes
    card = request_card(samples.view(**getattr(samples, maker)(*arguments)))
    referee.judge(card)
    shown = referee.words(card.blocks)
    assert all(each in shown for each in words), shown
    assert set(referee.buttons(card)) == buttons
    status = referee.words(card.blocks[1])
    assert words[0] in status
    assert "S0FINANCE" not in referee.words(card.text)


def test_a_card_says_which_program_carries_it_out(samples: Any, referee: Any) -> None:
    """Before and after the decision; until a program has begun, the card says how long it may."""
    waiting = referee.words(request_card(samples.view(executor="warehouse")).blocks)
    assert "⇢ Executed by the program warehouse" in waiting
    approved = samples.view(**samples.decided(RequestStatus.APPROVED), executor="*")
    card = request_card(replace(approved, lapse_at=approved.expires_at))
    referee.judge(card)
    words = referee.words(card.blocks)
    assert "⇢ Executed by another program" in words
    assert "Not started yet: that program may begin until 2027-01-31 09:00 UTC" in words


def test_void_approval(samples: Any, referee: Any) -> None:
    """An approval that no longer holds is called void, and nothing is said to run."""
    card = request_card(samples.view(**samples.decided(RequestStatus.APPROVED), voided=True))
    words = referee.words(card.blocks)
    assert (
        "↩ Approval void: its facts, its tool or the policy changed before it began, so nothing was run, and "
        "people were asked again." in words
    )
    assert set(referee.buttons(card)) == {"Details"}
    late = samples.view(**samples.decided(RequestStatus.APPROVED), voided=True, outdated=True)
    words = referee.words(request_card(late).blocks)
    assert "it was too old when the call could begin, so nothing was run" in words


def test_settlement_buttons_name_the_attempt(samples: Any, referee: Any) -> None:
    """Settling is about one attempt; once settled, the buttons are gone and the card says by whom."""
    doubt = samples.executed(ExecutionStatus.IN_DOUBT)
    made = referee.buttons(request_card(samples.view(**doubt)))
    for label in ("Retry", "Mark as done"):
        value = parse_button_value(made[label]["value"])
        assert value is not None
        assert value.execution_id == doubt["execution"].id
    assert "twice" in made["Retry"]["confirm"]["text"]["text"]
    grace = samples.view(**doubt).decision.person
    settled = samples.executed(ExecutionStatus.IN_DOUBT, settled_as="done", settled_by=grace)
    card = request_card(samples.view(**settled))
    assert set(referee.buttons(card)) == {"Details"}
    assert "Marked as done by U0GRACE. It was in doubt." in referee.words(card.blocks)
    assert "settle it" not in referee.words(card.blocks)
    assert card.text.startswith("Approved, marked as done: ")
    again = samples.executed(ExecutionStatus.IN_DOUBT, settled_as="retry", settled_by=grace)
    words = referee.words(request_card(samples.view(**again)).blocks)
    assert "Retry requested by U0GRACE" in words
    assert "settle it" not in words


def test_only_a_requester_can_ask_again(samples: Any, referee: Any) -> None:
    """Without a requester in Slack there is nobody to press Ask again."""
    expired = samples.view(**samples.decided(RequestStatus.EXPIRED, None, None), requester=None)
    assert set(referee.buttons(request_card(expired))) == {"Details"}


@pytest.mark.parametrize(
    ("again", "says"),
    [
        (FollowUp(), "Asked again by U0ADA"),
        (FollowUp(UUID(int=7)), f"Asked again by U0ADA as request {short_id(UUID(int=7))}"),
        (
            FollowUp(UUID(int=7), link="https://team.slack.com/archives/C0REVIEW/p1"),
            "Asked again by U0ADA: its new card",
        ),
    ],
)
def test_asked_again_is_shown_instead_of_offered(
    samples: Any, referee: Any, again: FollowUp, says: str
) -> None:
    """An expired card that was asked again has no button for it any more; it says so and links to the new request."""
    expired = samples.view(**samples.decided(RequestStatus.EXPIRED, None, None))
    assert "Ask again" in referee.buttons(request_card(expired))
    card = request_card(replace(expired, asked_again=again))
    referee.judge(card)
    assert "Ask again" not in referee.buttons(card)
    assert says in referee.words(card.blocks)


@pytest.mark.parametrize(
    ("link", "where"),
    [
        ("https://team.slack.com/archives/C0REVIEW/p1", "see its card"),
        (None, f"request {short_id(UUID(int=7))}"),
    ],
)
def test_an_earlier_rejection_is_shown_while_it_is_decided(
    samples: Any, referee: Any, link: str | None, where: str
) -> None:
    """Who rejected the very same action, when, why and where; after an edit it is said of the action before."""
    view = samples.view()
    earlier = EarlierRejection(UUID(int=7), view.requester, view.created_at, "not these <b>", link=link)
    card = request_card(replace(view, rejected_before=earlier))
    referee.judge(card)
    words = referee.words(card.blocks)
    assert "The same action was recently rejected by U0ADA, " in words
    assert where in words
    assert "not these <b>" in words
    edited = replace(view, rejected_before=earlier, revision=2)
    assert "(before it was edited)" in referee.words(request_card(edited).blocks)
    details = details_text(replace(view, rejected_before=earlier))
    assert f"request {UUID(int=7)}\nnot these <b>" in details
    decided = samples.view(**samples.decided(RequestStatus.APPROVED), rejected_before=earlier)
    assert "recently rejected" not in referee.words(request_card(decided).blocks)


def test_only_a_waiting_card_pings(samples: Any, referee: Any) -> None:
    """`notify` is mentioned while there is something to decide, in the text and on the card, and never after."""
    waiting = request_card(samples.view(notify=("S0FINANCE", "U0GRACE", "channel", "<!here>")))
    referee.judge(waiting)
    assert waiting.text.endswith("<!subteam^S0FINANCE> <@U0GRACE>")
    assert {"S0FINANCE", "U0GRACE"} <= set(referee.words(waiting.blocks[1]).split(" · "))
    done = request_card(samples.view(**samples.executed(ExecutionStatus.SUCCEEDED)))
    assert "<!subteam" not in done.text
    assert "usergroup" not in str(done.blocks)


def test_fallback_text_for_phones(samples: Any) -> None:
    """A notification shows risk, object, money and the deadline."""
    text = request_card(samples.view(description="Refund order 7", notify=())).text
    assert text.startswith("High risk · Refund order 7 (price 1,499․00 EUR)".replace("․", "."))
    assert "<!date^1801386000^" in text
    rejected = request_card(samples.view(**samples.decided(RequestStatus.REJECTED)))
    assert rejected.text == "Rejected: High risk · Refund 1,499.00 for order 7"


def test_reviewers_by_name_without_a_ping(samples: Any, referee: Any) -> None:
    """People who may decide are shown by name; a mention would notify people whom the rule does not."""
    view = samples.view(approvers=("S0FINANCE", "U0GRACE", "channel"), notify=(), prevent_self_review=False)
    names = Names(people={"U0GRACE": "grace"}, groups={"S0FINANCE": "finance"})
    card = request_card(view, names=names)
    words = referee.words(card.blocks)
    assert "refunds · 1 of @finance, @grace, members of this channel" in words
    details = referee.words(details_modal(view, names=names)["blocks"])
    assert "Needs 1 of @finance, @grace, members of this channel. The requester may approve it" in details
    assert "usergroup" not in str(card.blocks)


def test_nobody_may_decide_is_said(samples: Any, referee: Any) -> None:
    """An empty list of reviewers is not silently anybody."""
    assert "1 of nobody" in referee.words(request_card(samples.view(approvers=())).blocks)


@pytest.mark.parametrize(
    ("asserted", "said"),
    [
        ("slack", "Requested by U0ADAAgent"),
        ("key:crm for U0ADA", "named by the API key crm; Slack has not confirmed it"),
        ("key:crm", "owner of the API key crm"),
        ("key-owner", "owner of the API key that asked"),
        ("on-behalf", "named by an API client; Slack has not confirmed it"),
        ("telepathy", "asserted by: telepathy"),
    ],
)
def test_how_the_requester_is_known(samples: Any, referee: Any, asserted: str, said: str) -> None:
    """A requester that Slack has not vouched for is marked, and Details says who named them."""
    view = samples.view(requester_asserted=asserted)
    assert said in referee.words(details_modal(view)["blocks"])
    marked = "for <@U0ADA> (not confirmed)" in referee.words(request_card(view).blocks)
    assert marked == (asserted not in ("slack", "key:crm", "key-owner"))


def test_link_to_the_run(samples: Any, referee: Any) -> None:
    """The run's thread is linked when Slack gave its address; anything else is not a link."""
    url = "https://team.slack.com/archives/C0REVIEW/p1"
    modal = details_modal(samples.view(), permalink=url)
    referee.judge_view(modal)
    assert [p["url"] for _, p in referee.walk(modal["blocks"]) if p.get("type") == "link"] == [url]
    odd = details_modal(samples.view(), permalink="javascript:alert(1)")
    assert not [p for _, p in referee.walk(odd["blocks"]) if p.get("type") == "link"]


def test_metadata_finds_the_post_and_tells_nothing_else(samples: Any) -> None:
    """Metadata is readable by the whole workspace: two ids, no arguments."""
    delivery = UUID(int=9)
    view = samples.view()
    assert request_card(view, delivery_id=delivery).metadata == {
        "event_type": "signoff_card",
        "event_payload": {"delivery": str(delivery), "request": str(view.id)},
    }


def test_changed_blocks_have_new_ids(samples: Any) -> None:
    """Slack redraws a block by its id: changed content and state make new ones, equal content the same."""
    before = {b["block_id"]: b for b in request_card(samples.view()).blocks}
    after = {
        b["block_id"]: b for b in request_card(samples.view(**samples.decided(RequestStatus.REJECTED))).blocks
    }
    assert not before.keys() & after.keys()
    assert list(before) == [b["block_id"] for b in request_card(samples.view()).blocks]
    moved = request_card(samples.view(expires_at=samples.view().expires_at + timedelta(hours=1))).blocks
    assert len(before.keys() - {b["block_id"] for b in moved}) == 1


def test_the_checkpoints_link_is_the_one_live_address(samples: Any, referee: Any) -> None:
    """The operator's own link is a button named by its host; what is no plain address makes no button."""
    card = request_card(samples.view(link="https://shop.example/orders/7"))
    referee.judge(card)
    made = referee.buttons(card)["Open shop.example"]
    assert (made["action_id"], made["url"]) == ("signoff:link", "https://shop.example/orders/7")
    long = request_card(samples.view(link="https://shop.example.many.more.names.evil.example/7"))
    referee.judge(long)
    assert "Open ….more.names.evil.example" in referee.buttons(long)  # its end says whose it is
    for odd in (
        "javascript:alert(1)",
        "https://user@evil.example/",
        "https://a.example/ b",
        "https://" + "a" * 4000,
    ):
        assert not [
            label for label in referee.buttons(request_card(samples.view(link=odd))) if "Open" in label
        ]


def test_edit_is_offered_where_the_checkpoint_allows_it(samples: Any, referee: Any) -> None:
    """No Edit without `allow_edit`, and none once it is decided; behind More…, as all that few reviewers need."""
    assert offered(samples.view(), referee) == {"Approve with note": "signoff:approve_comment"}
    may = offered(samples.view(allow_edit=True, allow_grants=True), referee)
    assert list(may.values()) == ["signoff:approve_comment", "signoff:edit", "signoff:allow_similar"]
    done = samples.view(allow_edit=True, **samples.decided(RequestStatus.REJECTED))
    assert "Edit" not in offered(done, referee)
    assert "More…" not in referee.buttons(request_card(done))


def test_nobody_approves_behind_more_what_cannot_be_read(samples: Any, referee: Any) -> None:
    """Where Approve is withheld from a card, More… has no other way to approve; Edit stays."""
    view = samples.view(digest=b"\0" * 32, allow_edit=True, allow_grants=True)
    assert list(offered(view, referee)) == ["Edit"]
    assert "Approve is withheld" in referee.words(more_modal(view, "carried"))


def offered(view: Any, referee: Any) -> dict[str, str]:
    """Behind *More…*: labels and action ids."""
    form = more_modal(view, "carried")
    referee.judge_view(form)
    made = [part for _, part in referee.walk(form["blocks"]) if part.get("type") == "button"]
    return {each["text"]["text"]: each["action_id"] for each in made}


def test_an_edited_revision_says_who_changed_what(samples: Any, referee: Any) -> None:
    """The card of a new revision shows its editor and the difference, and that earlier votes are gone."""
    change = Change("$.amount", 1499, 1200)
    view = samples.view(revision=2, editor=samples.view().requester, changes=(change,))
    card = request_card(view)
    referee.judge(card)
    words = referee.words(card.blocks)
    assert "↩ Edited by U0ADA: this is revision 2; votes on earlier ones do not count" in words
    assert "amount: 1,499.00 → 1,200.00" in words


def test_escalation_is_told_while_it_waits(samples: Any, referee: Any) -> None:
    """A request past its first deadline says so; a decided one does not."""
    assert "⚠ Escalated" in referee.words(request_card(samples.view(escalated=True)).blocks)
    done = samples.view(escalated=True, **samples.decided(RequestStatus.REJECTED))
    assert "Escalated" not in referee.words(request_card(done).blocks)


def test_a_required_comment_replaces_the_dialog(samples: Any, referee: Any) -> None:
    """Where an approval needs a reason, Approve leads to a form, so there is no second question before it."""
    made = referee.buttons(request_card(samples.view(reason_required=frozenset({"approve"}))))
    assert "confirm" not in made["Approve"]
    assert "More…" not in made


@pytest.mark.parametrize(
    ("source", "facts", "said"),
    [
        (FactsSource.PROGRAM, {"price": 5}, "Facts, supplied by the program bill\u202aing"),
        (FactsSource.SIGNOFF, {"price": 5}, "Facts, looked up by Signoff at 2027-01-30 09:00 UTC"),
        (FactsSource.PROGRAM, None, "The program bill\u202aing could not look up the facts"),
        (FactsSource.PROGRAM, {}, "The program bill\u202aing found no facts"),
        (FactsSource.SIGNOFF, None, "Signoff could not look up the facts"),
    ],
)
def test_the_card_says_where_facts_come_from(
    source: FactsSource, facts: dict[str, Any] | None, said: str, samples: Any, referee: Any
) -> None:
    """The source of the facts is named, with the time of a look-up; hidden characters are shown."""
    at = samples.view().created_at
    changes = {"facts_source": source, "facts_at": at, "principal": "key:bill\u202aing", "facts": facts}
    card = request_card(samples.view(**changes))
    referee.judge(card)
    words = referee.words(card.blocks)
    assert said.replace("\u202a", "⟦U+202A⟧") in words


def test_the_card_says_how_its_limits_stood(samples: Any, referee: Any) -> None:
    """Those without room come first and are named as the reason; sums of a redacted value are not shown."""
    day = timedelta(days=1)
    amounts = LimitView(
        "refunds", "facts.price", day, Decimal(4960), Decimal(999), Decimal(5000), reached=True
    )
    calls = LimitView("calls", "count", day, Decimal(37), Decimal(0), Decimal(40), reached=False)
    view = samples.view(limits=(calls, amounts))
    card = request_card(view)
    referee.judge(card)
    words = referee.words(card.blocks)
    why = "refunds: 4,960.00 of 5,000.00 used in 24h, 999.00 waiting. No room for this without approval."
    assert words.index(why) < words.index("calls: 37 of 40 calls used in 24h")
    hidden = referee.words(
        request_card(samples.view(limits=(calls, amounts), redact=("facts.price",))).blocks
    )
    assert "4,960" not in hidden
    assert "refunds: within 24h. No room for this without approval." in hidden
    assert why in referee.words(details_modal(view)["blocks"])
    assert "Limits" not in referee.words(request_card(samples.view()).blocks)


@pytest.mark.parametrize("outcome", [each.status for each in ENDED])
def test_an_outcome_reads_the_same_on_the_card_in_its_thread_and_in_that_of_its_run(
    samples: Any, referee: Any, outcome: RequestStatus
) -> None:
    """Whoever, when and which request it was stand between the heading and what follows from it."""
    words = OUTCOMES[outcome]
    ended = samples.view(**samples.decided(outcome, who=None))
    at = ended.decided_at.isoformat()
    for card in (
        request_card(ended),
        thread_line({"line": outcome.word, "at": at}),
        run_line({"line": "decided", "outcome": outcome.value, "at": at}),
    ):
        shown = referee.words(card.blocks)
        assert words.heading in shown
        assert words.consequence in shown.partition(words.heading)[2]
