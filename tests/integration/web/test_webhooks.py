"""`/webhooks` over HTTP, for keys with the scope admin."""

from __future__ import annotations

from typing import Any

from tests.integration.asking import write
from tests.integration.web.conftest import Street

URL = "https://example.com/hook"


async def test_from_adding_to_removing(site: Street) -> None:
    """201 with the secret, once; listed without it; dead notices are paged and replayed; removed is removed."""
    admin = await site.program("admin", ["admin"])
    added = await admin.post("/webhooks", json={"name": "ops", "url": URL, "events": ["request.opened"]})
    assert added.status_code == 201, added.text
    secret = added.json()["secret"]
    assert secret.startswith("whsec_")
    again = await admin.post("/webhooks", json={"name": "ops", "url": URL})
    assert again.status_code == 409
    await write(site.db, "UPDATE webhook SET url = 'https://169.254.1.1/'")  # so that nothing goes out
    crm = await site.program("crm")
    for number in range(3):
        asked = {"request_id": f"r-{number}", "action": "refund", "action_description": "Refund order 7"}
        assert (await crm.post("/pending", json=asked)).status_code == 201
    await write(site.db, "UPDATE notice SET state = 'dead', error = 'answered 500'")
    listed = await admin.get("/webhooks")
    assert secret not in listed.text
    [line] = listed.json()["items"]
    assert (line["name"], line["events"], line["dead"]) == ("ops", ["request.opened"], 3)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await admin.get("/webhooks/dead", params={"limit": "2", **cursor})).json()
        seen += [each["id"] for each in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert len(set(seen)) == len(seen) == 3
    assert (await admin.post(f"/webhooks/dead/{seen[0]}/replay")).status_code == 202
    assert (await admin.post(f"/webhooks/dead/{seen[0]}/replay")).status_code == 404
    assert (await admin.delete("/webhooks/ops")).status_code == 204
    assert (await admin.delete("/webhooks/ops")).status_code == 404
    assert (await admin.get("/webhooks/dead")).json()["items"] == []


async def test_what_is_refused(site: Street) -> None:
    """Other scopes, unknown fields and events, and addresses that lead inside: nothing is added."""
    program = await site.program("crm", ["request", "read"])
    assert (await program.post("/webhooks", json={"name": "ops", "url": URL})).status_code == 403
    assert (await program.get("/webhooks")).status_code == 403
    admin = await site.program("admin", ["admin"])
    wrong: tuple[dict[str, Any], ...] = (
        {"url": "https://169.254.169.254/"},
        {"url": "http://example.com/"},
        {"name": "no spaces"},
        {"events": []},
        {"events": ["everything"]},
        {"secret": "mine"},
    )
    for changes in wrong:
        answer = await admin.post("/webhooks", json={"name": "ops", "url": URL} | changes)
        assert answer.status_code == 422, changes
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert (await admin.get("/webhooks")).json()["items"] == []
