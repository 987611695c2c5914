"""Does an approval cover what would run now? One answer, with its reason, for each claim, edit, retry and replay.

`FIELDS` declares how each field of a rule counts; a field without a declaration fails a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Any

from agent.domain.facts import Facts, FactsSource
from agent.domain.judgement import Judgement
from agent.domain.rules import Rule
from agent.domain.run import CallExecutor
from signoff.values import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredApproval:
    """What people decided, as stored; a request's row that is read for a claim is one."""

    digest_decided: bytes | None
    digest_recorded: bytes | None
    """In the audit log."""
    terms_stand: bool
    """The terms of consent are those of the audit log."""
    signature_decided: bytes | None
    """Of the tool's parameters; None: not compared."""
    asked_version: str | None
    """The agent's; None: not compared."""
    executor_asked: CallExecutor | None
    """Who was to carry it out; None: not compared."""
    facts: bytes | None
    """As shown, in canonical form."""
    facts_source: FactsSource | None
    facts_age: float
    """Seconds."""
    policy: Mapping[str, Any] | None
    """The rule that people were asked under; None: nobody was asked."""
    edited: bool
    """By a reviewer, in this request."""
    escalated: bool
    waited: float
    """Seconds from question to decision."""
    age: float
    """Seconds since the decision."""
    attempts: int

    @property
    def facts_shown(self) -> Facts:
        """Failed if there should have been some."""
        return Facts.from_canonical(self.facts, self.facts_source)


@dataclass(frozen=True, slots=True)
class WouldRun:
    """What would run now. `facts` is None if nobody sent or looked up any; `judgement` None: not evaluated."""

    action: Action
    facts: Facts | None
    judgement: Judgement | None
    facts_are_read: bool = False
    """By a rule or limit for this tool."""
    signature: bytes | None = None
    executor: CallExecutor | None = None
    agent_version: str | None = None

    @property
    def rule(self) -> Rule | None:
        return self.judgement.rule if self.judgement else None


