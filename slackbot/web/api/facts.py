from __future__ import annotations

from typing import Any
from uuid import UUID

from agent.domain.api_keys import Principal, Scope
from agent.domain.changes import differences
from agent.domain.facts import Facts, FactsSource, read_facts
from agent.domain.judgement import Judgement, ToolTraits
from agent.domain.policy import Policy
from agent.domain.request import EXTERNAL, RequestStatus
from agent.domain.request_view import RequestView
from agent.domain.rules import Rule
from agent.runtime.judgement import with_rejection
from agent.usecases import limits
from agent.usecases.executions import changed_facts
from agent.usecases.executions.external import FACTS_CHANGED
from signoff.errors import MalformedArguments, SignoffError
from signoff.json_paths import format_path
from signoff.values import Action
from slackbot.masking import clean_text, clean_view
from slackbot.web.api.request_lookup import not_found
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised, retry_later

MAX_DIFFERENCES = 50


def check_may_send_facts(principal: Principal) -> None:
    """Raise ProblemRaised (403) for a key without the scope."""
    if not principal.may(Scope.FACTS):
        words = f"The key {principal.key} may not supply facts; that needs the scope facts."
        raise ProblemRaised(403, "scope-missing", "Scope missing", words)


def program_facts(values: dict[str, Any] | None) -> Facts:
    """Raises MalformedArguments, with the path below `$.facts`."""
    if values is None:
        return Facts()
    try:
        return read_facts(values, FactsSource.PROGRAM)
    except MalformedArguments as fault:
        raise MalformedArguments(f"$.facts{fault.path.removeprefix('$')}", fault.problem) from None


def narrowed(rule: Rule, facts: Facts) -> Rule:
    """Forbid edits if the facts are the program's.

    They describe the original arguments, and only the program could supply those of an edit.
    """
    return rule.model_copy(update={"allow_edit": False}) if facts.source is FactsSource.PROGRAM else rule


async def facts_at_claim(ctx: WebContext, view: RequestView, given: dict[str, Any] | None) -> Facts | None:
    """Current facts: looked up by Signoff if the policy in force says so, whatever it said before; else the program's.

    Raises MalformedArguments, and ProblemRaised (503) if the look-up fails.
    """
    lookup = ctx.services.policy.lookup(view.action.tool)
    if lookup is None and view.facts_source is FactsSource.SIGNOFF:
        return Facts()
    if lookup is None or view.status is not RequestStatus.APPROVED:
        return None if given is None else program_facts(given)
    requester = view.requester.user_id if view.requester else None
    facts = await ctx.services.look_up(lookup, view.action, view.agent, requester)
    if facts.failed:
        words = "Its facts cannot be looked up now, so it does not begin. The approval remains valid; claim it again."
        raise retry_later("facts-away", "Facts cannot be looked up", words, 5)
    return facts


def judge_again(policy: Policy, view: RequestView, action: Action, facts: Facts) -> Judgement:
    """A question that named no action asks always."""
    requester = view.requester.user_id if view.requester else None
    traits = ToolTraits(action.tool, action.tool_version, requires_approval=action.tool == EXTERNAL)
    return policy.judge(traits, action, facts.values, view.agent, requester, facts_failed=facts.failed)


async def ask_again(ctx: WebContext, principal: Principal, view: RequestView, facts: Facts) -> ProblemRaised:
    """Ask people again with current facts, and return the claim's answer.

    Raises ProblemRaised (403: policy now denies it; 503: Slack is unavailable), OutdatedPolicy, NotFound and
    ClaimRefused.
    """
    judged = judge_again(ctx.services.policy, view, view.action, facts)
    if judged.verdict == "deny":
        because = await clean_text(judged.because)
        raise ProblemRaised(403, "denied", "Denied by policy", f"Policy denies this now: {because}.")
    judged = await with_rejection(ctx.db, view.agent, view.action, judged)
    rule = None if judged.rule is None else narrowed(judged.rule, facts)
    try:
        destination = ctx.services.destination(rule.channel) if rule else None
    except SignoffError as away:
        raise retry_later("slack-away", "Slack cannot be reached", str(away), 5) from None
    uses = ctx.services.policy.uses(view.action, facts.values, view.caller)
    states = await limits.states(ctx.db, view.id, uses) if uses else ()
    again = await changed_facts.void_and_ask(
        ctx.db,
        view.id,
        principal,
        facts,
        rule=rule,
        destination=destination,
        limits=states,
        judgement=judged,
    )
    return await _asked_again(ctx, again)


async def _asked_again(ctx: WebContext, request_id: UUID) -> ProblemRaised:
    view = await ctx.snapshots.get(request_id)
    if view is None:
        raise not_found()
    clean = await clean_view(view)
    made = differences(dict(clean.previous_facts or {}), dict(clean.facts or {}))
    changes = [
        {"path": format_path(steps), "before": before, "after": after}
        for steps, before, after in made[:MAX_DIFFERENCES]
    ]
    cause = (
        "Its facts have changed" if changes else "Its facts or the policy have changed"
    )  # masked ones look alike
    words = f"{cause} since people approved it. That approval is void, and people are asked again."
    return ProblemRaised(
        409,
        FACTS_CHANGED,
        "Asked again",
        words,
        id=str(view.id),
        request_id=view.client_id,
        changes=changes,
    )
