"""What holds for starting agents and talking to them, whichever door somebody comes through."""

from __future__ import annotations

from agent.domain.errors import Refusal, sentence

MAX_TASK = 8000
"""Characters. A message has at most 40,000; a task longer than this is a document, not a task."""

_MAY_NOT = {
    Refusal.GUEST: "Guests of this workspace cannot start agents or talk to them.",
    Refusal.EXTERNAL: "You belong to another workspace; only members of this one can start agents or talk to them.",
    Refusal.STRANGER: "Slack does not know you as a member of this workspace, so you cannot start agents.",
    Refusal.LOOKUP_FAILED: "Slack did not tell us who you are, so nothing was started. Please try again in a moment.",
    Refusal.RATE_LIMITED_LOOKUP: (
        "Slack asked us to slow down before we could check who you are, so nothing was started. "
        "Please try again in a minute."
    ),
}


def start_refusal(refusal: Refusal) -> str:
    """What somebody is told who may not start agents or talk to them."""
    return _MAY_NOT.get(refusal) or sentence(refusal).replace("review requests", "start agents")
