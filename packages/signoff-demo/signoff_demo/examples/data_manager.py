"""Changes data and notifies people: both tools require approval, whatever the checkpoints say."""

from signoff import Agent, tool


@tool(requires_approval=True, risk="high")
def delete_records(table_name: str, count: int) -> str:
    """Delete records from a database table.

    Args:
        table_name: The table.
        count: How many records to delete.
    """
    return f"Deleted {count} records from {table_name}"


@tool(requires_approval=True)
def send_notification(recipient: str, message: str) -> str:
    """Send a notification to somebody.

    Args:
        recipient: E-mail address or user name.
        message: What to tell them.
    """
    return f"Sent notification to {recipient}: {message}"


data_manager = Agent(
    name="data_manager",
    description="Manages data, and tells people about it.",
    instructions="You help people to manage their data. Say what you have done, and what was refused and why.",
    tools=[delete_records, send_notification],
)
