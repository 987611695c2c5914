"""Grants: given, previewed, revoked, and checked at each use with Slack and the secret scan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID

from agent.database.pools import Database
from agent.domain import eligibility
from agent.domain.errors import GrantRefused, NotFound, OutdatedPolicy, Refusal, Refused
from agent.domain.explanation import UnfitGrant
from agent.domain.facts import Facts
from agent.domain.grants import CallToCover, Grant
from agent.domain.masked_action import MaskedAction
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_view import RequestView
from agent.domain.rules import GrantLimits, Rule
from agent.runtime.agents import Registry
from agent.runtime.judging.edits import schema_of
from agent.runtime.services import Services
from agent.store import views
from agent.store.outbox import Destination
from agent.store.views import DecidedCall, LiveGrant
from agent.usecases import grants
from agent.usecases.grants import GrantProposal
from agent.usecases.requests import Votes
from signoff.canonical import parse_canonical
from signoff.values import Action, Person
from slackbot.cards.grant_form import GrantTerms
from slackbot.cards.grant_preview import Preview
from slackbot.cards.lists import GrantLine
from slackbot.cards.schema import properties
from slackbot.masking import clean_descriptions, clean_view, is_scanned
from slackbot.reviewing.members import Connected
from slackbot.reviewing.votes import NewVote, cast_vote
from slackbot.slack_api.directory import Directory

NONE_HERE = "The policy in force allows no grants here."
ONLY_APPROVED = "Your approval of this request counts, but no grant was given. {why}"
POLICY_UNREADABLE = (
    "This process cannot read the policy in force, so no grant can be given. You can still approve this call."
)
NOT_SHOWN = "Part of this call is hidden, so similar calls cannot be allowed. You can still approve this one."
ENDED = "This grant has already ended."

Known = TypeVar("Known", LiveGrant, UnfitGrant)


async def check_giver(directory: Directory, person: Person, view: RequestView) -> None:
    """Raise ``Refused`` (not recorded) unless this person may approve: a preview counts other requests."""
    standing = await directory.standing(person, view.approvers, view.channel_id)
    refusal = eligibility.reviewer_refusal(view, standing, Verdict.APPROVE)
    if refusal is not None:
        raise Refused(refusal)


async def limits_for(services: Services, view: RequestView) -> GrantLimits:
    """Raises ``GrantRefused`` if the request allows no grant."""
    limits = _policy(services).grants
    if limits is None or not view.allow_grants or view.grant is not None:
        raise GrantRefused(NONE_HERE)
    clean = await clean_view(view)
    if isinstance(clean.action, MaskedAction) or clean.facts != view.facts:
        raise GrantRefused(NOT_SHOWN)
    return limits


def _policy(services: Services) -> Policy:
    try:
        return services.policy
    except OutdatedPolicy:
        raise GrantRefused(POLICY_UNREADABLE) from None


def choices_of(registry: Registry, view: RequestView) -> dict[str, Sequence[Any]]:
    """Return the values that the tool's schema offers, by argument; empty if the tool is not loaded here."""
    try:
        schema = schema_of(registry, view)
    except NotFound:
        return {}
    found = properties(schema, view.action.arguments)
    return {each.name: each.choices for each in found if each.choices}


async def preview(db: Database, view: RequestView, terms: GrantTerms) -> tuple[Preview, list[DecidedCall]]:
    """Matching rejected calls are listed, too."""
    decided = await db.read(views.decided_calls, view.team_id, view.agent, view.action.tool)
    grant = _as_grant(view, terms)
    matching = [each for each in decided if grant.mismatch(_decided_call(each)) is None]
    rejected = [each for each in matching if each.status is RequestStatus.REJECTED]
    return Preview(len(decided), len(matching) - len(rejected), len(rejected)), rejected


