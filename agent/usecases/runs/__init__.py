"""The use cases on a run: start it, journal its turns, answer its calls, cancel it."""

from agent.domain.run import NewRun
from agent.usecases.runs.calls import answer_call, pass_call, refuse_call
from agent.usecases.runs.cancellation import cancel, cancel_by_operator, cancel_by_program, end_orphans
from agent.usecases.runs.delegation import delegate
from agent.usecases.runs.messages import add_message
from agent.usecases.runs.starts import StartOutcome, start
from agent.usecases.runs.turns import (
    LeasedRun,
    MadeTurn,
    drop_lease,
    end,
    lease,
    lease_together,
    record_model_failure,
    record_turn,
    record_turns,
    release,
    set_status,
)

__all__ = [
    "LeasedRun",
    "MadeTurn",
    "NewRun",
    "StartOutcome",
    "add_message",
    "answer_call",
    "cancel",
    "cancel_by_operator",
    "cancel_by_program",
    "delegate",
    "drop_lease",
    "end",
    "end_orphans",
    "lease",
    "lease_together",
    "pass_call",
    "record_model_failure",
    "record_turn",
    "record_turns",
    "refuse_call",
    "release",
    "set_status",
    "start",
]
