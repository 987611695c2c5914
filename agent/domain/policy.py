"""Which actions people must see first, who decides them, and how.

Denying checkpoints are tried before all others. Then the first checkpoint, in file order, that names the tool and whose
`when` is not false applies. A call runs if `when` is false in all of these that name its tool; `unmatched` is for
tools that none names. A denying checkpoint whose `when` is false counts as not naming the tool: it frees nothing. A
tool's own declarations can only be stricter. Missing facts and failing conditions are reasons to ask, or to deny.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from agent.domain.errors import OutdatedPolicy
from agent.domain.expression import Subject, compile_when
from agent.domain.facts import FactsLookup
from agent.domain.judgement import CheckpointRuling, Inputs, Judgement, Ruling, ToolTraits
from agent.domain.limits import Caller, Limit, LimitState, Use, decisive
from agent.domain.observation import Observation
from agent.domain.rules import (
    FACTS_FAILED,
    LIMIT_REACHED,
    REQUIRES_APPROVAL,
    RESERVED_IDS,
    UNMATCHED,
    Checkpoint,
    Defaults,
    Denial,
    GrantLimits,
    ObservedRule,
    Rule,
    digest_of,
    on_reject_by_risk,
)
from signoff.canonical import plain_json
from signoff.errors import MalformedArguments
from signoff.values import Action


@dataclass(frozen=True)
class Policy:
    """`Policy()` asks for everything."""

    rules: tuple[Rule, ...] = ()
    defaults: Defaults = field(default_factory=Defaults)
    grants: GrantLimits | None = None
    """``None``: no grant is given or used."""
    limits: tuple[Limit, ...] = ()
    lookups: tuple[FactsLookup, ...] = ()
    observed: tuple[ObservedRule, ...] = ()
    """Kept apart from the rules, so that they change no decision."""
    denials: tuple[Denial, ...] = ()
    """Kept apart from the rules, so that they free nothing and lend their terms to nothing."""
    source: str = field(default="", repr=False, compare=False)
    epoch: int = field(default=0, compare=False)
    """0: not from a database."""

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of canonical JSON: comments and key order do not count."""
        rules = [rule.snapshot() for rule in self.rules]
        limits = {"limits": [limit.snapshot() for limit in self.limits]} if self.limits else {}
        lookups = [{"tool": each.tool, "url": each.url} for each in self.lookups]
        facts = {"facts": lookups} if lookups else {}
        grants = {"grants": self.grants.snapshot()} if self.grants else {}
        observed = {"observed": [each.snapshot() for each in self.observed]} if self.observed else {}
        denials = {"denials": [each.snapshot() for each in self.denials]} if self.denials else {}
        defaults = self.defaults.model_dump(mode="json")
        return digest_of(
            {"defaults": defaults, "rules": rules, **limits, **facts, **grants, **observed, **denials}
        )

    @property
    def channels(self) -> frozenset[str]:
        """Channels by name or id."""
        named = (*(rule.channel for rule in self.rules), self.defaults.channel, self.defaults.admin_channel)
        return frozenset(name for name in named if name)

    @property
    def deciding(self) -> tuple[Checkpoint, ...]:
        """All but observed ones, in the order in which they are tried."""
        return (*self.denials, *self.rules)

    @property
    def in_file_order(self) -> tuple[Checkpoint, ...]:
        """Observed ones, too; an index is that of the file's `[[checkpoint]]`."""
        found: list[Checkpoint] = list(self.rules)
        for each in reversed(self.observed):
            found.insert(each.place, each.rule)
        for denial in self.denials:
            found.insert(denial.place, denial)
        return tuple(found)

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """Observed ones, too."""
        return tuple(each for each in self.in_file_order if isinstance(each, Rule))

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
        """With `facts_failed`, or without a canonical form, the action never runs."""
        known = None if facts_failed else _copied_facts(facts)
        failed = facts_failed or (known is None and facts is not None)
        given = Inputs(tool, action, known, agent, requester, failed)
        found = self.ruling(given)
        return Judgement(
            found.verdict,
            self._rule_of(found, tool),
            found.because,
            self.epoch,
            given,
            self.observations(given),
            denial=found.denial,
        )

    def ruling(self, given: Inputs) -> CheckpointRuling:
        """The facts must be valid."""
        return self._ruling(given, self.rules)

    def observations(self, given: Inputs) -> tuple[Observation, ...]:
        return tuple(
            self._observation(each, given) for each in self.observed if each.rule.names(given.action.tool)
        )

    def denial(self, given: Inputs) -> CheckpointRuling | None:
        """The first denying checkpoint that catches this, whatever its place among the others."""
        for denial in self.denials:
            if denial.names(given.action.tool):
                applies, because = _applies(denial, given, given.subject)
                if applies:
                    return CheckpointRuling("deny", because, denial=denial)
        return None

    def explain(self, given: Inputs) -> list[tuple[Checkpoint, bool, str]]:
        """The checkpoints that name the tool, in the order in which they are tried."""
        subject, tool = given.subject, given.action.tool
        return [(each, *_applies(each, given, subject)) for each in self.deciding if each.names(tool)]

    def _observation(self, observed: ObservedRule, given: Inputs) -> Observation:
        applies, because = _applies(observed.rule, given, given.subject)
        with_it = (*self.rules[: observed.place], observed.rule, *self.rules[observed.place :])
        verdict = self._ruling(given, with_it).verdict
        return Observation(
            observed.rule.checkpoint_id, observed.version, observed.until, applies, verdict, because
        )

    def _ruling(self, given: Inputs, rules: Sequence[Rule]) -> CheckpointRuling:
        if (denied := self.denial(given)) is not None:
            return denied
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

    def asked_under(self, checkpoint_id: str | None, tool: ToolTraits) -> Rule | None:
        """The rule of this id; None: there is no such checkpoint."""
        if checkpoint_id in RESERVED_IDS:
            return self.synthetic(checkpoint_id, tool)
        named = next((rule for rule in self.rules if rule.checkpoint_id == checkpoint_id), None)
        return None if named is None else _stricter_risk(named, tool)

    def lookup(self, tool: str) -> FactsLookup | None:
        return next((each for each in self.lookups if each.tool == tool), None)

    def reads_facts(self, tool: str) -> bool:
        readers = (
            *(each.names(tool) for each in self.denials if each.judges_facts),
            *(rule.names(tool) for rule in self.rules if rule.reads_facts),
            *(limit.names(tool) for limit in self.limits if limit.reads_facts),
        )
        return any(readers)

    def uses(self, action: Action, facts: Mapping[str, Any] | None, caller: Caller) -> tuple[Use, ...]:
        return tuple(
            Use(limit, limit.subject(caller), limit.amount(action, facts))
            for limit in self.limits
            if limit.names(action.tool)
        )

    def within_limits(
        self,
        judgement: Judgement,
        states: Sequence[LimitState],
        tool: ToolTraits,
        action: Action,
        *,
        wants_answer: bool = False,
    ) -> Judgement:
        """Evaluate more strictly if the limits have no room.

        People are asked under the first checkpoint that names the tool, whatever its `when` says, or the defaults. A
        question that wants more than yes or no is not asked if a limit on its number denies.
        """
        state = decisive(states)
        asks = judgement.verdict == "ask" and wants_answer and state and state.verdict == "deny"
        if state is None or not (judgement.verdict == "run" or asks):
            return judgement
        if state.verdict == "deny":
            asked = judgement.rule
            ruled: tuple[Ruling, str | None] = ("ask", asked.checkpoint_id) if asked else ("run", None)
            return replace(judgement, verdict="deny", rule=None, because=state.because, ruled=ruled)
        return self.asked_instead(judgement, state.because, tool, action)

    def asked_instead(
        self,
        judgement: Judgement,
        because: str,
        tool: ToolTraits,
        action: Action,
    ) -> Judgement:
        """Ask about an action that a limit does not let run."""
        named = next((rule for rule in self.rules if rule.names(action.tool)), None)
        rule = _stricter_risk(named, tool) if named else self.synthetic(LIMIT_REACHED, tool)
        return replace(
            judgement,
            verdict="ask",
            rule=rule,
            because=because,
            ruled=("run", None),
        )

    def synthetic(self, checkpoint_id: str, tool: ToolTraits) -> Rule:
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
            excuse = tool.exempt if tool.read_only else "is unmatched, and unmatched tools are allowed"
            return CheckpointRuling("run", f"no checkpoint names this tool; it {excuse}")
        return CheckpointRuling("ask", "no checkpoint names this tool", caught_as=UNMATCHED)


