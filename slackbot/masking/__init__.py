"""Keep secrets out of what people and operators read. The input of tools and models never changes."""

from slackbot.masking.fair_threads import CARDS
from slackbot.masking.log_events import clean_error, clean_event, clean_now, guard_tracebacks
from slackbot.masking.names import NO_NAME, NOT_SECRET, is_no_name
from slackbot.masking.views import (
    Hidden,
    clean_bodies,
    clean_description,
    clean_descriptions,
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
