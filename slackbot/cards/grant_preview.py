"""The preview of a grant: what may differ, its bounds, and what people decided about such calls before."""

from __future__ import annotations

from dataclasses import dataclass

from agent.domain.field_constraints import constraint_in_words, number_in_words
from agent.domain.request_view import RequestView
from signoff.formats import Money
from slackbot.cards import blocks, inert
from slackbot.cards.grant_form import GrantTerms, duration_text
from slackbot.cards.modals import modal
from slackbot.cards.request import title
from slackbot.cards.values import CALLBACK_SAVE_GRANT, Json

MAX_CARRIED = 3000
MAX_LINKS = 5


@dataclass(frozen=True, slots=True)
class Preview:
    """``links`` lead to matching rejected decisions."""

    looked_at: int
    approved: int
    rejected: int
    links: tuple[tuple[str, str | None], ...] = ()


def preview_modal(view: RequestView, terms: GrantTerms, preview: Preview, carry: str) -> Json:
    """Submitting the modal gives the grant."""
    money = Money.declared(view.rule.money)
    freed = [
        words
        for root, constraints in (("args", terms.arguments), ("facts", terms.facts or {}))
        for name, each in constraints.items()
        if (words := constraint_in_words(f"{root}.{name}", each, money.below(root, name))) is not None
    ]
    same = "for the same requester only" if view.requester else "only without a requester in Slack"
    total = (
        f", {terms.sum_of} up to {number_in_words(terms.max_sum, money.below(*terms.sum_of.split('.')))} in total"
        if terms.max_sum is not None and terms.sum_of is not None
        else ""
    )
    times = "Once" if terms.max_uses == 1 else f"Up to {terms.max_uses:,} times"
    bounds = f"{times} within {duration_text(terms.lasts)}, {'for anyone' if terms.anyone else same}{total}."
    quorum = (
        f" It needs {view.approvals_required:,} reviewers; the grant's card asks the others."
        if view.approvals_required > 1
        else ""
    )
    rows = [
        blocks.rich_text(
            blocks.section(blocks.text(inert.line(title(view), 600), bold=True)),
            blocks.section(blocks.text("May differ:", bold=True)),
            blocks.bullets(
                blocks.section(blocks.text(inert.line(each, 300)))
                for each in freed or ["nothing: only exactly the same call"]
            ),
            blocks.section(blocks.text(f"{bounds}{quorum}")),
        ),
        blocks.rich_text(blocks.section(blocks.text(_history(preview), bold=preview.rejected > 0))),
    ]
    if preview.links:
        rejected = [
            blocks.section(blocks.link(url, label) if url else blocks.text(label))
            for label, url in preview.links[:MAX_LINKS]
        ]
        rows.append(
            blocks.rich_text(
                blocks.section(blocks.text("Rejected, although they match:")), blocks.bullets(rejected)
            )
        )
    return modal(
        "Allow similar calls",
        blocks.with_ids(rows, carry[:60]),
        close="Cancel",
        submit="Save",
        callback=CALLBACK_SAVE_GRANT,
        carry=carry,
    )


def _history(preview: Preview) -> str:
    if not preview.looked_at:
        return "No call of this tool was decided before."
    calls = "1 decided call" if preview.looked_at == 1 else f"the last {preview.looked_at:,} decided calls"
    matched = preview.approved + preview.rejected
    return (
        f"Of {calls} of this tool {matched:,} {'matches' if matched == 1 else 'match'}: "
        f"{preview.approved:,} approved, {preview.rejected:,} rejected."
    )
