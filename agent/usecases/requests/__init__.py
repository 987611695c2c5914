"""Requests: opened, voted on, edited, decided, ended and settled."""

from agent.store.requests import NewRequest
from agent.usecases.requests.edits import Edit, EditAttempt, EditOutcome, check_edit, edit
from agent.usecases.requests.endings import ask_again, expire_due, withdraw, withdraw_and_rejudge
from agent.usecases.requests.opening import OpenOutcome, open  # noqa: A004 - the word of the trade
from agent.usecases.requests.places import (
    create_place,
    create_places,
    look_at_card_again,
    redraw_card,
    replace_deleted_card,
    take_card_to_look_at,
)
from agent.usecases.requests.places import refusal as place_refusal
from agent.usecases.requests.reminders import MISSING, UNCOUNTED, remind_due, report_missing_reviewers
from agent.usecases.requests.settlements import NewVoters, settle
from agent.usecases.requests.voids import call_off, end_unclaimed, lapse_due, void_and_ask
from agent.usecases.requests.votes import (
    NotLookedUp,
    VoteOutcome,
    Votes,
    count_votes,
    record_refusal,
)
