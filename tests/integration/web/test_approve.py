"""`/approve`: a vote of a key's owner, judged like a click."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from signoff.values import Person
from tests.integration.asking import column, exclude
from tests.integration.web.conftest import ADA, GRACE, LINUS, TEAM, Street, shown


async def test_approved_by_key_shows_on_the_card(site: Street) -> None:
    """200 with the review; the card names the approver; the log names the person, the path and the key."""
    pending = (await (await site.program()).ask()).json()
    answer = await (await site.reviewer()).decide("r-1", reason="fine")
    assert answer.status_code == 200, answer.text
    decided = answer.json()
    assert (decided["status"], decided["reason"]) == ("approved", "fine")
    assert decided["decided_by"] == {"team_id": TEAM, "user_id": GRACE.user_id}
    card = await site.house.card()
    await site.house.slack.wait_for(lambda: "Approved" in shown(site.house.now(card)))
    [vote] = [
        detail for _, event, detail in await site.events(f"request:{pending['id']}") if event == "vote.cast"
    ]
    assert (vote["path"], vote["principal"]) == ("api", "key:grace")
    assert await column(site.db, "SELECT path FROM vote") == ["api"]


async def test_a_key_of_a_member_at_home_in_another_workspace(site: Street) -> None:
    """In an Enterprise Grid, a member's key approves, whichever workspace they call home; others of the organisation
    find no such request.
    """
    workspace = site.house.slack.workspace
    workspace.add_member("U0HANA", "hana", team_id="T0SECOND", workspaces=("T0SECOND", TEAM))
    workspace.add_member("U0OTHER", "other", team_id="T0SECOND", workspaces=("T0SECOND",))
    workspace.usergroups["S0FINANCE"].users += ["U0HANA", "U0OTHER"]
    await (await site.program()).ask()
    other = await (await site.reviewer(Person(TEAM, "U0OTHER"), "other")).decide("r-1")
    assert other.status_code == 404
    hana = (await (await site.reviewer(Person(TEAM, "U0HANA"), "hana")).decide("r-1")).json()
    assert hana["decided_by"] == {"team_id": TEAM, "user_id": "U0HANA"}


async def test_what_is_decided_stays(site: Street) -> None:
    """A second person's vote is 409 with who and when; the same vote of the same person changes nothing."""
    await (await site.program()).ask()
    grace, linus = await site.reviewer(), await site.reviewer(LINUS, "linus")
    assert (await grace.decide("r-1", "rejected", reason="no")).json()["status"] == "rejected"
    late = await linus.decide("r-1")
    problem = late.json()
    assert (late.status_code, problem["type"]) == (409, "urn:signoff:already-decided")
    assert problem["outcome"] == "rejected"
    assert problem["decided_by"] == {"team_id": TEAM, "user_id": GRACE.user_id}
    assert problem["decided_at"].endswith("Z")
    assert (await grace.decide("r-1", "rejected")).status_code == 200
    assert await column(site.db, "SELECT count(*) FROM vote") == [1]


async def test_short_of_quorum_it_goes_on_waiting(site: Street) -> None:
    """Where two have to approve, the first is answered 200 and `waiting`, the second `approved` by both."""
    await (await site.program()).ask(action="transfer_money", arguments={"amount": 5})
    first = await (await site.reviewer()).decide("r-1")
    assert (first.status_code, first.json()["status"], first.json()["approvals"]) == (200, "waiting", 1)
    second = await (await site.reviewer(LINUS, "linus")).decide("r-1")
    assert (second.json()["status"], second.json()["approvals"]) == ("approved", 2)
    assert second.json()["decided_by"]["user_id"] == LINUS.user_id
    assert [each["user_id"] for each in second.json()["approved_by"]] == [GRACE.user_id, LINUS.user_id]


async def test_a_reason_may_be_needed(site: Street) -> None:
    """Where the checkpoint wants a reason, a rejection without one is 422 and recorded as refused."""
    await (await site.program()).ask(action="transfer_money", arguments={"amount": 5})
    grace = await site.reviewer()
    for words in ({}, {"reason": "  "}):
        answer = await grace.decide("r-1", "rejected", **words)
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:signoff:reason-required")
    assert (await grace.decide("r-1", "rejected", reason="too much")).json()["status"] == "rejected"