class Gap(StrEnum):
    """Why an approval does not cover what would run."""

    ALTERED = "altered"
    """The stored action is not the decided one, or the terms of consent are not those on record."""
    OTHER_CODE = "other_code"
    DENIED = "denied"
    FACTS_NEEDED = "facts_needed"
    """Nothing can be said before they are sent or looked up."""
    FACTS_CHANGED = "facts_changed"
    STRICTER = "stricter"
    LAPSED = "lapsed"


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A gap between an approval and what would run now, with the reason in words."""

    gap: Gap
    because: str


def uncovered(approval: StoredApproval, decided: Action, now: WouldRun) -> Uncovered | None:
    """None: the approval of the action ``decided`` covers it."""
    return next(_gaps(approval, decided, now), None)


def _gaps(approval: StoredApproval, decided: Action, now: WouldRun) -> Iterator[Uncovered]:
    opened = None if approval.policy is None else Rule.from_snapshot(approval.policy)
    if not decided.digest == approval.digest_decided == approval.digest_recorded:
        yield Uncovered(Gap.ALTERED, "the stored action is not the approved one")
    if not approval.terms_stand:
        yield Uncovered(
            Gap.ALTERED, "the reviewers, quorum or deadline are not those that people were asked under"
        )
    if not approval.attempts and opened is not None and approval.age >= _execute_within(opened, now.rule):
        yield Uncovered(Gap.LAPSED, "its approval is older than `execute_within`")
    if other := _other_code(approval, decided, now):
        yield Uncovered(Gap.OTHER_CODE, other)
    if facts := _facts_gap(approval, now):
        yield facts
    if now.judgement is not None and now.judgement.verdict == "deny":
        yield Uncovered(Gap.DENIED, f"policy denies this now: {now.judgement.told}")
    if opened is not None and now.rule is not None:
        how = HowDecided(approval.edited, approval.escalated, approval.waited)
        if tighter := tightened(opened, now.rule, how):
            yield Uncovered(Gap.STRICTER, f"policy is stricter than before ({', '.join(tighter)})")


def _other_code(approval: StoredApproval, decided: Action, now: WouldRun) -> str | None:
    version, agent_version = now.action.tool_version, now.agent_version
    if decided.tool_version != version:
        return f"the tool is at version {version}, but people were asked about version {decided.tool_version}"
    if decided.canonical != now.action.canonical:
        return "the tool would get arguments that people did not see: its defaults or types have changed"
    if approval.signature_decided not in (None, now.signature):
        return "the tool's parameters have changed"
    if approval.executor_asked not in (None, now.executor):
        return "the tool is executed elsewhere now"
    if approval.asked_version not in (None, agent_version):
        return f"the agent is at version {agent_version}, but people were asked about version {approval.asked_version}"
    return None


def _facts_gap(approval: StoredApproval, now: WouldRun) -> Uncovered | None:
    """People see all facts, so an approval covers exactly those shown, byte by byte in canonical form.

    A program must send facts again if they are too old and a rule reads them, or if they were missing when people
    decided. Signoff looks its own up for every claim; a program's do not replace them.
    """
    facts, source = now.facts, approval.facts_source
    replaces = facts is not None and (source, facts.source) == (FactsSource.SIGNOFF, FactsSource.PROGRAM)
    if facts is not None and not facts.failed and not replaces:
        changed = facts.canonical != approval.facts
        return Uncovered(Gap.FACTS_CHANGED, "its facts have changed") if changed else None
    if source is None and facts is None:
        return None
    if facts is not None and facts.failed:
        return Uncovered(Gap.FACTS_NEEDED, "its facts can no longer be looked up")
    told = source is FactsSource.PROGRAM and approval.facts is not None and facts is None
    too_old = now.facts_are_read and approval.facts_age > _facts_max_age(approval, now)
    if told and not too_old:
        return None
    return Uncovered(Gap.FACTS_NEEDED, "the facts that people saw are too old or missing")


def _facts_max_age(approval: StoredApproval, now: WouldRun) -> float:
    rule = now.rule or (Rule.from_snapshot(approval.policy) if approval.policy else None)
    return rule.facts_max_age.total_seconds() if rule else 0.0


def _execute_within(opened: Rule, now: Rule | None) -> float:
    within = opened.execute_within if now is None else min(opened.execute_within, now.execute_within)
    return within.total_seconds()


@dataclass(frozen=True, slots=True)
class HowDecided:
    """What the decision itself says of fields that matter only sometimes."""

    edited: bool = False
    escalated: bool = False
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class Ordered:
    """A tighter value voids each approval."""

    tighter: Callable[[Rule, Rule], bool]

    def is_tighter(self, a: Rule, b: Rule, _how: HowDecided) -> bool:
        return self.tighter(a, b)


@dataclass(frozen=True, slots=True)
class OnDecision:
    """A tighter value voids an approval that would not have been possible under it."""

    is_tighter: Callable[[Rule, Rule, HowDecided], bool]


@dataclass(frozen=True, slots=True)
class Neutral:
    """No value voids an approval."""

    because: str


def _other_reviewers(a: Rule, b: Rule) -> bool:
    """Somebody may decide under a, but not under b."""
    elsewhere = "channel" in a.approvers and a.channel != b.channel
    return elsewhere or not set(a.approvers) <= set(b.approvers)


def _other_escalation(a: Rule, b: Rule, how: HowDecided) -> bool:
    later = b.escalate_to if b.on_timeout == "escalate" else ()
    return how.escalated and not set(a.escalate_to) <= {*b.approvers, *later}


def _too_slow(a: Rule, b: Rule, how: HowDecided) -> bool:
    windows = 2 if how.escalated and b.on_timeout == "escalate" else 1
    return b.timeout < a.timeout and how.waited > windows * b.timeout.total_seconds()


FIELDS: Mapping[str, Ordered | OnDecision | Neutral] = {
    "adviser_may_approve": Ordered(lambda a, b: a.adviser_may_approve and not b.adviser_may_approve),
    "approvals_required": Ordered(lambda a, b: b.approvals_required > a.approvals_required),
    "approvers": Ordered(_other_reviewers),
    "prevent_self_review": Ordered(lambda a, b: b.prevent_self_review and not a.prevent_self_review),
    "reason_required": Ordered(
        lambda a, b: "approve" in b.reason_required and "approve" not in a.reason_required
    ),
    "risk": Ordered(lambda a, b: b.risk > a.risk),
    "allow_edit": OnDecision(lambda a, b, how: how.edited and a.allow_edit and not b.allow_edit),
    "editor_may_approve": OnDecision(
        lambda a, b, how: how.edited and a.editor_may_approve and not b.editor_may_approve
    ),
    "escalate_to": OnDecision(_other_escalation),
    "timeout": OnDecision(_too_slow),
    "action_pattern": Neutral("evaluation has just applied it to the action"),
    "allow_grants": Neutral("about grants, which hold under the very rule that they were given under"),
    "channel": Neutral("compared with the reviewers, if its members are"),
    "checkpoint_id": Neutral("its terms are compared, not its name"),
    "decide_together": Neutral("each request is decided by a vote of its own, as on its card"),
    "description_template": Neutral("people saw the arguments and facts themselves"),
    "email": Neutral("sends a link to people who may not decide by it"),
    "email_facts": Neutral("as `email`"),
    "execute_within": Neutral("applied at the claim: the shorter one counts"),
    "facts_max_age": Neutral("applied at the claim: the one in force counts"),
    "grant_free": Neutral("as `allow_grants`"),
    "hide": Neutral("moves to Details what no condition, limit or template reads"),
    "labels": Neutral("how names are written on cards"),
    "layout": Neutral("how names are written on cards"),
    "link_template": Neutral("as `description_template`"),
    "money": Neutral("how numbers are written on cards"),
    "notify": Neutral("mentions people without the right to decide"),
    "on_reject": Neutral("about rejections"),
    "on_timeout": Neutral("compared with `escalate_to`"),
    "redact": Neutral("hides values from every reviewer, and counts as shown"),
    "reject_reasons": Neutral("about rejections"),
    "rejected_again": Neutral("about rejections"),
    "rejected_holds": Neutral("about rejections"),
    "remind_at": Neutral("about the time before the decision"),
    "timeout_written": Neutral("how long a program waits"),
    "when": Neutral("evaluation has just applied it to the action"),
}


def tightened(opened: Rule, now: Rule, how: HowDecided) -> list[str]:
    """The fields because of which a decision under ``opened`` would not suffice under ``now``."""
    return [name for name, declared in _COMPARED if declared.is_tighter(opened, now, how)]


_COMPARED = tuple((name, each) for name, each in FIELDS.items() if not isinstance(each, Neutral))


def allows_edit(opened: Rule, now: Rule) -> bool:
    """Both rules must allow the edit, and `opened` must suffice for `now`, the edited action's."""
    return opened.allow_edit and not tightened(opened, now, HowDecided(edited=True))


@dataclass(frozen=True, slots=True)
class TermsChange:
    """Of a rule's field: whether approvals under `before` would not suffice, and the reverse."""

    field: str
    tighter: bool
    looser: bool

    @property
    def direction(self) -> str:
        return "different" if self.tighter and self.looser else "tighter" if self.tighter else "looser"


def terms_changes(before: Rule, after: Rule) -> tuple[TermsChange, ...]:
    """The fields in which two rules ask for different approvals."""
    always = HowDecided(edited=True, escalated=True, waited=inf)
    tighter, looser = tightened(before, after, always), tightened(after, before, always)
    return tuple(
        TermsChange(name, name in tighter, name in looser) for name in FIELDS if name in {*tighter, *looser}
    )
