from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from agent.database.pools import Database
from agent.domain.api_keys import Principal, Scope
from agent.domain.audit import AuditKind, request_subject
from agent.domain.coverage import WouldRun, uncovered
from agent.domain.errors import NotFound
from agent.domain.facts import Facts
from agent.domain.judgement import Judgement
from agent.domain.limits import LimitState
from agent.domain.policy import check_epoch
from agent.domain.rules import Rule
from agent.store import audit, exclusions, external_executions, outbox, void_requests
from agent.store.audit import AuditEntry
from agent.store.external_executions import ClaimableRequest
from agent.store.ids import new_id
from agent.store.outbox import Destination
from agent.usecases.executions.external import FACTS_CHANGED, claimable_action, refused
from agent.usecases.requests.opening import write_request
from signoff.errors import Conflict


async def void_and_ask(
    db: Database,
    request_id: UUID,
    principal: Principal,
    facts: Facts,
    *,
    rule: Rule | None,
    destination: Destination | None,
    judgement: Judgement,
    limits: tuple[LimitState, ...] = (),
) -> UUID:
    """Void an approval whose facts have changed, or under a stricter policy, and ask people again. Idempotent.

    ``rule``, ``destination`` and ``limits`` come from the new evaluation. Without a rule the earlier one applies: the
    same people are asked, even if policy would now let the action run. Returns the new request's id. Raises
    ``NotFound``, ``ClaimRefused``, ``OutdatedPolicy`` and ``Conflict`` (the approval still covers it).
    """
    async with db.transaction() as tx:
        found = await external_executions.lock_approval(tx, request_id)
        if found is None or found.principal != principal.name or found.call_id is not None:
            raise NotFound("there is no such request")
        if found.voided:
            again = await void_requests.find_successor(tx, found.principal, found.client_id)
            if again is None:
                raise NotFound("there is no such request any more")
            return again
        check_epoch(judgement.epoch, found.policy_epoch)
        because = _because(found, facts, judgement)
        question, excluded = await void_requests.void(tx, request_id)
        new = replace(
            question,
            rule=rule or question.rule,
            destination=destination or question.destination,
            facts=facts.values,
            facts_source=facts.source,
            judgement=judgement,
            rejected_before=judgement.rejected,
            limits=limits,
            policy_epoch=judgement.epoch,
            only_session=principal.may(Scope.SESSIONS),
        )
        if new.rule.description_template is not None:
            new = replace(new, description=new.rule.describe(new.action, new.facts))
        again = new_id()
        old = await audit.lock_head(tx, request_subject(request_id))
        detail = {"because": because, "anew": str(again)}
        audit.append(tx, old, AuditEntry(AuditKind.REQUEST_REOPENED, audit.SYSTEM, detail))
        at, involved = await exclusions.involved(tx, new.lineage)
        head = audit.new_head(request_subject(again), at.now)
        people = list(dict.fromkeys([*involved, *excluded]))
        write_request(tx, again, new, found.ask_no + 1, head, people)
        line = outbox.request_line(found.destination, request_id, "voided")
        outbox.enqueue(tx, [outbox.card(found.destination, request_id), line])
    return again


def _because(found: ClaimableRequest, facts: Facts, judgement: Judgement) -> str:
    """Raises ``ClaimRefused``, and ``Conflict`` if the approval still covers it."""
    action = claimable_action(found, None)
    missing = uncovered(found, action, WouldRun(action, facts, judgement, facts_are_read=True))
    if missing is None:
        raise Conflict("facts and policy are those of the approval")
    if (refusal := refused(missing)).kind != FACTS_CHANGED:
        raise refusal
    return missing.because