async def save(
    services: Services,
    votes: Votes,
    directory: Directory,
    vote: NewVote,
    view: RequestView,
    terms: GrantTerms,
) -> None:
    """Count the approval of the request, then propose the grant and count the approval there, too.

    A failure in between leaves no grant. Raises ``Refused`` (recorded), and ``GrantRefused``, whose sentence says so
    if the approval counts.
    """
    policy_epoch = _policy(services).epoch
    limits = await limits_for(services, view)
    await cast_vote(votes, directory, vote)
    proposal = GrantProposal(
        origin=view.id,
        by=vote.person,
        arguments=terms.arguments,
        facts=terms.facts,
        anyone=terms.anyone,
        lasts=terms.lasts,
        max_uses=terms.max_uses,
        sum_of=terms.sum_of,
        max_sum=terms.max_sum,
    )
    choices = choices_of(services.registry, view)
    destination = Destination(view.team_id, view.channel_id)
    try:
        opened = await grants.propose(
            services.db, proposal, limits, choices, destination, policy_epoch=policy_epoch
        )
    except GrantRefused as refused:
        raise GrantRefused(ONLY_APPROVED.format(why=refused.sentence)) from refused
    await cast_vote(votes, directory, replace(vote, request_id=opened.request_id, revision=1, place=None))


async def revocable(db: Database, directory: Directory, person: Person) -> list[LiveGrant]:
    """Return the live grants that a person may revoke; administrators all. Raises Refused for non-members."""
    return await revocable_among(directory, person, await db.read(views.live_grants))


async def revocable_among(directory: Directory, person: Person, among: Sequence[Known]) -> list[Known]:
    """Return those of some grants that a person may revoke. Raises Refused for non-members."""
    if (standing := await directory.identify(person)).refusal is not None:
        raise Refused(standing.refusal)
    found = [each for each in among if each.team_id == directory.own_team_id]
    if not found or await directory.is_admin(person):
        return found
    audiences = {(each.approvers, each.channel_id) for each in found}
    mine = {audience for audience in audiences if (await directory.standing(person, *audience)).roles}
    return [each for each in found if (each.approvers, each.channel_id) in mine]


async def revocable_lines(db: Database, directory: Directory, person: Person) -> list[GrantLine]:
    """Return the rows of the grants that a person may revoke, masked. Raises Refused for non-members."""
    found = await revocable(db, directory, person)
    texts = await clean_descriptions([each.description for each in found])
    return [
        GrantLine(each.id, text, each.uses, each.max_uses, each.until)
        for each, text in zip(found, texts, strict=True)
    ]


async def revoke(db: Database, directory: Directory, person: Person, grant_id: UUID, path: str) -> bool:
    """False: it had ended. Raises ``Refused`` (recorded) and ``NotFound``."""
    known = await db.read(views.vote_context, grant_id)
    if known is None or known.team_id != directory.own_team_id:
        raise NotFound("there is no such grant")
    standing = await directory.standing(person, known.approvers, known.channel_id)
    administrator = not standing.roles and await directory.is_admin(person)
    return await grants.revoke(
        db, grant_id, standing, known.approvers, administrator=administrator, path=path
    )


def _as_grant(view: RequestView, terms: GrantTerms) -> Grant:
    return Grant(
        kind=_call(view.action, Facts(view.facts), view.requester).kind,
        arguments=terms.arguments,
        facts=terms.facts,
        anyone=terms.anyone,
        requester=None if terms.anyone else view.requester,
        until=view.expires_at,
        max_uses=terms.max_uses,
        sum_of=terms.sum_of,
        max_sum=terms.max_sum,
    )


def _decided_call(decided: DecidedCall) -> CallToCover:
    facts: Mapping[str, Any] | None = parse_canonical(bytes(decided.facts)) if decided.facts else None
    return _call(Action.from_canonical(bytes(decided.action)), Facts(facts), decided.requester)


def _call(action: Action, facts: Facts, requester: Person | None) -> CallToCover:
    return CallToCover(action, facts, _ANY_RULE, requester, agent="", agent_version="")


_ANY_RULE = Rule(checkpoint_id="any", action_pattern=".*", on_reject="stop")


@dataclass(frozen=True, slots=True)
class SlackGrantChecks:
    """``connection`` returns ``None`` until Slack has identified us."""

    connection: Callable[[], Connected | None]

    async def standings(
        self, people: Collection[Person], approvers: Sequence[str], channel_id: str
    ) -> Mapping[Person, Standing]:
        """Current rights, from answers at most a minute old."""
        connected = self.connection()
        if connected is None:
            return {each: Standing(each, refusal=Refusal.LOOKUP_FAILED) for each in people}
        return await connected.directory.standings(people, approvers, channel_id)

    async def is_scanned(self, call: CallToCover) -> bool:
        return await is_scanned(call.action.arguments, call.facts.values, call.rule.redact)
