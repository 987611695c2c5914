"""Points at which a crash test may kill the process; without `SIGNOFF_FAULT` they do nothing.

`after_claim` kills the process at its first pass, `after_claim:3` at the third, like `kill -9`. The prefix `freeze@`
stops it instead (SIGSTOP).
"""

import itertools
import os
import signal
from collections.abc import Iterator

POINTS = frozenset(
    {
        "before_request_commits",
        "after_request_commits",  # card not posted
        "after_card_accepted",  # `ts` not saved
        "before_decision_commits",  # click checked and written
        "after_decision_commits",  # click not acknowledged
        "after_ack",  # card not updated
        "after_turn",  # calls recorded, not evaluated
        "before_resume",  # a ready call is read, not claimed
        "after_claim",  # attempt committed, tool not called
        "after_approved_claim",  # the same, committed with the decision
        "after_effect",  # tool returned, result not committed
        "after_result",  # result committed, thread not notified
        "in_expiry_batch",  # some requests expired, not committed
    }
)


FREEZE = "freeze@"


def _armed(setting: str) -> tuple[str, Iterator[int], bool] | None:
    if not setting:
        return None
    name, _, nth = setting.removeprefix(FREEZE).partition(":")
    if name not in POINTS or not (nth or "1").isdecimal() or int(nth or 1) < 1:
        raise ValueError(f"SIGNOFF_FAULT={setting!r}: expected name or name:n, n from 1; names: {_names()}")
    return name, itertools.count(1 - int(nth or 1)), setting.startswith(FREEZE)


def _names() -> str:
    return ", ".join(sorted(POINTS))


_ARMED = _armed(os.environ.get("SIGNOFF_FAULT", ""))


def point(name: str) -> None:
    """Raises ValueError for a name outside `POINTS`."""
    if name not in POINTS:
        raise ValueError(f"no fault point {name!r}; there are: {_names()}")
    # The counter is one C call, so only one thread sees the pass that counts.
    if _ARMED is not None and _ARMED[0] == name and next(_ARMED[1]) == 0:
        if _ARMED[2]:
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            os._exit(137)
