"""Evaluate past actions under another policy."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from agent.domain.judgement import Inputs, Ruling
from agent.domain.observation import Observation, ObservedCount
from agent.domain.policy import Policy


@dataclass(frozen=True, slots=True)
class RecordedJudgement:
    id: UUID
    at: datetime
    inputs: Inputs
    verdict: Ruling
    checkpoint_id: str | None
    request_id: UUID | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Changed:
    recorded: RecordedJudgement
    verdict: Ruling
    checkpoint_id: str | None
    because: str


@dataclass(slots=True)
class Totals:
    judged: int = 0
    erased: int = 0
    verdicts: Counter[tuple[Ruling, Ruling]] = field(default_factory=Counter)
    """By recorded and new decision."""
    other_checkpoint: int = 0
    said: Counter[tuple[Ruling, str]] = field(default_factory=Counter)
    """No longer asked: by new decision and people's outcome."""
    observed: dict[str, ObservedCount] = field(default_factory=dict)
    """By id."""

    def observe(self, seen: Observation, verdict: Ruling) -> None:
        before = self.observed.get(seen.checkpoint_id, ObservedCount(seen.checkpoint_id, seen.version, 0))
        self.observed[seen.checkpoint_id] = replace(
            before,
            judged=before.judged + 1,
            asks=before.asks + seen.applies,
            asked_anyway=before.asked_anyway + (seen.applies and verdict == "ask"),
            frees=before.frees + (verdict == "ask" and seen.verdict == "run"),
        )


def replay(policy: Policy, recorded: Iterable[RecordedJudgement | None], totals: Totals) -> Iterator[Changed]:
    """Yield changed results; `None`: content erased."""
    for each in recorded:
        if each is None:
            totals.erased += 1
            continue
        now = policy.ruling(each.inputs)
        totals.judged += 1
        totals.verdicts[each.verdict, now.verdict] += 1
        for seen in policy.observations(each.inputs):
            totals.observe(seen, now.verdict)
        if each.verdict == "ask" != now.verdict:
            totals.said[now.verdict, each.outcome or "waiting"] += 1
        if (each.verdict, each.checkpoint_id) != (now.verdict, now.checkpoint_id):
            totals.other_checkpoint += each.verdict == now.verdict
            yield Changed(each, now.verdict, now.checkpoint_id, now.because)
