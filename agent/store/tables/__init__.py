"""Tables and columns for composed reads. Migrations are the source of the schema.

``search_path`` (``SIGNOFF_DB_SCHEMA``) names the schema.
"""

from agent.store.tables.audit import audit_event, audit_head
from agent.store.tables.columns import metadata
from agent.store.tables.executions import execution, retry_vote, settlement
from agent.store.tables.grants import approval_grant
from agent.store.tables.judgements import judgement
from agent.store.tables.messages import delivery, digest_card, notice
from agent.store.tables.pause import pause
from agent.store.tables.requests import approval_request, card_place, decision, request_revision, vote
from agent.store.tables.runs import agent_run, tool_call
from agent.store.tables.search import request_search
