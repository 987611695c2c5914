"""Runs and those above them."""

from __future__ import annotations


def names_above(child: str) -> str:
    """A column ``above``: the agents above the run that ``child`` names in the query, the first one first."""
    return f"""CASE WHEN {child}.parent_run_id IS NOT NULL THEN (
           WITH RECURSIVE above AS (
               SELECT p.agent, p.parent_run_id, 1 AS far FROM agent_run AS p WHERE p.id = {child}.parent_run_id
               UNION ALL
               SELECT p.agent, p.parent_run_id, u.far + 1 FROM above AS u
               JOIN agent_run AS p ON p.id = u.parent_run_id)
           SELECT array_agg(agent ORDER BY far DESC) FROM above) END AS above"""  # noqa: S608 - a constant
