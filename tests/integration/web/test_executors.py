"""Executors outside: what was approved is claimed once, done elsewhere, and reported."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from agent.domain.checkpoints import load
from agent.domain.errors import Refusal, sentence
from agent.usecases import pause
from agent.usecases import policy as policies
from signoff_demo.actors import choose
from slackbot.cards import ACTION_APPROVE
from tests.integration.asking import column, write
from tests.integration.web.conftest import GRACE, LINUS, POLICY, Program, Street, shown, until


async def approved(site: Street, program: Program, request_id: str = "r-1", **changes: Any) -> dict[str, Any]:
    """A request that Grace has approved."""
    opened = await program.ask(request_id, **changes)
    assert opened.status_code == 201, opened.text
    answer = await (await site.reviewer()).decide(opened.json()["id"])
    assert answer.json()["status"] == "approved", answer.text
    pending: dict[str, Any] = answer.json()
    return pending


async def claim(program: Program, request_id: str = "r-1", **body: Any) -> httpx.Response:
    return await program.post(f"/pending/{request_id}/claim", json=body)


async def report(program: Program, token: str, request_id: str = "r-1", **body: Any) -> httpx.Response:
    given = {"token": token, "status": "succeeded"} | body
    return await program.post(f"/pending/{request_id}/result", json=given)


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].removeprefix("urn:signoff:")


async def test_claimed_done_and_told(site: Street) -> None:
    """The claim hands out the arguments, the card shows it running and done; every step names the key in the record."""
    program = await site.program()
    pending = await approved(site, program)
    got = await claim(program, digest=pending["digest"])
    assert got.status_code == 200, got.text
    right = got.json()
    assert right["action"]["arguments"] == {"table_name": "customers", "count": 5}
    assert (right["revision"], right["edited"], right["attempt"]) == (1, False, 1)
    assert right["idempotency_key"] == pending["id"]
    card = await site.house.card()
    await site.house.slack.wait_for(lambda: "Running" in shown(site.house.now(card)))
    for _ in range(2):
        done = await report(program, right["token"], result={"deleted": 5}, seconds=1.2)
        assert done.status_code == 200, done.text
        execution = done.json()["execution"]
        assert (execution["status"], execution["result"]) == ("succeeded", '{"deleted":5}')
    await site.house.slack.wait_for(lambda: "Done" in shown(site.house.now(card)))
    await site.house.says("in 1.2 s", "C0REVIEW")
    events = [(actor, event) for actor, event, _ in await site.events(f"request:{pending['id']}")]
    assert events == [
        ("key:crm", "request.opened"),
        (f"slack:{GRACE}", "vote.cast"),
        (f"slack:{GRACE}", "request.decided"),
        ("key:crm", "execution.claimed"),
        ("key:crm", "execution.succeeded"),
    ]


async def test_one_of_many_claims_counts(site: Street) -> None:
    """Ten claims at once: one gets the right, nine learn that it is taken."""
    program = await site.program()
    await approved(site, program)
    answers = await asyncio.gather(*(claim(program) for _ in range(10)))
    assert sorted(each.status_code for each in answers) == [200] + [409] * 9
    assert {kind(each)[1] for each in answers if each.status_code == 409} == {"claimed"}
    assert await column(site.db, "SELECT count(*) FROM execution") == [1]


async def test_altered_terms_are_refused_at_both_doors(site: Street) -> None:
    """Neither a click in Slack nor a claim counts on a request whose deadline was moved in the database."""
    program = await site.program()
    opened = (await program.ask("r-0")).json()
    await approved(site, program)
    later = "UPDATE approval_request SET expires_at = expires_at + interval '1 day'"
    await write(site.db, later)
    card = await site.house.card()
    assert (await site.house.slack.person("U0GRACE").click(card, ACTION_APPROVE)).acked
    said = sentence(Refusal.TERMS_ALTERED)
    slack = site.house.slack
    assert await slack.wait_for(
        lambda: any(said in str(each.get("text")) for each in slack.ephemeral("U0GRACE"))
    )
    refused = await (await site.reviewer()).decide(opened["id"])
    assert kind(refused) == (403, "terms-altered")
    assert kind(await claim(program)) == (409, "altered")
    assert await column(site.db, "SELECT count(*) FROM execution") == [0]
    await write(site.db, later.replace("+", "-"))
    assert (await claim(program)).status_code == 200


async def test_what_is_not_approved_cannot_be_claimed(site: Street) -> None:
    """Waiting, rejected and withdrawn requests are 409; those of other keys 404; another digest 409."""
    program, other = await site.program(), await site.program("erp")
    await program.ask()
    assert kind(await claim(program)) == (409, "not-approved")
    await (await site.reviewer()).decides("r-1", "rejected")
    assert kind(await claim(program)) == (409, "not-approved")
    await program.ask("r-2")
    await program.delete("/pending/r-2")
    assert kind(await claim(program, "r-2")) == (409, "not-approved")
    pending = await approved(site, program, "r-3")
    assert kind(await claim(other, pending["id"])) == (404, "not-found")
    assert kind(await claim(program, "r-3", digest="0" * 64)) == (409, "other-digest")
    assert (await claim(program, "r-3", digest="zz")).status_code == 422
    reader = await site.program("reader", ["read"])
    assert kind(await claim(reader, "r-3")) == (403, "scope-missing")
    assert await column(site.db, "SELECT count(*) FROM execution") == [0]
    assert (await program.post("/pending/r-3/claim")).status_code == 200


async def test_a_vote_and_a_claim_at_once(site: Street) -> None:
    """A claim that races with the deciding vote gets the right after it or is asked to retry; never twice."""
    program, reviewer = await site.program(), await site.reviewer()
    for number in range(10):
        name = f"r-{number}"
        await program.ask(name)
        voted, *claims = await asyncio.gather(
            reviewer.decide(name), *(claim(program, name) for _ in range(3))
        )
        assert voted.status_code == 200
        won = [each for each in claims if each.status_code == 200]
        assert len(won) <= 1
        last = await claim(program, name)
        assert kind(last)[1] == "claimed" if won else last.status_code == 200


async def test_results_need_their_token_and_are_final(site: Street) -> None:
    """A wrong token is 403, another result 409; what was reported first stands."""
    program = await site.program()
    await approved(site, program)
    token = (await claim(program)).json()["token"]
    assert kind(await report(program, "guess")) == (403, "wrong-token")
    failed = await report(program, token, status="failed", error="no such table")
    assert failed.json()["execution"]["error"] == "no such table"
    assert kind(await report(program, token, result="5")) == (409, "reported")
    assert kind(await report(program, token, status="failed", error="another")) == (409, "reported")
    assert (await report(program, token, status="failed")).status_code == 422
    assert (await report(program, token, status="succeeded", error="?")).status_code == 422
    card = await site.house.card()
    await site.house.slack.wait_for(lambda: "no such table" in shown(site.house.now(card)))
    assert kind(await claim(program)) == (409, "claimed")


@pytest.mark.parametrize("read", [None, "/pending/r-1", "/pending?mine=true"])
async def test_an_approval_lapses(site: Street, read: str | None) -> None:
    """Not claimed in time: refused at once by the clock, then the sweep records it, and card and thread say so. Of an
    approval that its requester has read they say that it was handed over, and not that it will not run.
    """
    program = await site.program()
    pending = await approved(site, program)
    assert (pending["lapse_at"] is not None, pending["handed_over_at"]) == (True, None)
    if read:
        answers = [(await program.get(read)).json() for _ in range(2)]
        times = {(each["items"][0] if "items" in each else each)["handed_over_at"] for each in answers}
        assert None not in times
        assert len(times) == 1
    await site.write("UPDATE tool_call SET lapse_at = clock_timestamp() - interval '1 hour'")
    assert kind(await claim(program)) == (409, "lapsed")

    async def lapsed() -> bool:
        return bool(await column(site.db, "SELECT lapsed_at FROM tool_call WHERE lapsed_at IS NOT NULL"))

    await until(lapsed)
    assert kind(await claim(program)) == (409, "lapsed")
    assert [event for _, event, _ in await site.events(f"request:{pending['id']}")][-1] == "approval.lapsed"
    card = await site.house.card()
    outcome = "Handed over" if read else "Lapsed"
    await site.house.slack.wait_for(lambda: outcome in shown(site.house.now(card)))
    assert ("will not be run" in shown(site.house.now(card))) is not bool(read)
    await site.house.says(
        "read the approval but has not reported an outcome" if read else "Approval lapsed", "C0REVIEW"
    )
    assert (await program.get("/pending/r-1")).json()["status"] == "approved"


async def test_a_broken_record_holds_up_no_other_lapse(site: Street) -> None:
    """Of three approvals that nobody claimed in time two lapse although the record of the third is broken."""
    program, grace = await site.program(), await site.reviewer()
    asked = [(await program.ask(name)).json()["id"] for name in ("r-1", "r-2", "r-3")]
    for each in asked:
        await grace.decides(each)
    await site.write("UPDATE audit_head SET seq = seq - 1 WHERE subject = :last", last=f"request:{asked[-1]}")
    await site.write("UPDATE tool_call SET lapse_at = clock_timestamp() - interval '1 hour'")

    async def lapsed() -> bool:
        sql = "SELECT client_id FROM tool_call WHERE lapsed_at IS NOT NULL ORDER BY id"
        return await column(site.db, sql) == ["r-1", "r-2"]

    assert await until(lapsed)


async def test_head_reads_no_approval(site: Street) -> None:
    """A HEAD of an approved request hands nothing over: the program has not read that it may act."""
    program = await site.program()
    await approved(site, program)
    for path in ("/pending/r-1", "/pending"):
        assert (await program.head(path)).status_code == 200
    assert await column(site.db, "SELECT handed_over_at FROM tool_call") == [None]
    assert (await program.get("/pending/r-1")).json()["handed_over_at"] is not None


async def test_silence_is_doubt_and_people_settle_it(site: Street) -> None:
    """A claim without a result becomes in doubt; Retry on the card makes it claimable again, Mark as done ends it."""
    program = await site.program()
    await approved(site, program)
    first = (await claim(program, lease=60)).json()
    await fall_silent(site, program)
    assert kind(await claim(program)) == (409, "claimed")
    late = await report(program, first["token"], status="failed", error="too late")
    assert kind(late) == (409, "late")
    assert await column(site.db, "SELECT late_result FROM execution") == ["failed: too late"]
    await press(site, "signoff:retry", first["execution_id"])
    second = await until(lambda: claimed(program))
    assert second["attempt"] == 2
    assert second["idempotency_key"] == first["idempotency_key"]
    await fall_silent(site, program)
    await press(site, "signoff:done", second["execution_id"])

    async def settled() -> bool:
        return (await program.get("/pending/r-1")).json()["execution"]["settled_as"] == "done"

    await until(settled)
    assert kind(await claim(program)) == (409, "claimed")


async def test_a_late_success_ends_the_doubt(site: Street) -> None:
    """The program reports after all that it is done: nobody has to settle it, and Retry is refused."""
    program = await site.program()
    await approved(site, program)
    claimed_once = (await claim(program, lease=60)).json()
    await fall_silent(site, program)
    assert (await report(program, claimed_once["token"], result="refunded")).status_code == 200
    execution = (await program.get("/pending/r-1")).json()["execution"]
    assert (execution["status"], execution["result"]) == ("succeeded", "refunded")
    assert kind(await claim(program)) == (409, "claimed")


async def fall_silent(site: Street, program: Program) -> None:
    """The lease of the open claim is over, and the sweep has seen it."""
    await site.write(
        "UPDATE execution SET lease_until = clock_timestamp() - interval '1 s' WHERE status = 'claimed'"
    )

    async def in_doubt() -> bool:
        return (await program.get("/pending/r-1")).json()["execution"]["status"] == "in_doubt"

    await until(in_doubt)


async def press(site: Street, button: str, execution_id: str) -> None:
    """Grace presses this button of the card, once it is there for this attempt."""
    card = await site.house.card()
    await site.house.slack.wait_for(lambda: execution_id in shown(site.house.now(card)))
    await site.house.slack.person(GRACE.user_id).click(site.house.now(card), button)


async def claimed(program: Program) -> Any:
    answer = await claim(program)
    return answer.json() if answer.status_code == 200 else None


async def test_an_edit_in_slack_is_what_is_claimed(site: Street) -> None:
    """A reviewer changes the count on the card: the old digest is refused, and the claim has the new arguments."""
    program = await site.program()
    first = (await program.ask()).json()
    card = await site.house.card()
    grace = site.house.slack.person(GRACE.user_id)
    await choose(site.house.slack, GRACE.user_id, card, "signoff:edit")
    await grace.submit(site.house.slack.views(GRACE.user_id)[-1], {"signoff:edit:0/signoff:field": "3"})
    now = await until(lambda: revision(program, 2))
    assert now["digest"] != first["digest"]
    assert now["edited"]
    await (await site.reviewer()).decides("r-1", revision=2)
    assert kind(await claim(program, digest=first["digest"])) == (409, "other-digest")
    got = (await claim(program)).json()
    assert (got["action"]["arguments"]["count"], got["edited"], got["revision"]) == (3, True, 2)


async def revision(program: Program, number: int) -> Any:
    pending = (await program.get("/pending/r-1")).json()
    return pending if pending["revision"] == number else None


async def test_a_paused_agent_begins_nothing(site: Street) -> None:
    """While its agent is paused an approval cannot be claimed, and no claim is repeated; resumed, it can."""
    program = await site.program()
    await approved(site, program)
    once: dict[str, Any] = {"headers": {"Idempotency-Key": "once"}, "json": {}}
    await pause.pause(site.db, "crm", by=GRACE)
    assert kind(await program.post("/pending/r-1/claim", **once)) == (409, "paused")
    await pause.resume(site.db, "crm", by=GRACE)
    claimed = await program.post("/pending/r-1/claim", **once)
    assert claimed.status_code == 200
    await pause.pause(site.db, "crm", by=GRACE)
    assert kind(await program.post("/pending/r-1/claim", **once)) == (409, "paused")
    await pause.resume(site.db, "crm", by=GRACE)
    assert (await program.post("/pending/r-1/claim", **once)).json()["token"] == claimed.json()["token"]


STRICTER = POLICY.replace(
    'checkpoint_id = "deletions"', 'checkpoint_id = "deletions"\napprovals_required = 2'
)
DENIED = POLICY.replace("[[checkpoint]]", 'unmatched = "deny"\n[[checkpoint]]', 1).replace(
    '"delete_*"', '"drop_*"'
)


async def test_a_stricter_policy_reaches_what_was_approved_before(site: Street) -> None:
    """An approval that policy now finds too weak is void, and people are asked under the new rule; a denied action does
    not begin.
    """
    program = await site.program()
    first = await approved(site, program)
    await policies.apply(site.db, load(STRICTER, filename="stricter"), by="cli:ada")
    again = await claim(program)
    assert kind(again) == (409, "facts-changed")
    assert "Its facts or the policy have changed" in again.json()["detail"]
    now = (await program.get("/pending/r-1")).json()
    assert (now["id"], now["status"], now["approvals_required"]) == (again.json()["id"], "waiting", 2)
    assert (await program.get(f"/pending/{first['id']}")).json()["voided"]
    last = (await site.events(f"request:{first['id']}"))[-1]
    assert (last[1], last[2]["because"]) == (
        "request.reopened",
        "policy is stricter than before (approvals_required)",
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", 'execute_within = "1s"', (409, "lapsed")),
        ("allow_edit = true", "", (409, "facts-changed")),
        ("allow_edit = true", "allow_edit = true\neditor_may_approve = true", None),
        ("allow_edit = true\neditor_may_approve = true", "allow_edit = true", (409, "facts-changed")),
    ],
    ids=["execute_within", "allow_edit", "editor_may_approve", "the same"],
)
async def test_the_decision_itself_must_stand_under_the_policy_in_force(
    site: Street, before: str, after: str, expected: tuple[int, str] | None
) -> None:
    """An edited action that could not be edited any more is asked again; a shorter time to execute has passed."""
    await policies.apply(site.db, load(_with(before), filename="before"), by="cli:ada")
    program = await site.program()
    await program.ask()
    if "allow_edit" in before:
        card, grace = await site.house.card(), site.house.slack.person(GRACE.user_id)
        await choose(site.house.slack, GRACE.user_id, card, "signoff:edit")
        await grace.submit(site.house.slack.views(GRACE.user_id)[-1], {"signoff:edit:0/signoff:field": "3"})
        await until(lambda: revision(program, 2))
    await (await site.reviewer(LINUS, "linus")).decides("r-1", revision=2 if "allow_edit" in before else 1)
    await policies.apply(site.db, load(_with(after), filename="after"), by="cli:ada")

    async def old() -> bool:
        return await column(
            site.db, "SELECT decided_at + interval '1 s' <= clock_timestamp() FROM decision"
        ) == [True]

    await until(old)
    claimed = await claim(program)
    assert (None if claimed.status_code == 200 else kind(claimed)) == expected
    if expected == (409, "facts-changed"):  # asked again, the edit is covered
        await (await site.reviewer(LINUS, "linus")).decides(claimed.json()["id"])
        assert (await claim(program)).status_code == 200


def _with(terms: str) -> str:
    """The policy with these terms of its first checkpoint instead of its own about edits."""
    return POLICY.replace("allow_edit = true\neditor_may_approve = true\n", f"{terms}\n")


async def test_an_approved_action_that_policy_now_denies_does_not_begin(site: Street) -> None:
    """The claim is refused with the reason, and the approval stays as it is."""
    program = await site.program()
    await approved(site, program)
    await policies.apply(site.db, load(DENIED, filename="denied"), by="cli:ada")
    refused = await claim(program)
    assert kind(refused) == (403, "denied")
    assert "policy denies this now" in refused.json()["detail"]
    assert (await program.get("/pending/r-1")).json()["status"] == "approved"
    assert await column(site.db, "SELECT count(*) FROM execution") == [0]


async def test_a_looser_policy_changes_nothing_about_an_approval(site: Street) -> None:
    """What policy would now let run without people is claimed under the approval that it has."""
    program = await site.program()
    await approved(site, program)
    looser = POLICY.replace('"delete_*"', '"drop_*"').replace(
        "[[checkpoint]]", 'unmatched = "allow"\n[[checkpoint]]', 1
    )
    await policies.apply(site.db, load(looser, filename="looser"), by="cli:ada")
    assert (await claim(program)).status_code == 200
