"""The use cases on a request, one transaction each.

Each writes its facts, their audit events, what must be told and the hints that follow, together or not at all.
"""

from agent.approvals.asking_again import ask_again
from agent.approvals.editing import Edit, Edited, edit
from agent.approvals.ending import ask_anew, expire_due, withdraw
from agent.approvals.opening import Opened, open, write_request  # noqa: A004 - the word of the trade
from agent.approvals.placing import place, places
from agent.approvals.reminding import remind_due
from agent.approvals.settling import settle
from agent.approvals.voting import Voted, record_refusal, vote
from agent.store.writes.requests import NewRequest

__all__ = [
    "Edit",
    "Edited",
    "NewRequest",
    "Opened",
    "Voted",
    "ask_again",
    "ask_anew",
    "edit",
    "expire_due",
    "open",
    "place",
    "places",
    "record_refusal",
    "remind_due",
    "settle",
    "vote",
    "withdraw",
    "write_request",
]