async def test_unknown_expired_and_stale(site: Street) -> None:
    """No such request is 404; one out of time 409; another revision than the one looked at 409."""
    grace = await site.reviewer()
    for name in ("none", "01936f5e-0000-7000-8000-000000000000"):
        assert (await grace.decide(name)).status_code == 404
    await (await site.program()).ask()
    stale = await grace.decide("r-1", revision=2)
    assert (stale.status_code, stale.json()["type"]) == (409, "urn:signoff:stale-revision")
    await site.house.make_overdue()
    expired = await grace.decide("r-1")
    assert (expired.status_code, expired.json()["type"]) == (409, "urn:signoff:expired")


async def test_who_asks_never_decides(site: Street) -> None:
    """A key that requests is 403 at /approve, also with admin beside it; nothing changes and nothing is voted."""
    program = await site.program(scopes=["request", "on_behalf", "read", "admin"])
    await program.ask()
    answer = await program.decide("r-1")
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:signoff:scope-missing")
    assert 'scope="decide"' in answer.headers["WWW-Authenticate"]
    assert await column(site.db, "SELECT count(*) FROM vote") == [0]


@dataclass(frozen=True)
class Who:
    """The owner of a deciding key; `refusal` is what they must meet."""

    user: str
    refusal: str | None
    status: int
    team: str = TEAM
    action: str = "post_note"
    trouble: str = ""
    involvement: str = ""

    @property
    def unseen(self) -> bool:
        """Whether they may not see the request, or Slack does not say."""
        return self.status in (404, 503)

    def refused(self, decision: str) -> bool:
        """Whether this decision of theirs is refused: who shaped an action may do all but approve it."""
        shaped = self.involvement in ("adviser", "editor")
        return self.refusal is not None and (decision == "approved" or not shaped)


PEOPLE = {
    "a reviewer": Who("U0GRACE", None, 200, action="delete_records"),
    "a member of the channel": Who("U0LINUS", None, 200),
    "the requester": Who("U0ADA", "self_review", 403),
    "who owns the key that asked": Who("U0LINUS", "self_review", 403, involvement="key_owner"),
    "who instructed the agent": Who("U0LINUS", "instructed", 403, involvement="instructor"),
    "who advised the agent": Who("U0LINUS", "advised", 403, involvement="adviser"),
    "an editor": Who("U0LINUS", "editor_alone", 403, involvement="editor"),
    "our bot": Who("U0BOT", "not_found", 404),
    "another bot": Who("U0ROBOT", "not_found", 404),
    "a guest": Who("U0MALLORY", "not_found", 404),
    "an outsider": Who("U0EVE", "not_found", 404, team="T0ELSEWHERE"),
    "an outsider who claims our team": Who("U0EVE", "not_found", 404),
    "a stranger": Who("U0STRANGE", "not_found", 404),
    "somebody deactivated": Who("U0GONE", "not_found", 404),
    "nobody": Who("U0NOBODY", "not_found", 404),
    "a member of the channel who is no reviewer": Who(
        "U0HERE", "not_a_reviewer", 403, action="delete_records"
    ),
    "a member who sees neither channel nor request": Who("U0OUT", "not_found", 404, action="delete_records"),
    "an empty list of reviewers": Who("U0GRACE", "no_reviewers", 403, action="nobody_knows"),
    "somebody of whom Slack does not tell": Who("U0LINUS", "lookup_failed", 503, trouble="error"),
    "somebody while Slack is limited": Who("U0LINUS", "rate_limited_lookup", 503, trouble="limit"),
}


async def test_every_owner_is_judged_like_a_click(site: Street) -> None:
    """Each owner meets their own refusal for both verdicts, recorded with the key if they see the request, as at
    `/pending`; to others a request is as if it did not exist; 0 votes; who may decide does.
    """
    workplace(site)
    program = await site.program()
    for number, (name, who) in enumerate(PEOPLE.items()):
        key = f"key-{number}"
        decider = await site.reviewer(Person(who.team, who.user), key)
        for decision in ("approved", "rejected"):
            pending = (await program.ask(f"r-{number}-{decision}", action=who.action)).json()
            if who.involvement:
                await exclude(site.db, pending["id"], Person(who.team, who.user), who.involvement)
            in_trouble(site, who)
            turned_away = who.refused(decision)
            answer = await decider.decide(pending["id"], decision)
            read = await decider.get(f"/pending/{pending['id']}")
            site.house.slack.faults.clear()
            assert answer.status_code == (who.status if turned_away else 200), (name, answer.text)
            assert read.status_code == (who.status if who.unseen else 200), (name, read.text)
            if turned_away:
                assert answer.json()["type"] == f"urn:signoff:{who.refusal}".replace("_", "-"), name
            if who.status == 404:
                assert answer.json() == (await decider.decide("no-such-request", decision)).json(), name
            seen = (await program.get(f"/pending/{pending['id']}")).json()
            assert seen["status"] == ("waiting" if turned_away else decision), name
            refused = [
                (detail["refusal"], detail["path"], detail["principal"])
                for _, event, detail in await site.events(f"request:{pending['id']}")
                if event == "vote.refused"
            ]
            recorded = turned_away and not who.unseen
            assert refused == ([(who.refusal, "api", f"key:{key}")] if recorded else []), name
            votes = await column(
                site.db, "SELECT count(*) FROM vote WHERE request_id = :id", id=pending["id"]
            )
            assert votes == [int(not turned_away)], name


