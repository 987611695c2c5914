"""An agent that deletes records only after a person has approved. Run it beside `signoff demo`."""

import logging
import os

from signoff import ApprovalClient

logging.basicConfig(format="%(message)s")
logging.getLogger("signoff.client").setLevel(logging.INFO)
# --8<-- [start:guarded]
client = ApprovalClient(os.environ["SIGNOFF_URL"], os.environ["SIGNOFF_KEY"])


@client.requires_approval(timeout=30)
def delete_records(table_name: str, count: int) -> str:
    """Delete the oldest records of a table."""
    return f"Deleted {count} records from {table_name}"


# --8<-- [end:guarded]


if __name__ == "__main__":
    print(delete_records("users", 50))
