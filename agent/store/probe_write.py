"""A write that leaves nothing behind, to know whether the database stores what people decide."""

from __future__ import annotations

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, fetch


async def missing_rights(connection: Connection) -> list[str]:
    """Rights on tables that the service needs and does not have."""
    return [row.missing for row in await fetch(connection, _MISSING)]


def write(tx: Transaction, key: str) -> None:
    """One row, deleted with the same COMMIT. ``key``: two at a time differ."""
    tx.add(_INSERT, key=key)
    tx.add(_DELETE, key=key)


def fill(tx: Transaction) -> None:
    """A quarter of a megabyte in a temporary file, gone at once.

    One row may still fit into a page that the tables have, while the disk is full.
    """
    tx.add(_LITTLE_MEMORY)
    tx.add(_ON_DISK)


_MISSING = text("""
SELECT needed.privilege || ' on ' || needed.name AS missing
FROM (
    SELECT unnest(CAST(privileges AS text[])) AS privilege, name
    FROM (VALUES
        ('{SELECT,INSERT}', '{answer,audit_event,decision,grant_use,judgement,told_week,policy,request_revision,
                              retry_vote,rule,run_message,settlement,vote}'),
        ('{UPDATE}', '{vote}'),
        ('{SELECT,INSERT,UPDATE}', '{admin_channel,agent_run,api_key,approval_grant,approval_request,audit_head,
                                     card_place,execution,notify_choice,tool_call,webhook}'),
        ('{SELECT,INSERT,UPDATE,DELETE}', '{delivery,digest_card,http_reply,key_use,limit_sum,limit_use,notice,outlet,
                                            pause,request_group,request_search,schedule,schedule_start,search_due,sign_in_link,
                                            web_session}')
    ) AS given (privileges, tables) CROSS JOIN unnest(CAST(tables AS text[])) AS name
) AS needed
WHERE NOT CASE needed.privilege WHEN 'DELETE' THEN has_table_privilege(to_regclass(needed.name), 'DELETE')
          ELSE has_any_column_privilege(to_regclass(needed.name), needed.privilege) END
ORDER BY missing
""")
# No API key has this name.
_INSERT = text("INSERT INTO http_reply (principal, key, fingerprint) VALUES ('', :key, sha256(''))")
_DELETE = text("DELETE FROM http_reply WHERE principal = '' AND key = :key")
_LITTLE_MEMORY = text("SELECT set_config('work_mem', '64kB', true), set_config('temp_tablespaces', '', true)")
_ON_DISK = text("SELECT count(DISTINCT n || repeat('x', 1000)) FROM generate_series(1, 256) AS n")
