"""What a policy does with one tool, as a line for `signoff check`."""

from __future__ import annotations

from agent.domain.judgement import ToolTraits
from agent.domain.policy import Policy
from agent.domain.rules import Checkpoint
from signoff import formats


def explain(policy: Policy, traits: ToolTraits) -> str:
    """One line: matching checkpoints in order, the rule if none does, limits."""
    limits = [limit.described for limit in policy.limits if limit.names(traits.name)]
    observed = [
        f'observed until {formats.moment(each.until)}: "{each.rule.checkpoint_id}"{_when(each.rule)}'
        for each in policy.observed
        if each.rule.names(traits.name)
    ]
    return "; ".join([_judged(policy, traits), *limits, *observed])


def _judged(policy: Policy, traits: ToolTraits) -> str:
    steps: list[str] = []
    for denial in policy.denials:
        if denial.names(traits.name):
            steps.append(f'denied under "{denial.checkpoint_id}"{_when(denial)}')
            if denial.when is None:
                return _sentence(traits, steps)
    named = False
    for rule in policy.rules:
        if not rule.names(traits.name):
            continue
        if rule.when is None:
            return _sentence(traits, [*steps, f'people are asked under "{rule.checkpoint_id}"'])
        named = True
        steps.append(f'people are asked under "{rule.checkpoint_id}"{_when(rule)}')
    return _sentence(traits, [*steps, _otherwise(policy, traits, named=named)])


def _when(checkpoint: Checkpoint) -> str:
    return f" when {checkpoint.when}" if checkpoint.when else ""


def _otherwise(policy: Policy, traits: ToolTraits, *, named: bool) -> str:
    if traits.requires_approval:
        return "people are asked under the defaults, because the tool requires approval"
    if named:
        return "runs"
    if traits.read_only:
        return f"runs, because it {traits.exempt}"
    unmatched = {"review": "people are asked under the defaults", "allow": "runs", "deny": "denied"}
    return f"{unmatched[policy.defaults.unmatched]}, because no checkpoint names it"


def _sentence(traits: ToolTraits, steps: list[str]) -> str:
    return f"{traits.name}: {', else '.join(steps)}"