def outdated(judged_by: int, in_force: int) -> OutdatedPolicy | None:
    """Return the error for an evaluation under another policy than the one in force, or None."""
    if judged_by == in_force:
        return None
    return OutdatedPolicy(f"evaluated under policy {judged_by}, but policy {in_force} is in force")


def check_epoch(judged_by: int, in_force: int) -> None:
    """Raises OutdatedPolicy."""
    if error := outdated(judged_by, in_force):
        raise error


def _applies(checkpoint: Checkpoint, given: Inputs, subject: Subject) -> tuple[bool, str]:
    label = f'checkpoint "{checkpoint.checkpoint_id}"'
    if checkpoint.when is None:
        return True, label
    when = compile_when(checkpoint.when)
    if given.facts_failed and when.uses_facts:
        # has(facts.x) would be a valid false about facts that nobody has seen.
        return True, f"{label}: when ({checkpoint.when}) needs facts that could not be looked up"
    result = when.applies(subject)
    return result.applies, f"{label}: {result.because}"


def _copied_facts(facts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """None without a JSON form: a NaN price would make every comparison false."""
    try:
        copy = plain_json(facts)
    except MalformedArguments:
        return None
    return copy if isinstance(copy, dict) else None


def _stricter_risk(rule: Rule, tool: ToolTraits) -> Rule:
    """The default `on_reject` follows the risk."""
    if tool.risk is None or tool.risk <= rule.risk:
        return rule
    follows_risk = rule.on_reject == on_reject_by_risk(rule.risk)
    on_reject = on_reject_by_risk(tool.risk) if follows_risk else rule.on_reject
    return rule.model_copy(update={"risk": tool.risk, "on_reject": on_reject})
