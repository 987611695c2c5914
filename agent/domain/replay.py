"""Evaluate past actions under another policy."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from agent.domain.coverage import TermsChange, terms_changes
from agent.domain.judgement import CheckpointRuling, Inputs, Ruling
from agent.domain.observation import Observation, ObservedCount
from agent.domain.policy import Policy


@dataclass(frozen=True, slots=True)
class RecordedJudgement:
    """A past evaluation: what it read, what it decided, and what became of its request."""

    id: UUID
    at: datetime
    inputs: Inputs
    verdict: Ruling
    checkpoint_id: str | None
    request_id: UUID | None
    outcome: str | None
    epoch: int = 0
    """Of the policy that it was evaluated under."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A past evaluation whose decision, checkpoint or terms of approval differ under another policy."""

    recorded: RecordedJudgement
    verdict: Ruling
    checkpoint_id: str | None
    because: str
    terms: tuple[TermsChange, ...] = ()
    """Of the approval that people would give, if they are asked in both."""


@dataclass(slots=True)
class Totals:
    """The counts of a replay, which grow with each past evaluation that it repeats."""

    judged: int = 0
    erased: int = 0
    verdicts: Counter[tuple[Ruling, Ruling]] = field(default_factory=Counter)
    """By recorded and new decision."""
    other_checkpoint: int = 0
    terms: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Asked in both: by field, and `tighter`, `looser` or `different`."""
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


def replay(
    policy: Policy,
    recorded: Iterable[RecordedJudgement | None],
    totals: Totals,
    earlier: Mapping[int, Policy] = MappingProxyType({}),
) -> Iterator[Changed]:
    """Yield changed results; `None`: content erased. ``earlier``: policies by epoch, to compare their terms with."""
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
        before = earlier.get(each.epoch)
        terms = () if before is None else _terms_changes(before, policy, each, now)
        totals.terms.update((change.field, change.direction) for change in terms)
        other = (each.verdict, each.checkpoint_id) != (now.verdict, now.checkpoint_id)
        totals.other_checkpoint += other and each.verdict == now.verdict
        if other or terms:
            yield Changed(each, now.verdict, now.checkpoint_id, now.because, terms)


def _terms_changes(
    before: Policy, policy: Policy, recorded: RecordedJudgement, now: CheckpointRuling
) -> tuple[TermsChange, ...]:
    if not recorded.verdict == now.verdict == "ask":
        return ()
    tool = recorded.inputs.tool
    was, then = before.asked_under(recorded.checkpoint_id, tool), policy.asked_under(now.checkpoint_id, tool)
    return () if was is None or then is None else terms_changes(was, then)
