"""Grants that may cover a call; the claim checks them under their locks.

The unknown (Slack is away, the scan for secrets took too long) is not consent: people are asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.domain.grants import CallToCover, Grant
from agent.domain.judgement import Judgement
from agent.runtime.judging.run_calls import CurrentCall
from agent.runtime.services import Services
from agent.store import grants as stored_grants
from agent.store.grants import GrantState, StoredGrant
from agent.usecases import grants
from agent.usecases.grants import Cover
from signoff.errors import SignoffError

MAX_KNOWN = 500
"""One may be as large as a call's arguments."""


async def covers_of_call(
    services: Services, current: CurrentCall, judgement: Judgement, live: Sequence[GrantState] | None = None
) -> list[Cover]:
    """Empty if people were asked, or rejected a similar call. ``live``: grants that were read already."""
    work, agent, tool = current.work, current.agent, current.tool
    asked = work.call.request_id is not None or work.call.repeats is not None
    if asked or judgement.rule is None or judgement.rejected is not None:
        return []
    call = CallToCover(
        action=current.action,
        facts=current.facts,
        rule=judgement.rule,
        requester=work.run.requester,
        agent=agent.name,
        agent_version=agent.version,
        above=work.run.above,
        signature=tool.signature.digest,
        judgement=judgement,
    )
    return await covers_of(services, call, live)


async def covers_of(
    services: Services, call: CallToCover, live: Sequence[GrantState] | None = None
) -> list[Cover]:
    """Covers, earliest end first."""
    checks = services.grant_checks
    if checks is None or services.policy.grants is None or call.uncoverable is not None:
        return []
    fitting = await _fitting(services, call, live)
    if not fitting or not await checks.is_scanned(call):
        return []
    try:
        channel_id = services.destination(call.rule.channel).channel_id
    except SignoffError:  # Slack not reached yet
        return []
    people = {person for each in fitting for person in each.granters}
    standings = await checks.standings(people, call.rule.approvers, channel_id)
    return [Cover(each.id, call, standings) for each in fitting]


async def _fitting(
    services: Services, call: CallToCover, live: Sequence[GrantState] | None
) -> list[StoredGrant]:
    """A grant known not to match is not read again."""
    known = services.known_grants
    if live is None:
        kind = (call.agent, call.action.tool, call.rule.checkpoint_id)
        live = await services.db.read(stored_grants.live, *kind)
    ids = [each.id for each in live if each.id not in known or _fits(each, known[each.id], call)]
    fitting = []
    for each in await services.db.read(stored_grants.read, ids) if ids else []:
        if (allowed := grants.granted(each)) is not None:
            known[each.id] = allowed
            fitting += [each] if _fits(each, allowed, call) else []
    while len(known) > MAX_KNOWN:
        del known[next(iter(known))]
    return fitting


def _fits(stored: GrantState | StoredGrant, allowed: Grant, call: CallToCover) -> bool:
    if allowed.objection(call) is not None:
        return False
    return allowed.exhausted(stored.at, stored.uses, stored.used_sum, allowed.amount(call)) is None
