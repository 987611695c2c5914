"""The form that starts an agent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackbot.cards import blocks, form, inert
from slackbot.cards.modals import modal, notice_modal
from slackbot.cards.quotation import NOWHERE, Carried, quoted_message
from slackbot.cards.values import ACTION_AGENT, AGENT_BLOCK, CALLBACK_AGENT, TASK_BLOCK, TASK_INPUT, Json

MAX_AGENTS = 100
MAX_TASK = 3000
QUOTED_TASK = "Do what the quoted message asks for."


@dataclass(frozen=True, slots=True)
class AgentForm:
    """`inputs`: the JSON schema of its named inputs."""

    name: str
    description: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunForm:
    """A submission; with `errors` (by block_id), nothing may start."""

    agent: str
    task: str
    inputs: dict[str, Any]
    errors: dict[str, str]


def agent_modal(
    agents: Sequence[AgentForm], chosen: str | None = None, *, carried: Carried = NOWHERE, task: str = ""
) -> Json:
    """Inputs are of `chosen` or of the first agent; redraw the form for another `ACTION_AGENT`."""
    if not agents:
        return notice_modal(
            "Start an agent", "No agents are loaded. SIGNOFF_AGENTS names the modules to load."
        )
    agent = _find(agents, chosen) or agents[0]
    options = [blocks.option(each.name, each.name[: blocks.OPTION_LIMIT]) for each in agents[:MAX_AGENTS]]
    chooser: Json = {"type": "static_select", "action_id": ACTION_AGENT, "options": options}
    chosen_options = [each for each in options if each["value"] == agent.name]
    if chosen_options:
        chooser["initial_option"] = chosen_options[0]
    about = blocks.input_block(AGENT_BLOCK, "Agent", chooser, hint=agent.description or None)
    what: Json = {
        "type": "plain_text_input",
        "action_id": TASK_INPUT,
        "multiline": True,
        "max_length": MAX_TASK,
    }
    quoted = carried.quotation
    task = task or (QUOTED_TASK if quoted else "")
    if task and inert.weight(task) <= MAX_TASK:
        what["initial_value"] = task
    rows = form.inputs(_fields(agent))
    named = [
        row if row["type"] == "input" else blocks.with_ids([row], f"{at}")[0] for at, row in enumerate(rows)
    ]
    return modal(
        "Start an agent",
        [
            about | {"dispatch_action": True},
            blocks.input_block(TASK_BLOCK, "Task", what, optional=bool(agent.inputs)),
            *named,
            *([blocks.with_ids([quoted_message(quoted)], "quoted")[0]] if quoted else []),
        ],
        close="Cancel",
        submit="Start",
        callback=CALLBACK_AGENT,
        carry=str(carried),
    )


def read_agent_modal(values: Mapping[str, Any], agents: Sequence[AgentForm]) -> RunForm:
    """Read `view.state.values` of a submission, or of the choice of another agent."""
    option = _state(values, AGENT_BLOCK, ACTION_AGENT).get("selected_option")
    agent = _find(agents, option.get("value") if isinstance(option, Mapping) else None)
    typed = _state(values, TASK_BLOCK, TASK_INPUT).get("value")
    task = typed.strip() if isinstance(typed, str) else ""
    if agent is None:
        return RunForm("", task, {}, {AGENT_BLOCK: "This agent no longer exists. Please choose another."})
    inputs, errors = form.read(values, _fields(agent), {})
    if not task and not inputs:
        errors.setdefault(TASK_BLOCK, "Please say what the agent should do.")
    return RunForm(agent.name, task, inputs, errors)


def _find(agents: Sequence[AgentForm], name: object) -> AgentForm | None:
    return next((each for each in agents if each.name == name), None)


def _fields(agent: AgentForm) -> list[form.Field]:
    # Another agent's inputs have other ids: Slack keeps what was typed under a known id.
    prefix = hashlib.sha256(agent.name.encode()).hexdigest()[:12]
    return form.fields(agent.inputs, {}, f"signoff:input:{prefix}", lambda _: False)


def _state(values: Mapping[str, Any], block_id: str, action_id: str) -> Mapping[str, Any]:
    found = (values.get(block_id) or {}).get(action_id)
    return found if isinstance(found, Mapping) else {}
