"""A program for type checkers (see test_types.py): each line with `ignore` is an error, and no other line is."""

from signoff import (
    Agent,
    ApprovalClient,
    AsyncApprovalClient,
    Decision,
    Tool,
    ToolContext,
    ask,
    function_agent,
    start,
    step,
    tool,
)

client = ApprovalClient("https://signoff.example.com", "key")
async_client = AsyncApprovalClient("https://signoff.example.com", "key")


@tool
def archive(table: str) -> int:
    """Archive a table."""
    return len(table)


@tool(requires_approval=True)
def delete(table: str, count: int = 1) -> str:
    """Delete records."""
    return f"{count} of {table}"


@tool(idempotent=True)
def pay(ctx: ToolContext, order: int) -> str:
    """Pay."""
    return f"{order} by {ctx.idempotency_key}"


@client.requires_approval(timeout=5)
def deploy(env: str, *, instances: int = 1) -> str:
    """Deploy."""
    return f"{instances} in {env}"


@async_client.requires_approval()
async def release(env: str) -> str:
    """Release."""
    return env


def read(table: str) -> str:
    """Read."""
    return table


async def count(table: str) -> int:
    """Count."""
    return len(table)


def calls() -> str:
    """Tools and guarded functions are called as they were written."""
    named: Tool[[str, int], str] | None = None
    size: int = archive(table="users")
    archive(tabel="users")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    delete("users", count="five")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    deploy(env="prod", instances=3)
    deploy(env="prod", instance=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    return delete("users", count=size) + str(named)


@function_agent(tools=[archive, delete, pay, read, count])
async def cleaner(task: str) -> str:
    """Steps take the arguments of what they do, and return what it returns; the context is Signoff's to give."""
    size: int = await step(archive, table=task)
    size = await step(count, table=task)
    paid: str = await step(pay, order=size)
    begun = await start(count, table=paid)
    size = await begun
    rows: list[int] = await step(read, table=task)  # type: ignore[call-overload]  # pyright: ignore[reportAssignmentType]
    words: str = await step(Agent("writer", "Write."), task=f"{rows}")
    answer = await ask("May I?", arguments={"size": size})
    size = answer.arguments["size"]
    bare = await ask(f"May I {words}?")
    bare.arguments["size"]  # type: ignore[index]  # pyright: ignore[reportOptionalSubscript]
    decided: Decision = bare
    assert decided.arguments is None
    await step(archive, table=task)
    await step(read, table=task)
    await step(pay, order=7)
    await step(archive, tabel=task)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await step(pay, ordr=7)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await step(read, tables=task)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await release(envi="prod")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    return await release(env="prod")
