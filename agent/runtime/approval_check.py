"""An approval covers the same bytes, versions and facts, under no stricter policy."""

from collections.abc import Mapping
from typing import Any, Protocol

from agent.domain.facts import Facts
from agent.domain.rules import Rule, stricter
from agent.runtime.agents import Agent
from agent.runtime.tool import Tool
from signoff.values import Action


class ApprovedCall(Protocol):
    @property
    def digest_decided(self) -> bytes | None: ...
    @property
    def digest_recorded(self) -> bytes | None: ...
    @property
    def signature_decided(self) -> bytes | None: ...  # of the tool's parameters; None: not compared
    @property
    def asked_version(self) -> str | None: ...  # of the agent
    @property
    def facts(self) -> bytes | None: ...
    @property
    def policy(self) -> Mapping[str, Any] | None: ...


def as_of_now(tool: Tool, decided: Action) -> Action:
    """Add today's defaults. Raises MalformedArguments if they do not fit."""
    return Action(tool.name, tool.version, tool.signature.complete(decided.arguments))


def changed(
    approval: ApprovedCall,
    agent: Agent,
    tool: Tool,
    decided: Action,
    now: Action,
    facts: Facts,
    rule: Rule | None,
) -> str | None:
    """Why an approval no longer covers what would run. ``rule``: the one that matches now."""
    if not decided.digest == approval.digest_decided == approval.digest_recorded:
        return "the stored action is not the decided one"
    if decided.tool_version != now.tool_version:
        return f"the tool is at version {now.tool_version}, but version {decided.tool_version} was approved"
    if decided.canonical != now.canonical:
        return "the tool would get arguments that were not approved: its defaults have changed"
    if approval.signature_decided not in (None, tool.signature.digest):
        return "the tool's parameters have changed"
    if approval.asked_version not in (None, agent.version):
        return f"the agent is at version {agent.version}, but version {approval.asked_version} was approved"
    if facts.failed:
        return "its facts can no longer be looked up"
    if facts.canonical != approval.facts:
        return "its facts have changed"
    policy = approval.policy
    if rule is not None and policy is not None and stricter(Rule.from_snapshot(dict(policy)), rule):
        return "policy is stricter than before"
    return None
