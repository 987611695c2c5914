"""Secrets do not leave by what people and operators read. What a tool is given, and a model reads, never changes."""

from slackbot.masking.fair_threads import CARDS
from slackbot.masking.log_events import clean_error, clean_event, clean_now, guard_tracebacks
from slackbot.masking.views import (
    Hidden,
    clean_description,
    clean_lines,
    clean_run,
    clean_runs,
    clean_text,
    clean_value,
    clean_view,
    hidden_in_run,
    hidden_values,
    is_scanned,
    work_for,
)
