"""Runs with those below them that they wait for."""

from __future__ import annotations


def descendants_query(run: str) -> str:
    """A query of the runs (``id``, ``agent``) that work for calls of the run ``run``, and those that work for these.

    One whose call has its answer already is none of them: nothing above waits for it any more.
    """
    return f"""WITH RECURSIVE below AS (
               SELECT r.id, r.agent FROM tool_call AS g
               JOIN agent_run AS r ON r.parent_run_id = g.run_id AND r.parent_call_id = g.id
               WHERE g.run_id = {run}.id AND g.state = 'delegated'
               UNION ALL
               SELECT r.id, r.agent FROM below AS b
               JOIN tool_call AS g ON g.run_id = b.id AND g.state = 'delegated'
               JOIN agent_run AS r ON r.parent_run_id = g.run_id AND r.parent_call_id = g.id)
           SELECT id, agent FROM below"""  # noqa: S608 - a constant


def with_descendants(run: str) -> str:
    """A query of the ids of this run and of those below it. To be joined, laterally where ``run`` stands beside it."""
    return f"SELECT {run}.id UNION ALL SELECT b.id FROM ({descendants_query(run)}) AS b"  # noqa: S608 - a constant


def waiting_descendants_column(run: str) -> str:
    """A column ``waiting_below``: the agent of each request that waits in a run below, the first asked first."""
    return f"""(SELECT array_agg(b.agent ORDER BY w.id) FROM ({descendants_query(run)}) AS b
           JOIN tool_call AS w ON w.run_id = b.id AND w.state = 'asked') AS waiting_below"""  # noqa: S608 - a constant


def descendant_waits(run: str) -> str:
    """A condition: people are asked about something in a run below."""
    return f"""EXISTS (SELECT 1 FROM ({descendants_query(run)}) AS b
           JOIN tool_call AS w ON w.run_id = b.id AND w.state = 'asked')"""  # noqa: S608 - a constant
