"""A group: requests of one batch and checkpoint that share a message instead of a card each.

While its batch is still coming in, a request is gathered under the batch's name; then the group is formed, once, and
never grows: a message that is changed rings nobody. Later requests of the batch are gathered anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.domain.answers import AnswerForm
from agent.domain.rules import Rule
from signoff.values import Risk

HOLD_SECONDS = 0.7
"""How long the first request of a batch waits for the others; a channel is looked at every second, too."""

_BATCH, _GROUP = "batch:", "group:"


@dataclass(frozen=True, slots=True)
class Batch:
    """What is asked at once: the calls of one turn of a run, or of one `submit_many` of a program.

    `name`: unlike any other batch's. `size`: of all of them, also of those that need nobody.
    """

    name: str
    size: int


def gathered_in(batch: Batch | None, rule: Rule, form: AnswerForm | None, group_from: int) -> str | None:
    """Return the name under which a request is gathered with others of its batch; None for a card at once.

    High risk, several approvals and a wanted answer have a card of their own.
    """
    if batch is None or not 0 < group_from <= batch.size:
        return None
    alone = rule.risk >= Risk.HIGH or rule.approvals_required > 1 or form is not None
    return None if alone else f"{_BATCH}{batch.name}:{rule.checkpoint_id}"


def is_batch(digest: str) -> bool:
    """Whether a digest is only the name under which requests are gathered."""
    return digest.startswith(_BATCH)


def is_group(digest: str) -> bool:
    """Whether a digest is the message of a group; any other is that of a sender's flood."""
    return digest.startswith(_GROUP)


def group_name(number: object) -> str:
    """Return a new group's name, from a number that no other group has."""
    return f"{_GROUP}{number}"
