"""Read models: rows to values."""

from agent.store.clock import now
from agent.store.views.change_token import change_token, changed_subjects, recently_changed
from agent.store.views.events import Transition, request_events, run_transitions, transitions
from agent.store.views.floods import flood
from agent.store.views.grants import DecidedCall, LiveGrant, decided_calls, live_grants
from agent.store.views.groups import request_group
from agent.store.views.metrics import ServiceCounts, backlog, service_counts
from agent.store.views.open_calls import (
    HandedOutCall,
    OpenCall,
    approved_versions,
    handed_out,
    open_calls,
    runs_of_others,
)
from agent.store.views.program_requests import (
    Waiting,
    client_request,
    requests_by_client_id,
    requests_page,
    waiting_of_key,
)
from agent.store.views.reports import report, report_audiences
from agent.store.views.request_lists import (
    AudienceCount,
    audience_counts,
    filter_choices,
    found_for,
    found_requests,
    history_lines,
    requests_of,
)
from agent.store.views.requests import (
    VoteContext,
    lasting_rejection,
    others_in_forms,
    request_at,
    request_view,
    request_views,
    vote_context,
)
from agent.store.views.run_calls import (
    TRANSCRIPTS,
    OpenCallDetails,
    QuestionContext,
    Transcript,
    calls,
    open_call_details,
    prepared_action,
    question_context,
    seconds_waited,
    transcripts,
    waiting_descendant_calls,
)
from agent.store.views.run_lists import (
    RunList,
    is_busy,
    run_line,
    run_lines,
    run_of_session,
    run_started_with,
    runs_of_session,
    sessions_of,
)
from agent.store.views.runs import (
    CancelContext,
    cancel_context,
    has_unknown_thread,
    last_rejection,
    messages,
    recent_runs,
    root_of_run,
    run_and_values,
    run_in_thread,
    run_view,
    running,
    thread_of,
    values_of,
    waiting_card,
)
from agent.store.views.schema_version import schema_version
from agent.store.views.search import (
    events_between,
    requests_between,
    requests_like,
    runs_like,
    search_requests,
    search_runs,
    votes_between,
)
from agent.store.views.waiting_lists import (
    audiences,
    count_waiting_for,
    count_waiting_for_others,
    waiting_for,
    waiting_for_others,
)
