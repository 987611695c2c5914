"""Who has told an agent what to do before it proposed a call: in its run, and in the runs above it."""

from __future__ import annotations

INSTRUCTORS = """
(WITH lineage AS (
     SELECT run_id, turn FROM tool_call WHERE id = {call}
     UNION ALL
     SELECT child.parent_run_id, coalesce(above.turn, 2147483647)
     FROM tool_call AS own JOIN agent_run AS a ON a.id = own.run_id
     JOIN agent_run AS child ON child.id = ANY (a.ancestor_ids || a.id) AND child.parent_run_id IS NOT NULL
     LEFT JOIN tool_call AS above ON above.id = child.parent_call_id
     WHERE own.id = {call})
 SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_array(m.author_team_id, m.author_user_id)), '[]'::jsonb)
 FROM lineage AS l JOIN run_message AS m ON m.run_id = l.run_id AND m.turn < l.turn
 WHERE m.role = 'user' AND m.author_user_id IS NOT NULL)
"""
"""The authors as a JSON array of `[team, user]`, for a statement that knows the call as ``{call}``.

A message has the number of the turn after which it came, a call that of its turn: the run's lock orders both, so no
clock is asked. Above, what counts came before the call that the run below works for; where none is known, all counts.
"""
