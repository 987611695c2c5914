"""Stored facts to Block Kit; external text made inert. No I/O, no clock."""

from slackbot.cards.agent_form import AgentForm, agent_modal, read_agent_modal
from slackbot.cards.answer import PAGE_OF_ANSWER, answer_modal, outcome_message
from slackbot.cards.app_home import PAGE_OF_HOME, HomeView, home
from slackbot.cards.combine_lines import combine_lines, count_alike
from slackbot.cards.details import PAGE_OF_DETAILS, details_modal, details_pages, details_text
from slackbot.cards.edit_form import argument_fields, edit_errors, edit_fields, edit_modal, read_edit
from slackbot.cards.flood_digest import (
    PAGE_OF_WAITING,
    FloodDigest,
    flood_digest_card,
    outdated_digest_card,
)
from slackbot.cards.lines import REQUEST_LINES, RUN_LINES, run_line, run_root, thread_line
from slackbot.cards.lists import (
    DIRECT,
    AgentLine,
    agent_list,
    history_list,
    misunderstood_command,
    refusal_text,
    request_details,
    request_list,
    run_list,
    run_started,
    usage,
)
from slackbot.cards.modals import list_modal, notice_modal, skeleton_modal
from slackbot.cards.more_form import more_modal
from slackbot.cards.question import answer_in_words
from slackbot.cards.question_form import question_errors, question_modal, read_question_modal
from slackbot.cards.request import (
    named_in,
    plain_message,
    plain_request_card,
    request_card,
    unreadable,
)
from slackbot.cards.scalars import amounts
from slackbot.cards.status_words import of_outcomes
from slackbot.cards.unseen import PAGE_OF_HISTORY, unseen_card
from slackbot.cards.values import (
    ACTION_AGENT,
    ACTION_ALLOW_SIMILAR,
    ACTION_ANSWER,
    ACTION_APPROVE,
    ACTION_APPROVE_COMMENT,
    ACTION_ASK_AGAIN,
    ACTION_CANCEL_RUN,
    ACTION_CHOOSE,
    ACTION_DETAILS,
    ACTION_DONE,
    ACTION_DONE_CALL,
    ACTION_EDIT,
    ACTION_FILE,
    ACTION_GIVE_ANSWER,
    ACTION_LINK,
    ACTION_LIST,
    ACTION_MORE,
    ACTION_OPEN,
    ACTION_PAGE,
    ACTION_PAGE_BACK,
    ACTION_REJECT,
    ACTION_RESUME_RUN,
    ACTION_RETRY,
    ACTION_RETRY_CALL,
    ACTION_REVOKE,
    ACTION_REVOKE_LISTED,
    ACTION_VOTE,
    CALLBACK_AGENT,
    CALLBACK_ANSWER,
    CALLBACK_EDIT,
    CALLBACK_GRANT,
    CALLBACK_SAVE_GRANT,
    CALLBACK_VOTE,
    EVENT_TYPE,
    ButtonValue,
    Card,
    Names,
    Pages,
    page_value,
    parse_button_value,
    parse_id,
    parse_page_value,
)
from slackbot.cards.vote_forms import OWN_WORDS_EXCLUDE, reason_of, vote_modal
from slackbot.cards.week import week_card
