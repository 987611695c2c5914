"""Errors of the service. Those that programs see, too, are in `signoff.errors`.

SignoffError
├── PolicyError             the checkpoints file cannot be enforced as written; the service does not start
├── Refused                 somebody may not do this; `sentence` is the message to them
├── NotFound                no such thing (or none that the caller may know of)
├── GrantRefused            no such grant can be given; `sentence` says why
├── OutdatedPolicy          another policy is in force than this process used; nothing was written
├── LeaseLost               another worker has taken over the run; nothing more may be written
└── NoRoom                  the tool or agent runs as many calls as allowed
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from signoff import formats
from signoff.errors import SignoffError


class PolicyError(SignoffError):
    """`problems` has one line each, with file and line number."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class OutdatedPolicy(SignoffError):
    """``unreadable``: the policy cannot be loaded here, so this process evaluates and claims nothing."""

    def __init__(self, words: str, *, unreadable: bool = False) -> None:
        super().__init__(words)
        self.unreadable = unreadable


class NotFound(SignoffError):
    """Gives no details, so that ids cannot be probed."""


class GrantRefused(SignoffError):
    """`sentence` is the message to the person."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)


class LeaseLost(SignoffError):
    """Another worker may hold the lease: write nothing more."""


class NoRoom(SignoffError):
    """Retried when a running call ends."""


class Refusal(StrEnum):
    """Reasons recorded in the audit log."""

    NOT_A_REVIEWER = "not_a_reviewer"
    SELF_REVIEW = "self_review"
    INSTRUCTED = "instructed"
    AGENT_PRINCIPAL = "agent_principal"
    OUR_BOT = "our_bot"
    GUEST = "guest"
    EXTERNAL = "external"
    BOT = "bot"
    DEACTIVATED = "deactivated"
    STRANGER = "stranger"
    UNKNOWN_PERSON = "unknown_person"
    LOOKUP_FAILED = "lookup_failed"
    RATE_LIMITED_LOOKUP = "rate_limited_lookup"
    NO_REVIEWERS = "no_reviewers"
    EXPIRED = "expired"
    ALREADY_DECIDED = "already_decided"
    WITHDRAWN = "withdrawn"
    STALE_REVISION = "stale_revision"
    WRONG_PLACE = "wrong_place"
    EARLIER_CARD = "earlier_card"
    UNKNOWN_REQUEST = "unknown_request"
    SAME_VOTE = "same_vote"
    REASON_REQUIRED = "reason_required"
    OTHER_VERDICT = "other_verdict"
    UNFIT_ANSWER = "unfit_answer"
    EDIT_NOT_ALLOWED = "edit_not_allowed"
    STRICTER_CHECKPOINT = "stricter_checkpoint"
    EDIT_DENIED = "edit_denied"
    EDIT_UNCHECKED = "edit_unchecked"
    DENIED_NOW = "denied_now"
    REDACTED_EDIT = "redacted_edit"
    EDITOR_ALONE = "editor_alone"
    ADVISED = "advised"
    EDITED_EARLIER = "edited_earlier"
    UNREADABLE = "unreadable"
    NOT_TOGETHER = "not_together"
    TERMS_ALTERED = "terms_altered"
    NOT_YOUR_RUN = "not_your_run"
    NOT_AN_ADMINISTRATOR = "not_an_administrator"
    NOT_YOURS_TO_ASK = "not_yours_to_ask"
    NOT_YOURS_TO_SETTLE = "not_yours_to_settle"
    NOT_YOURS_TO_RESUME = "not_yours_to_resume"
    NOT_YOURS_TO_TAKE_UP = "not_yours_to_take_up"
    NOT_YOURS_TO_REVOKE = "not_yours_to_revoke"


DOUBTFUL = frozenset({Refusal.LOOKUP_FAILED, Refusal.RATE_LIMITED_LOOKUP})
"""A retry may help."""

OUTDATED = frozenset({Refusal.EXPIRED, Refusal.ALREADY_DECIDED, Refusal.WITHDRAWN, Refusal.STALE_REVISION})

_SENTENCES: dict[Refusal, str] = {
    Refusal.NOT_A_REVIEWER: "You are not among the reviewers of this request, so your vote does not count.",
    Refusal.SELF_REVIEW: (
        "You asked for this action yourself, and its checkpoint does not let people review "
        "their own requests (`prevent_self_review = true`)."
    ),
    Refusal.INSTRUCTED: (
        "You told this agent what to do before it proposed this action, and its checkpoint does not let people "
        "review what they asked for (`prevent_self_review = true`)."
    ),
    Refusal.AGENT_PRINCIPAL: "The agent that asks for an action cannot decide on it.",
    Refusal.OUR_BOT: "Signoff's own bot user cannot decide anything.",
    Refusal.GUEST: "Guests of this workspace cannot review requests.",
    Refusal.EXTERNAL: "You belong to another workspace; only members of this one can review requests.",
    Refusal.BOT: "Bots and apps cannot review requests; a person has to.",
    Refusal.DEACTIVATED: "This account is deactivated and cannot review requests.",
    Refusal.STRANGER: "Slack does not know you as a member of this workspace, so you cannot review requests.",
    Refusal.UNKNOWN_PERSON: "Slack does not know this account, so it cannot review requests.",
    Refusal.LOOKUP_FAILED: (
        "Slack did not confirm who you are, so nothing was recorded. Please try again in a moment."
    ),
    Refusal.RATE_LIMITED_LOOKUP: (
        "Slack asked us to slow down before we could check who you are, so nothing was recorded. "
        "Please try again in a minute."
    ),
    Refusal.NO_REVIEWERS: "The list of reviewers is empty right now, so nobody can decide this request.",
    Refusal.EXPIRED: "The time to decide this request has run out; it is too late to vote.",
    Refusal.WITHDRAWN: "This request has been withdrawn; there is nothing left to decide.",
    Refusal.STALE_REVISION: (
        "This request has changed since the card that you answered was drawn. "
        "Please look at the new version first."
    ),
    Refusal.EARLIER_CARD: (
        "Slack does not let this card be changed, so a newer card took its place in this channel. Nothing was recorded "
        "here; please use the newer card."
    ),
    Refusal.WRONG_PLACE: "This button does not belong to the place where it was pressed, so nothing was recorded.",
    Refusal.UNKNOWN_REQUEST: "There is no such request, or you may not see it.",
    Refusal.SAME_VOTE: "You have already cast this vote; it counts once.",
    Refusal.REASON_REQUIRED: (
        "This vote needs a reason (`reason_required` of its checkpoint); nothing was recorded without one."
    ),
    Refusal.OTHER_VERDICT: (
        "This kind of request does not take that verdict: an action is approved or rejected, and a question with "
        "options or a form is answered or rejected. Nothing was recorded."
    ),
    Refusal.UNFIT_ANSWER: "This answer does not fit the question, so it was not recorded.",
    Refusal.EDIT_NOT_ALLOWED: (
        "The checkpoint of this request does not let reviewers change it (`allow_edit = false`)."
    ),
    Refusal.STRICTER_CHECKPOINT: (
        "Your change falls under stricter rules than this request, so it was not saved. Reject the request "
        "instead, and let the agent propose the other action."
    ),
    Refusal.EDIT_DENIED: "Policy denies the changed action, so the request was not changed.",
    Refusal.DENIED_NOW: "Policy denies this action now, so nobody can approve it. You can still reject it.",
    Refusal.EDIT_UNCHECKED: (
        "The facts about the changed action could not be looked up, so the request was not changed. "
        "Please try again in a moment."
    ),
    Refusal.REDACTED_EDIT: "Reviewers cannot change a value that is hidden from them. Nothing was changed.",
    Refusal.EDITOR_ALONE: (
        "You edited this action, so someone else has to approve it (`editor_may_approve = false`)."
    ),
    Refusal.ADVISED: (
        "The agent could read a reason or note of yours before it proposed this action, so someone else has to "
        "approve it (`adviser_may_approve = false`). You can still reject or edit it."
    ),
    Refusal.EDITED_EARLIER: (
        "You edited an earlier action of this agent before it proposed this one, so someone else has to "
        "approve it (`editor_may_approve = false`). You can still reject or edit it."
    ),
    Refusal.UNREADABLE: "Not all of this request can be shown now, so nobody can approve it. You can still reject it.",
    Refusal.NOT_TOGETHER: (
        "This request is not decided in one form with others; nothing was recorded. Please use its own card."
    ),
    Refusal.TERMS_ALTERED: (
        "The reviewers, exclusions, number of approvals or deadline of this request were changed in the database, and "
        "the audit log does not have that change. So nothing was counted or changed. Please inform an administrator "
        "of Signoff: `signoff audit verify` names what differs."
    ),
    Refusal.NOT_AN_ADMINISTRATOR: "Only administrators of this workspace can do this; nothing was changed.",
    Refusal.NOT_YOUR_RUN: (
        "Only the person who started this run, or a reviewer of a request that it waits for, can cancel it."
    ),
    Refusal.NOT_YOURS_TO_ASK: (
        "Only the person who requested this can have it asked again. Nothing was changed."
    ),
    Refusal.NOT_YOURS_TO_SETTLE: (
        "Nobody was asked about this call, so only the person who started its run, or a workspace "
        "administrator, can settle it. Nothing was changed."
    ),
    Refusal.NOT_YOURS_TO_RESUME: (
        "Only the person who started this run, or a workspace administrator, can resume it. Nothing was changed."
    ),
    Refusal.NOT_YOURS_TO_REVOKE: (
        "Only a reviewer of these calls, or an administrator of this workspace, can revoke this grant. Nothing was "
        "changed."
    ),
    Refusal.NOT_YOURS_TO_TAKE_UP: (
        "This run has ended, so the agent did not get your message. Only the person who started it, or a workspace "
        "administrator, can resume it."
    ),
}


def sentence(code: Refusal, **facts: object) -> str:
    """Unescaped. `already_decided` uses `outcome`, `by` and `at` (datetime in UTC, or text), `expired` uses `at`, and
    `edit_denied` and `denied_now` use `because`, and `unfit_answer`, too.
    """
    at = _moment(facts.get("at"))
    if code is Refusal.ALREADY_DECIDED:
        return _already_decided(facts.get("outcome"), facts.get("by"), at)
    if code is Refusal.EXPIRED and at:
        return f"The time to decide this request ran out{at}; it is too late to vote."
    because = facts.get("because")
    if code is Refusal.UNFIT_ANSWER and because:
        return f"{_SENTENCES[code]} {because}"
    return f"{_SENTENCES[code]} The policy says: {because}." if because else _SENTENCES[code]


class Refused(SignoffError):
    """`sentence` is the message to the person."""

    def __init__(self, code: Refusal, **facts: object) -> None:
        self.code = code
        self.sentence = sentence(code, **facts)
        super().__init__(f"{code}: {self.sentence}")


def _already_decided(outcome: object, by: object, at: str) -> str:
    what = f"was already {outcome}" if outcome else "was already decided"
    who = f" by {by}" if by else ""
    return f"This request {what}{who}{at}; further votes do not count."


def _moment(at: object) -> str:
    if isinstance(at, datetime):
        at = formats.moment(at)
    return f" at {at}" if at else ""
