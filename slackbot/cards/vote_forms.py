"""Submitting a form is the vote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.domain.request import Verdict
from agent.domain.request_view import RequestView
from agent.domain.verdicts import VERDICTS
from signoff.values import Person
from slackbot.cards import arguments, blocks, facts, inert
from slackbot.cards.modals import modal
from slackbot.cards.request import title, without_command_in_title
from slackbot.cards.values import (
    CALLBACK_VOTE,
    CHOICE_BLOCK,
    CHOICE_INPUT,
    REASON_BLOCK,
    REASON_INPUT,
    Json,
)

MAX_REASON = 1000
MAX_CHOICE = 75
MAX_CHOICES = 20
MAX_RADIO_BUTTONS = 10
OWN_WORDS_EXCLUDE = "After words of your own, someone else has to approve what this agent proposes next."
OWN_WORDS = "signoff:own_words"
"""A required choice must not prevent own words."""


def vote_modal(verdict: Verdict, view: RequestView, carry: str, reader: Person | None = None) -> Json:
    """`carry` names the button's place."""
    words, required = VERDICTS[verdict], verdict in view.rule.reason_required
    then = "such calls run without asking anybody" if view.grant else "it runs"
    label = words.outcome.own_words
    effect = f"{words.effect.format(then=then)} The agent and the requester will see the {label.lower()}."
    if view.own_words_exclude(reader):
        effect = f"{effect} {OWN_WORDS_EXCLUDE}"
    reasons = view.rule.reject_reasons if verdict is Verdict.REJECT else ()
    chooser = reason_chooser(reasons, required=required)
    # With choices either is enough, which Slack's form cannot express: the submission is checked.
    own = own_words_input(
        "In your own words" if chooser else label,
        required=required and not chooser,
        hint=words.reason_missing if required else None,
    )
    question = blocks.with_ids(_question(view, effect), carry)
    return modal(
        words.button,
        [*question, *chooser, own],
        close="Cancel",
        submit=words.button,
        callback=CALLBACK_VOTE[verdict],
        carry=carry,
    )


def reason_of(view: Mapping[str, Any]) -> str | None:
    """From a `view_submission`'s `view`: the chosen reason, own words, or both; None if empty."""
    typed = _entered(view, REASON_BLOCK, REASON_INPUT).get("value")
    own = typed.strip() if isinstance(typed, str) else None
    return ": ".join(filter(None, [chosen_reason(view), own]))[:MAX_REASON] or None


def chosen_reason(view: Mapping[str, Any]) -> str | None:
    """From a `view_submission`'s `view`: the checkpoint's reason that was chosen, if one was."""
    chosen = _entered(view, CHOICE_BLOCK, CHOICE_INPUT).get("selected_option")
    choice = chosen.get("value") if isinstance(chosen, Mapping) else None
    return choice.strip() or None if isinstance(choice, str) and choice != OWN_WORDS else None


def _question(view: RequestView, effect: str) -> list[Json]:
    given = [*arguments.shown(view, 1200, 12).parts, *arguments.hidden_note(view)]
    known = facts.shown(view, 1200, 12)
    return [
        blocks.rich_text(
            blocks.section(blocks.text(inert.line(title(without_command_in_title(view)), 600), bold=True)),
            *known,
        ),
        *([blocks.rich_text(*given)] if given else []),
        blocks.rich_text(blocks.section(blocks.text(effect))),
    ]


def reason_chooser(reasons: Sequence[str], *, required: bool = False, label: str = "Reason") -> list[Json]:
    """The checkpoint's reasons, as a menu; empty if it has none.

    Slack marks optional inputs with "(optional)", so a required one begins with a choice that leaves the reason to the
    words below.
    """
    known = [reason for reason in reasons if reason.strip()][:MAX_CHOICES]
    choices = [blocks.option(reason, reason[:MAX_CHOICE]) for reason in dict.fromkeys(known)]
    if not choices:
        return []
    own = [blocks.option("Other, in my own words below", OWN_WORDS)] if required else []
    offered = [*choices, *own]
    kind = "radio_buttons" if len(offered) <= MAX_RADIO_BUTTONS else "static_select"
    begin = {"initial_option": own[0]} if own else {}
    element = {"type": kind, "action_id": CHOICE_INPUT, "options": offered, **begin}
    return [blocks.input_block(CHOICE_BLOCK, label, element, optional=not required)]


def own_words_input(label: str, *, required: bool, hint: str | None, focus: bool = True) -> Json:
    """Return the input for the reviewer's own words, which `reason_of` reads."""
    element = {
        "type": "plain_text_input",
        "action_id": REASON_INPUT,
        "multiline": True,
        "max_length": MAX_REASON,
        **({"focus_on_load": True} if focus else {}),
    }
    return blocks.input_block(REASON_BLOCK, label, element, optional=not required, hint=hint)


def _entered(view: Mapping[str, Any], block_id: str, action_id: str) -> Mapping[str, Any]:
    try:
        found = view["state"]["values"][block_id][action_id]
    except (KeyError, TypeError):
        return {}
    return found if isinstance(found, Mapping) else {}
