"""Named points at which a crash test may kill the process; without `SIGNOFF_FAULT` they do nothing.

`SIGNOFF_FAULT=vote.committed` ends the process at the first pass of that point, `vote.committed:3` at the
third, the way `kill -9` does: no clean-up, no flush, status 137.
"""

import itertools
import os
from collections.abc import Iterator

POINTS = frozenset(
    {
        "request.commit",  # a request is written, not committed
        "request.committed",  # committed, its card not posted
        "card.accepted",  # Slack took the card, its `ts` not saved
        "vote.commit",  # a click is judged and written, not committed
        "vote.committed",  # the decision is committed, the click not acknowledged
        "vote.acked",  # acknowledged, the card not updated
        "resume.started",  # a worker has the hint of a decision, nothing claimed
        "execution.claimed",  # the attempt is committed, the tool not called
        "execution.effect",  # the tool has returned, its result not committed
        "execution.reported",  # the result is committed, nobody told in the thread
        "expiry.batch",  # some requests of a batch are expired, not committed
    }
)
"""Every point there is. A name outside this catalogue is a mistake and is refused."""


def _armed(setting: str) -> tuple[str, Iterator[int]] | None:
    if not setting:
        return None
    name, _, nth = setting.partition(":")
    if name not in POINTS or not (nth or "1").isdecimal() or int(nth or 1) < 1:
        raise ValueError(f"SIGNOFF_FAULT={setting!r}: expected name or name:n, n from 1; names: {_names()}")
    return name, itertools.count(1 - int(nth or 1))


def _names() -> str:
    return ", ".join(sorted(POINTS))


_ARMED = _armed(os.environ.get("SIGNOFF_FAULT", ""))


def point(name: str) -> None:
    """Pass a named point. Raises ValueError for a name that is not in `POINTS`."""
    if name not in POINTS:
        raise ValueError(f"no fault point {name!r}; there are: {_names()}")
    # The counter is one C call, so that threads cannot both see the pass that counts.
    if _ARMED is not None and _ARMED[0] == name and next(_ARMED[1]) == 0:
        os._exit(137)
