"""An approval is handed over to a program that acts by itself and does not report."""

from __future__ import annotations

import logging

from signoff.client.attempts import claim, report
from signoff.client.effects import Operation
from signoff.client.facts import FactsOrFunction
from signoff.client.operations import PATIENCE, WaitLimit
from signoff.client.reviews import Approval, ClaimedAction
from signoff.durations import Duration
from signoff.errors import SignoffError

log = logging.getLogger("signoff.client")

HANDED_OVER = "Handed over to the agent that asked, which executes it itself; the outcome is not reported."


def hand_over(
    decision: Approval,
    *,
    facts: FactsOrFunction = None,
    timeout: Duration | WaitLimit | None,
    patience: float = PATIENCE,
) -> Operation[ClaimedAction]:
    """Claim an approval for a program that does not report.

    If the report fails, the claim remains: people are asked what happened.
    """
    claimed = yield from claim(decision, facts=facts, timeout=timeout, patience=patience)
    try:
        yield from report(claimed, HANDED_OVER, patience=patience)
    except SignoffError as failure:
        log.error("could not report: %s (request %s)", failure, claimed.id)  # noqa: TRY400
    return claimed
