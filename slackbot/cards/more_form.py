"""The form behind *More…*: what a reviewer can do beside approving and rejecting, each with what it does."""

from __future__ import annotations

from agent.domain.request_view import RequestView
from slackbot.cards import blocks, buttons, inert
from slackbot.cards.modals import modal
from slackbot.cards.request import title, unreadable, withheld_note
from slackbot.cards.values import CALLBACK_MORE, Json


def more_modal(view: RequestView, carry: str) -> Json:
    """`carry` names the place of the button that opened it: its own buttons count there."""
    withheld = unreadable(view)
    rows = [
        blocks.rich_text(blocks.section(blocks.text(inert.line(title(view), 600), bold=True))),
        *withheld_note(view, withheld),
        *(
            blocks.labelled(each.effect, each.button)
            for each in buttons.choices(view, approvable=not withheld)
        ),
    ]
    rows = blocks.with_ids(rows, f"{view.id}:{view.revision}:more")
    return modal("More", rows, close="Close", callback=CALLBACK_MORE, carry=carry)