def workplace(site: Street) -> None:
    """More people than usual, all but one of them in the review channel."""
    workspace = site.house.slack.workspace
    (
        workspace.add_member("U0ROBOT", "robot", is_bot=True)
        .add_member("U0GONE", "gone", deleted=True)
        .add_member("U0STRANGE", "strange", is_stranger=True)
        .add_member("U0OUT", "out")
        .add_member("U0HERE", "here")
        .add_usergroup("S0EMPTY", "empty", [])
    )
    workspace.channels["C0REVIEW"].members.update({"U0ROBOT", "U0GONE", "U0STRANGE", "U0EVE", "U0HERE"})


def in_trouble(site: Street, who: Who) -> None:
    """What Slack does when it is asked about this person."""
    connected = site.service.slack.connection()
    assert connected is not None
    connected.directory.forget(who.user)
    if who.trouble == "error":
        site.house.slack.faults.error("users.info", "internal_error", times=None)
    elif who.trouble == "limit":
        site.house.slack.faults.ratelimited("users.info", retry_after=60, times=None)


async def test_a_name_means_only_what_the_owner_may_see(site: Street) -> None:
    """Of two requests of one name an owner who sees one gets that one, who sees both is asked which, and who sees
    none is told that there is none.
    """
    workplace(site)
    out, here = Person(TEAM, "U0OUT"), Person(TEAM, "U0HERE")
    own = (await (await site.program("theirs", owner=out)).ask()).json()
    await (await site.program()).ask()
    nobody = await site.reviewer(Person(TEAM, "U0NOBODY"), "nobody")
    for decider, status, kind in (
        (await site.reviewer(out, "out"), 403, "not-a-reviewer"),
        (await site.reviewer(here, "here"), 409, "ambiguous"),
        (nobody, 404, "not-found"),
    ):
        answer = await decider.decide("r-1")
        assert (answer.status_code, answer.json()["type"]) == (status, f"urn:signoff:{kind}")
    assert (await (await site.reviewer(out, "out")).get("/pending/r-1")).json()["id"] == own["id"]


async def test_ten_keys_at_once_make_one_decision(site: Street) -> None:
    """Of votes by key at the same moment one decides, the others are 409 and told who did."""
    await (await site.program()).ask(action="post_note")
    people = [GRACE, LINUS]
    keys = [await site.reviewer(person, f"k-{number}") for number, person in enumerate(people * 3)]
    answers = await asyncio.gather(
        *(key.decide("r-1", ("approved", "rejected")[number % 2]) for number, key in enumerate(keys))
    )
    statuses = {each.status_code for each in answers}
    assert statuses <= {200, 409}
    assert await column(site.db, "SELECT count(*) FROM decision") == [1]
    outcome = (await (await site.program()).get("/pending/r-1")).json()["status"]
    for each in answers:
        answer: dict[str, Any] = each.json()
        assert answer.get("status") == outcome if each.status_code == 200 else answer["outcome"] == outcome


async def test_what_is_no_decision_is_refused(site: Street) -> None:
    """An unknown verdict, or one on somebody else's behalf, is 422, and the request keeps waiting."""
    await (await site.program()).ask()
    grace = await site.reviewer()
    for body in ({}, {"decision": "maybe"}, {"decision": "approved", "as": ADA.user_id}, {"decision": None}):
        assert (await grace.post("/approve/r-1", json=body)).status_code == 422
    assert (await grace.get("/pending/r-1")).json()["status"] == "waiting"
