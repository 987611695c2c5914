"""`signoff check explain`: what the checkpoints do with one action."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from agent.domain import explanation
from agent.domain.facts import Facts
from agent.domain.judgement import Judgement, ToolTraits
from agent.domain.limits import Caller
from agent.domain.policy import Policy
from agent.domain.request import EXTERNAL
from agent.runtime.agents import Registry, load_agents
from agent.runtime.judging.evaluation import Proposal, judge
from signoff.values import Action, Person
from slackbot.cli import terminal
from slackbot.cli.cli_context import read_policy, read_settings
from slackbot.masking import clean_now

Values = Annotated[
    list[str] | None,
    typer.Option("--arg", help="An argument, as name=value; the value is JSON if it parses as JSON."),
]
Known = Annotated[
    list[str] | None, typer.Option("--fact", help="A fact, as name=value; by default, no fact is known.")
]


def explain(
    action: Annotated[str, typer.Option(help="The tool's name.")],
    arg: Values = None,
    fact: Known = None,
    agent: Annotated[str, typer.Option(help="The agent's name.")] = "",
    requester: Annotated[str | None, typer.Option(help="A Slack user id.")] = None,
    policy: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="The checkpoints file to use instead.")
    ] = None,
) -> None:
    """Explain one action: which rule wins, why, and who would be asked until when."""
    configured = read_settings(checkpoints=None if policy is None else str(policy))
    judging, registry = read_policy(configured), load_agents(configured.agents)
    known = Facts(_values("--fact", fact) if fact else None)
    asked = Action(action, EXTERNAL, _values("--arg", arg))
    judged = judge(judging, _proposal(registry, agent, asked, known, requester))
    terminal.table(["checkpoint", "result", "why"], _steps(judging, judged), nothing="no checkpoint names it")
    typer.echo(terminal.line(f"verdict: {judged.verdict}, because {judged.because}"))
    if judged.denial is not None:
        typer.echo(terminal.line(f"the agent reads: {judged.told}"))
    for line in (*_asked(judged, asked, known), *_observed(judged)):
        typer.echo(terminal.line(line))


def _steps(policy: Policy, judged: Judgement) -> list[tuple[str, str, str]]:
    found = explanation.explain(policy, judged.inputs) if judged.inputs else []
    return [(each.checkpoint_id, each.result, terminal.line(each.why, 400)) for each in found]


def _asked(judged: Judgement, action: Action, facts: Facts) -> list[str]:
    rule = judged.rule
    if rule is None:
        return []
    until = datetime.now(UTC) + rule.timeout
    end = (
        f"then {', '.join(rule.escalate_to)} as well" if rule.on_timeout == "escalate" else "then it expires"
    )
    needed = f"{rule.approvals_required} approval{'' if rule.approvals_required == 1 else 's'}"
    where = rule.channel or "the service's own channel"
    return [
        f"asked: {', '.join(rule.approvers)} in {where}; {needed}, risk {rule.risk.value}",
        f"until: {terminal.when(until)} if asked now; {end}",
        f"title: {clean_now(rule.describe(action, facts.values))}",
    ]


def _observed(judged: Judgement) -> list[str]:
    return [
        f"observed until {terminal.when(each.until)}: {each.because}; {'asks' if each.applies else 'lets pass'}. "
        f"If it were in force, the verdict would be {each.verdict}"
        for each in judged.observed
    ]


def _proposal(
    registry: Registry, agent: str, action: Action, facts: Facts, requester: str | None
) -> Proposal:
    """As a call of the loaded agents' tool, if there is one; otherwise as a program's."""
    served = [each for each in registry if agent in ("", each.name)]
    found = next((tool for each in served if (tool := each.tool(action.tool)) is not None), None)
    traits = found.traits if found else ToolTraits(action.tool, EXTERNAL)
    person = Person("", requester) if requester else None
    return Proposal(action, facts, traits, agent, person, Caller(agent, person))


def _values(option: str, given: list[str] | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for each in given or ():
        name, separator, text = each.partition("=")
        if not name or not separator:
            raise typer.BadParameter("write name=value", param_hint=option)
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values
