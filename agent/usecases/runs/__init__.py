"""Runs: started, leased, turned, delegated, cancelled, resumed and ended."""

from agent.domain.run import NewRun
from agent.usecases.runs.calls import (
    answer_call,
    delegate,
    pass_call,
    refuse_call,
    sleep_until_ready,
    wake_up,
    withdraw_call,
)
from agent.usecases.runs.cancellation import cancel, cancel_by_operator, cancel_by_program, end_orphans
from agent.usecases.runs.messages import add_message, replace_deleted_root
from agent.usecases.runs.starts import QuotedMessage, StartOutcome, start
from agent.usecases.runs.turns import (
    LeasedRun,
    LeaseRuns,
    MadeTurn,
    RecordTurns,
    drop_lease,
    end,
    record_model_failure,
    release,
    set_status,
    show_at_work,
)
