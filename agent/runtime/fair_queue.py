"""Agents take turns for slots, so one agent's flood does not delay others."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from uuid import UUID

from agent.database.wakeups import Wakeup

MOST = 1000
"""Per agent; polling finds the rest."""

_Waiting = OrderedDict[UUID | str, Wakeup]


@dataclass(slots=True)
class _Lane:
    first: _Waiting = field(default_factory=OrderedDict)
    rest: _Waiting = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self.first) + len(self.rest)


class FairQueue:
    """Distinct wake-ups: agents in turn, urgent ones first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lanes: OrderedDict[str | None, _Lane] = OrderedDict()

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes.values())

    def put(self, wakeup: Wakeup) -> bool:
        """False: too much of its agent is waiting."""
        lane = self._lanes.setdefault(wakeup.agent, _Lane())
        if wakeup.key in lane.first:
            return True
        known = wakeup.key in lane.rest
        if not known and len(lane) >= self._most:
            return False
        if wakeup.first:
            lane.rest.pop(wakeup.key, None)
            lane.first[wakeup.key] = wakeup
        elif not known:
            lane.rest[wakeup.key] = wakeup
        return True

    def pop(self) -> Wakeup | None:
        if not self._lanes:
            return None
        agent, lane = next(iter(self._lanes.items()))
        _, wakeup = (lane.first or lane.rest).popitem(last=False)
        if lane:
            self._lanes.move_to_end(agent)
        else:
            del self._lanes[agent]
        return wakeup
