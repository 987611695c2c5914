"""Which actions people must see first, who decides them, and how.

The first checkpoint, in file order, that names the tool and whose `when` is not false catches a call. A call that
all its checkpoints let pass by a real `false` runs; `unmatched` is for tools that none names. What a tool says of
itself can only be stricter. What is not known (facts, a condition that fails) is a reason to ask.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_serializer,
    model_serializer,
)

from agent.domain.description_template import render
from agent.domain.errors import OutdatedPolicy
from agent.domain.expression import Subject, compile_when, matches_from_start
from agent.domain.facts import FACTS_MAX_AGE
from agent.domain.facts_sources import FactsLookup
from agent.domain.limits import Limit, LimitState, Use, decisive
from agent.domain.link_template import placeholder_names, render_link
from agent.domain.observation import Observation
from signoff.canonical import canonical_bytes, plain_json
from signoff.description import describe, tool_and_arguments
from signoff.errors import MalformedArguments
from signoff.masks import redact_by_name
from signoff.values import Action, Person, Risk

OnReject = Literal["stop", "tell_model"]
OnTimeout = Literal["expire", "escalate"]
NeedsReason = Literal["approve", "reject"]
Unmatched = Literal["review", "allow", "deny"]
RejectedAgain = Literal["refuse", "show"]
Ruling = Literal["run", "ask", "deny"]
Snapshot = dict[str, Any]
"""A rule as JSON, stored with each request it catches, so that later edits of the file change nothing."""

UNMATCHED = "unmatched"
REQUIRES_APPROVAL = "requires_approval"
FACTS_FAILED = "facts_failed"
LIMIT_REACHED = "limit_reached"
RESERVED_IDS = frozenset({UNMATCHED, REQUIRES_APPROVAL, FACTS_FAILED, LIMIT_REACHED})
"""Checkpoint ids of the rules that policy makes itself, out of the defaults."""


def on_reject_by_risk(risk: Risk) -> OnReject:
    """What a rejection does where nobody says it: below high risk the model is told and may try otherwise."""
    return "stop" if risk >= Risk.HIGH else "tell_model"


class Terms(BaseModel):
    """How a request is decided; what `[defaults]` and each checkpoint have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    risk: Risk = Risk.MEDIUM
    approvers: tuple[str, ...] = ("channel",)
    """Who may decide: Slack user ids (U…, W…), user group ids (S…), or "channel" for its current members."""

    notify: tuple[str, ...] = ()
    """Whom the card mentions; this gives nobody the right to decide."""

    approvals_required: int = Field(default=1, ge=1)
    channel: str | None = None
    """Where the card goes; None: the service's own channel."""

    timeout: timedelta = timedelta(hours=24)
    prevent_self_review: bool = True
    on_reject: OnReject | None = None
    """None, in defaults only: by risk (`on_reject_by_risk`)."""

    reason_required: tuple[NeedsReason, ...] = ()
    """Which answers need a reason."""

    reject_reasons: tuple[str, ...] = ()
    """Reasons to choose from when rejecting; own words are always possible."""

    allow_edit: bool = False
    """Whether a reviewer may change the arguments; the edited action is asked about anew."""

    editor_may_approve: bool = False
    """Whether the approval of the person who edited counts; if not, somebody else has to approve the edit."""

    remind_at: tuple[float, ...] = ()
    """When reviewers are reminded, as fractions of the time that a request waits; rising."""

    on_timeout: OnTimeout = "expire"
    """What happens at the deadline. `escalate`: `escalate_to` may decide as well, and it waits as long again."""

    escalate_to: tuple[str, ...] = ()
    """Users and user groups."""

    redact: tuple[str, ...] = ()
    """Names or dotted paths of arguments and facts whose values nobody is shown (`signoff.json_paths`)."""

    facts_max_age: timedelta = FACTS_MAX_AGE
    """How old the facts that a program told may be when it claims; older ones that a rule reads are told again."""

    execute_within: timedelta = timedelta(hours=24)
    """How long an approval can be claimed by an executor outside; then it lapses. Our own agents start at once."""

    email: tuple[str, ...] = ()
    """Who is sent a link to each request by e-mail, where the service has a mail server; decides nothing."""

    email_facts: tuple[str, ...] = ()
    """Names or dotted paths of the facts that these e-mails carry."""

    rejected_holds: timedelta | None = None
    """How long a rejection of the very same action holds in every run of its agent; None: in its run alone."""

    rejected_again: RejectedAgain = "refuse"
    """What happens to that action while its rejection holds. `show`: people are asked, and see the rejection."""

    @field_serializer("rejected_holds")
    def _seconds_if_any(self, duration: timedelta | None) -> float | None:
        return None if duration is None else duration.total_seconds()

    @field_serializer("timeout", "execute_within", "facts_max_age")
    def _seconds(self, duration: timedelta) -> float:
        return duration.total_seconds()

    @model_serializer(mode="wrap")
    def _known_before(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is new and unused: a worker of the previous version refuses a snapshot with an unknown key."""
        made: dict[str, Any] = written(self)
        return {key: value for key, value in made.items() if key not in _NEW_KEYS or value not in _UNUSED}


_NEW_KEYS = frozenset(
    {"email_facts", "rejected_holds", "rejected_again", "allow_grants", "grant_free", "facts_max_age"}
)
_UNUSED: tuple[Any, ...] = (None, False, (), [], {}, FACTS_MAX_AGE.total_seconds(), "refuse")
"""What these say where nobody has said anything."""

CARDS_PER_MINUTE = 10


class Defaults(Terms):
    """The `[defaults]` of a checkpoints file."""

    unmatched: Unmatched = "review"
    """What happens to a tool call that no checkpoint names, unless the tool is read-only."""

    admin_channel: str | None = None
    """Who is told, beside the requester, when a review channel cannot be reached."""

    default_agent: str | None = None
    """The agent that takes what people write to the app itself."""

    cards_per_minute: int = Field(default=CARDS_PER_MINUTE, ge=1)
    """New cards of one agent, or of one program's key, in one channel; a digest card stands for the rest."""

    def terms(self) -> dict[str, Any]:
        """What checkpoints inherit."""
        return self.model_dump(include=set(Terms.model_fields))


class Rule(Terms):
    """A checkpoint with everything filled in: which actions it catches, and how they are decided."""

    checkpoint_id: str
    action_pattern: str
    when: str | None = None
    description_template: str | None = None
    link_template: str | None = None
    """Where the card's one live button leads: the operator's own host, with values filled in."""

    on_reject: OnReject
    allow_grants: bool = False
    """Whether reviewers may allow calls like one of its own in advance (`agent.domain.grants`)."""

    grant_free: tuple[tuple[str, str], ...] = ()
    """Which texts a grant may leave open: `args.<name>` or `facts.<name>`, each with the pattern that it must fit."""

    def names(self, tool: str) -> bool:
        """Whether the pattern fits the tool's name from its start: `delete_*` also names `delete_records`."""
        return matches_from_start(self.action_pattern, tool)

    @property
    def reads_facts(self) -> bool:
        """Whether its condition, a template of it or its e-mails read facts."""
        templates = (self.description_template or "", self.link_template or "")
        filled_in = {path[0] for template in templates for path in placeholder_names(template)}
        judged = self.when is not None and compile_when(self.when).uses_facts
        return judged or "facts" in filled_in or bool(self.email_facts)

    def describe(self, action: Action, facts: Mapping[str, Any] | None) -> str:
        """What the action does, masked (by name and `redact`), because it stands in lists and notifications."""
        arguments = redact_by_name(action.arguments, self.redact).value
        if self.description_template is None:
            return tool_and_arguments(action.tool, arguments)
        return render(self.description_template, arguments, redact_by_name(facts, self.redact, "facts").value)

    def link(self, action: Action, facts: Mapping[str, Any] | None) -> str | None:
        """The address behind the card's button; None without a template, or when a value of it is missing."""
        if self.link_template is None:
            return None
        return render_link(self.link_template, action.arguments, facts)

    def snapshot(self) -> Snapshot:
        """This rule as JSON, for the request that it catches."""
        return self.model_dump(mode="json")

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> "Rule":
        """The rule that a request was opened under. Raises pydantic.ValidationError for anything else."""
        return cls.model_validate(snapshot)


@dataclass(frozen=True)
class ObservedRule:
    """A checkpoint that is only observed: it decides nothing, and what it would have asked is counted."""

    rule: Rule
    until: datetime
    """From then on it does nothing."""
    place: int
    """How many of the policy's rules stand before it in the file."""

    @cached_property
    def version(self) -> str:
        """Stands for the rule as it is written."""
        return _sha256(self.rule.snapshot()).hex()[:12]

    def snapshot(self) -> Snapshot:
        return {"rule": self.rule.snapshot(), "until": self.until.isoformat(), "place": self.place}


@dataclass(frozen=True)
class ToolTraits:
    """What a tool says of itself where it is defined."""

    name: str
    version: str
    requires_approval: bool = False
    risk: Risk | None = None
    read_only: bool = False
    exempt: str = "is read-only"
    """Why `unmatched` does not hold for one that is `read_only` in the eyes of policy, as a phrase."""


@dataclass(frozen=True)
class Judgement:
    """What policy says of one action. `rule` is set for "ask"; `because` is a phrase for the record."""

    verdict: Ruling
    rule: Rule | None
    because: str
    description: str
    epoch: int = 0
    """Of the policy that says so."""
    inputs: "Inputs | None" = field(default=None, compare=False)
    observed: tuple[Observation, ...] = field(default=(), compare=False)
    """What observed checkpoints would have made of it."""
    rejected: UUID | None = field(default=None, compare=False)
    """The request in which people rejected the very same action, to be shown to whoever is asked."""
    ruled: tuple[Ruling, str | None] | None = field(default=None, compare=False)
    """What the checkpoints alone said, and by which: where a limit or an earlier rejection says something else."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a judgement rests on; the facts are sound."""

    tool: ToolTraits
    action: Action
    facts: Mapping[str, Any] | None
    agent: str
    requester: str | None
    facts_failed: bool = False

    @property
    def subject(self) -> Subject:
        """What conditions see of it."""
        return Subject(self.action.arguments, self.facts, self.agent, self.requester, is_plain=True)


@dataclass(frozen=True, slots=True)
class CheckpointRuling:
    """What the checkpoints say of one action: `rule` catches it, or one out of the defaults (`caught_as`)."""

    verdict: Ruling
    because: str
    rule: Rule | None = None
    caught_as: str | None = None

    @property
    def checkpoint_id(self) -> str | None:
        return self.rule.checkpoint_id if self.rule else self.caught_as


@dataclass(frozen=True, slots=True)
class GrantLimits:
    """The `[grants]` of the policy: beyond them a grant is refused."""

    max_for: timedelta
    max_uses: int

    def snapshot(self) -> Snapshot:
        return {"max_for": self.max_for.total_seconds(), "max_uses": self.max_uses}


@dataclass(frozen=True)
class Policy:
    """All checkpoints, in file order, defaults and limits. Without any file: `Policy()` asks for everything."""

    rules: tuple[Rule, ...] = ()
    defaults: Defaults = field(default_factory=Defaults)
    grants: GrantLimits | None = None
    """``None``: no grant is given or used."""
    limits: tuple[Limit, ...] = ()
    lookups: tuple[FactsLookup, ...] = ()
    """Where Signoff looks up the facts about what programs ask."""
    observed: tuple[ObservedRule, ...] = ()
    """They are not among the rules, so that they can change no verdict."""
    source: str = field(default="", repr=False, compare=False)
    """The text that it was read from."""
    epoch: int = field(default=0, compare=False)
    """Its number among the policies that were ever in force here; 0: it comes from no database."""

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical JSON of the whole policy, comments and order of keys left out."""
        rules = [rule.snapshot() for rule in self.rules]
        limits = {"limits": [limit.snapshot() for limit in self.limits]} if self.limits else {}
        lookups = [{"tool": each.tool, "url": each.url} for each in self.lookups]
        facts = {"facts": lookups} if lookups else {}
        grants = {"grants": self.grants.snapshot()} if self.grants else {}
        observed = {"observed": [each.snapshot() for each in self.observed]} if self.observed else {}
        defaults = self.defaults.model_dump(mode="json")
        return _sha256({"defaults": defaults, "rules": rules, **limits, **facts, **grants, **observed})

    @property
    def channels(self) -> frozenset[str]:
        """Every channel that it names, by name or id."""
        named = (*(rule.channel for rule in self.rules), self.defaults.channel, self.defaults.admin_channel)
        return frozenset(name for name in named if name)

    @property
    def in_file_order(self) -> tuple[Rule, ...]:
        """All checkpoints as they stand in the file, those that are observed among them."""
        rules = list(self.rules)
        for each in reversed(self.observed):
            rules.insert(each.place, each.rule)
        return tuple(rules)

    def judge(
        self,
        tool: ToolTraits,
        action: Action,
        facts: Mapping[str, Any] | None,
        agent: str,
        requester: str | None,
        *,
        facts_failed: bool = False,
    ) -> Judgement:
        """Whether this action runs, is asked about, or denied. `facts_failed`, or no canonical form: never just run."""
        known = None if facts_failed else _sound(facts)
        failed = facts_failed or (known is None and facts is not None)
        given = Inputs(tool, action, known, agent, requester, failed)
        found = self.ruling(given)
        rule = self._rule_of(found, tool)
        description = rule.describe(action, known) if rule else describe(action)
        return Judgement(
            found.verdict, rule, found.because, description, self.epoch, given, self.observations(given)
        )

    def ruling(self, given: Inputs) -> CheckpointRuling:
        """What the checkpoints say of an action whose facts are sound."""
        return self._ruling(given, self.rules)

    def observations(self, given: Inputs) -> tuple[Observation, ...]:
        """What observed checkpoints would make of it."""
        return tuple(
            self._observation(each, given) for each in self.observed if each.rule.names(given.action.tool)
        )

    def explain(self, given: Inputs) -> list[tuple[Rule, bool, str]]:
        """Each checkpoint that names the tool, in file order: whether it applies, and why."""
        subject = given.subject
        return [
            (rule, *_applies(rule, given, subject)) for rule in self.rules if rule.names(given.action.tool)
        ]

    def _observation(self, observed: ObservedRule, given: Inputs) -> Observation:
        applies, because = _applies(observed.rule, given, given.subject)
        with_it = (*self.rules[: observed.place], observed.rule, *self.rules[observed.place :])
        verdict = self._ruling(given, with_it).verdict
        return Observation(
            observed.rule.checkpoint_id, observed.version, observed.until, applies, verdict, because
        )

    def _ruling(self, given: Inputs, rules: Sequence[Rule]) -> CheckpointRuling:
        exempt: list[str] = []
        subject = given.subject
        for rule in rules:
            if not rule.names(given.action.tool):
                continue
            applies, because = _applies(rule, given, subject)
            if applies:
                return CheckpointRuling("ask", because, rule=rule)
            exempt.append(because)
        return self._uncaught(given, exempt)

    def _rule_of(self, ruling: CheckpointRuling, tool: ToolTraits) -> Rule | None:
        if ruling.rule is not None:
            return _stricter_risk(ruling.rule, tool)
        return self.synthetic(ruling.caught_as, tool) if ruling.caught_as else None

    def lookup(self, tool: str) -> FactsLookup | None:
        """Where Signoff looks up the facts about a program's call of this tool, if it does."""
        return next((each for each in self.lookups if each.tool == tool), None)

    def reads_facts(self, tool: str) -> bool:
        """Whether any rule or limit that names this tool reads facts, to judge the action or to describe it."""
        rules = any(rule.reads_facts for rule in self.rules if rule.names(tool))
        return rules or any(limit.reads_facts for limit in self.limits if limit.names(tool))

    def uses(
        self, action: Action, facts: Mapping[str, Any] | None, agent: str, requester: Person | None
    ) -> tuple[Use, ...]:
        """What this action takes of each limit that names it."""
        return tuple(
            Use(limit, limit.subject(agent, requester), limit.amount(action, facts))
            for limit in self.limits
            if limit.names(action.tool)
        )

    def within_limits(
        self,
        judgement: Judgement,
        states: Sequence[LimitState],
        tool: ToolTraits,
        action: Action,
        facts: Mapping[str, Any] | None,
    ) -> Judgement:
        """The judgement, or a stricter one where its limits, in these states, have no room for what would run.

        People are asked under the first checkpoint that names the tool, whatever its `when` says, or the defaults.
        """
        state = decisive(states) if judgement.verdict == "run" else None
        if state is None:
            return judgement
        judgement = replace(judgement, ruled=("run", None))
        if state.verdict == "deny":
            return replace(judgement, verdict="deny", because=state.because)
        named = next((rule for rule in self.rules if rule.names(action.tool)), None)
        rule = _stricter_risk(named, tool) if named else self.synthetic(LIMIT_REACHED, tool)
        description = rule.describe(action, _sound(facts))
        return replace(judgement, verdict="ask", rule=rule, because=state.because, description=description)

    def synthetic(self, checkpoint_id: str, tool: ToolTraits) -> Rule:
        """A rule made of the defaults, for a tool that no checkpoint catches."""
        on_reject = self.defaults.on_reject or on_reject_by_risk(self.defaults.risk)
        terms = self.defaults.terms() | {"on_reject": on_reject}
        pattern = re.escape(tool.name) + r"\z"
        rule = Rule(checkpoint_id=checkpoint_id, action_pattern=pattern, **terms)
        return _stricter_risk(rule, tool)

    def _uncaught(self, given: Inputs, exempt: list[str]) -> CheckpointRuling:
        unmatched, tool = self.defaults.unmatched, given.tool
        if tool.requires_approval:
            return CheckpointRuling("ask", "the tool itself requires approval", caught_as=REQUIRES_APPROVAL)
        if not exempt and not tool.read_only and unmatched == "deny":
            return CheckpointRuling("deny", "no checkpoint names this tool, and unmatched tools are denied")
        if given.facts_failed:
            return CheckpointRuling("ask", "its facts could not be looked up", caught_as=FACTS_FAILED)
        if exempt:
            return CheckpointRuling("run", "; ".join(exempt))
        if tool.read_only or unmatched == "allow":
            pardon = tool.exempt if tool.read_only else "is unmatched, and unmatched tools are allowed"
            return CheckpointRuling("run", f"no checkpoint names this tool; it {pardon}")
        return CheckpointRuling("ask", "no checkpoint names this tool", caught_as=UNMATCHED)


def outdated(judged_by: int, in_force: int) -> OutdatedPolicy | None:
    """The error for what was judged by another policy than the one in force."""
    if judged_by == in_force:
        return None
    return OutdatedPolicy(f"evaluated under policy {judged_by}, but policy {in_force} is in force")


def check_epoch(judged_by: int, in_force: int) -> None:
    """Raise OutdatedPolicy for what was judged by another policy than the one in force."""
    if error := outdated(judged_by, in_force):
        raise error


def snapshot_digest(snapshot: Snapshot) -> bytes:
    """SHA-256 of a snapshot's canonical JSON, 32 bytes: which policy a request was opened under."""
    return _sha256(snapshot)


def stricter(a: Rule, b: Rule) -> bool:
    """Whether b asks more than a (people, risk, separation, reasons), or bars somebody who may decide under a."""
    return (
        b.approvals_required > a.approvals_required
        or b.risk > a.risk
        or (b.prevent_self_review and not a.prevent_self_review)
        or ("approve" in b.reason_required and "approve" not in a.reason_required)
        or not set(a.approvers) <= set(b.approvers)
        or ("channel" in a.approvers and a.channel != b.channel)
    )


def allows_edit(opened: Rule, now: Rule) -> bool:
    """Whether a request under one rule may be edited into what `now` catches: both allow it, and the first suffices."""
    stays_separate = opened.editor_may_approve <= now.editor_may_approve
    return opened.allow_edit and now.allow_edit and stays_separate and not stricter(opened, now)


def _applies(rule: Rule, given: Inputs, subject: Subject) -> tuple[bool, str]:
    label = f'checkpoint "{rule.checkpoint_id}"'
    if rule.when is None:
        return True, label
    when = compile_when(rule.when)
    if given.facts_failed and when.uses_facts:
        # has(facts.x) would be an honest false here, about facts that nobody has seen.
        return True, f"{label}: when ({rule.when}) needs facts that could not be looked up"
    result = when.applies(subject)
    return result.applies, f"{label}: {result.because}"


def _sound(facts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A copy of the facts as JSON has them, or None: a NaN price would make every comparison false."""
    try:
        copy = plain_json(facts)
    except MalformedArguments:
        return None
    return copy if isinstance(copy, dict) else None


def _stricter_risk(rule: Rule, tool: ToolTraits) -> Rule:
    """The rule with the tool's own risk where that is higher; a default reaction to rejection follows it."""
    if tool.risk is None or tool.risk <= rule.risk:
        return rule
    follows_risk = rule.on_reject == on_reject_by_risk(rule.risk)
    on_reject = on_reject_by_risk(tool.risk) if follows_risk else rule.on_reject
    return rule.model_copy(update={"risk": tool.risk, "on_reject": on_reject})


def _sha256(value: Any) -> bytes:
    return hashlib.sha256(canonical_bytes(value)).digest()
