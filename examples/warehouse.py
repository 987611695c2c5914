"""Executes the approved calls of an agent's tool `ship_order`, which has `external=True`.

SIGNOFF_URL says where Signoff is, SIGNOFF_KEY has the scope `execute`.
"""

import os
import time

import httpx2

signoff = httpx2.Client(
    base_url=os.environ["SIGNOFF_URL"],
    headers={"Authorization": f"Bearer {os.environ['SIGNOFF_KEY']}"},
    timeout=70,
    transport=httpx2.HTTPTransport(retries=5),
)


def ship_order(order_id: int, idempotency_key: str) -> dict[str, str]:
    """Act in the real world; pass the key on to whatever accepts one."""
    print(f"shipping order {order_id}", flush=True)
    return {"parcel": f"P-{order_id}", "booked_as": idempotency_key}


def carry_out(call_id: str) -> None:
    """Claim a call, execute it, and report the result."""
    claimed = signoff.post(f"/executions/{call_id}/claim", json={"lease": "10m"})
    if claimed.status_code == 409:  # another program was first, or people are asked again
        return
    claim = claimed.raise_for_status().json()
    report = {"token": claim["token"]}
    try:
        done = ship_order(**claim["action"]["arguments"], idempotency_key=claim["idempotency_key"])
        report |= {"status": "succeeded", "result": done}
    except Exception as error:  # the agent receives the error
        report |= {"status": "failed", "error": str(error) or type(error).__name__}
    while (answer := signoff.post(f"/executions/{call_id}/result", json=report)).status_code in (429, 503):
        time.sleep(1)  # repeating a report has no effect
    answer.raise_for_status()


def main() -> None:
    while True:
        try:
            for call in signoff.get("/executions", params={"wait": 30}).raise_for_status().json():
                carry_out(call["call_id"])
        except httpx2.HTTPError as error:
            print(f"again in a second: {error}", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    main()
