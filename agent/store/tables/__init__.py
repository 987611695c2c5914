"""The tables, as SQLAlchemy Core sees them. Migrations are the source of the schema; this mirrors them.

No schema is named here: the connection's ``search_path`` (``SIGNOFF_DB_SCHEMA``) decides it. Triggers, roles and the
view ``pending_reviews`` live in the migrations alone.
"""

from agent.store.tables.access import (
    api_key,
    http_reply,
    judgement,
    key_use,
    pause,
    policy,
    sign_in_link,
    web_session,
)
from agent.store.tables.audit import audit_event, audit_head
from agent.store.tables.columns import metadata
from agent.store.tables.executions import execution, retry_vote, settlement
from agent.store.tables.grants import approval_grant, grant_use
from agent.store.tables.limits import limit_sum, limit_use
from agent.store.tables.messages import delivery, destination, digest_card, notice, webhook
from agent.store.tables.requests import approval_request, card_place, decision, request_revision, vote
from agent.store.tables.runs import agent_run, run_message, run_status, tool_call
from agent.store.tables.search import request_search, search_due

__all__ = [
    "agent_run",
    "api_key",
    "approval_grant",
    "approval_request",
    "audit_event",
    "audit_head",
    "card_place",
    "decision",
    "delivery",
    "destination",
    "digest_card",
    "execution",
    "grant_use",
    "http_reply",
    "judgement",
    "key_use",
    "limit_sum",
    "limit_use",
    "metadata",
    "notice",
    "pause",
    "policy",
    "request_revision",
    "request_search",
    "retry_vote",
    "run_message",
    "run_status",
    "search_due",
    "settlement",
    "sign_in_link",
    "tool_call",
    "vote",
    "web_session",
    "webhook",
]
