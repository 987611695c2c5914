-- The people whose approval of a request does not count under its policy, and why: an array of {team, user, why}, where
-- why is requester, key_owner, instructor, adviser or editor. Written when the request opens; edits add to it.
ALTER TABLE approval_request ADD COLUMN excluded jsonb;

-- For rows of versions before this one. Each person has one entry, the first of their reasons in the order above.
CREATE FUNCTION exclusions(asked approval_request) RETURNS jsonb LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
WITH RECURSIVE earlier AS (
    SELECT id, repeats FROM tool_call WHERE id = asked.call_id
    UNION ALL SELECT c.id, c.repeats FROM earlier AS e JOIN tool_call AS c ON c.id = e.repeats
), lineage AS (
    SELECT run_id, turn FROM tool_call WHERE id = asked.call_id
    UNION ALL
    SELECT child.parent_run_id, coalesce(above.turn, 2147483647)
    FROM agent_run AS own
    JOIN agent_run AS child ON child.id = ANY (own.ancestor_ids || own.id) AND child.parent_run_id IS NOT NULL
    LEFT JOIN tool_call AS above ON above.id = child.parent_call_id
    WHERE own.id = asked.run_id
), before AS (
    -- The calls of a turn are proposed at the same time; one that was asked again later, too.
    SELECT run_id, turn, coalesce((SELECT min(created_at) FROM tool_call AS c
                                   WHERE c.run_id = l.run_id AND c.turn = l.turn), 'infinity') AS proposed_at
    FROM lineage AS l
), shaper AS (
    SELECT 1 AS rank, 'requester' AS why, asked.requester_team_id AS team, asked.requester_user_id AS person
    UNION ALL
    SELECT 2, 'key_owner', owner_team_id, owner_user_id FROM api_key
    WHERE id = coalesce((SELECT api_key_id FROM agent_run WHERE id = asked.run_id), asked.api_key_id)
    UNION ALL
    SELECT 3, 'instructor', m.author_team_id, m.author_user_id
    FROM before AS b JOIN run_message AS m ON m.run_id = b.run_id AND m.turn < b.turn WHERE m.role = 'user'
    UNION ALL
    SELECT 4, 'adviser', d.team_id, d.user_id
    FROM before AS b JOIN approval_request AS r ON r.run_id = b.run_id JOIN decision AS d ON d.request_id = r.id
    WHERE d.outcome = 'rejected' AND btrim(d.reason) <> '' AND d.decided_at < b.proposed_at
      AND NOT jsonb_exists(coalesce(nullif(r.policy -> 'reject_reasons', 'null'), '[]'), d.reason)
    UNION ALL
    SELECT 4, 'adviser', s.team_id, s.user_id
    FROM before AS b JOIN tool_call AS c ON c.run_id = b.run_id JOIN execution AS e ON e.call_id = c.id
    JOIN settlement AS s ON s.execution_id = e.id
    WHERE s.verdict = 'done' AND btrim(s.note) <> '' AND s.created_at < b.proposed_at
    UNION ALL
    SELECT 5, 'editor', v.editor_team_id, v.editor_user_id
    FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id
    WHERE r.id = asked.id OR r.call_id IN (SELECT id FROM earlier)
), excluded AS (
    SELECT DISTINCT ON (team, person) rank, why, team, person FROM shaper
    WHERE person IS NOT NULL
      AND (rank = 5 OR coalesce((asked.policy ->> 'prevent_self_review')::boolean, true))
      AND (rank < 4 OR NOT coalesce((asked.policy ->> 'editor_may_approve')::boolean, false))
    ORDER BY team, person, rank
)
SELECT coalesce(jsonb_agg(jsonb_build_object('team', team, 'user', person, 'why', why) ORDER BY rank, team, person), '[]')
FROM excluded
$$;

UPDATE approval_request SET excluded = exclusions(approval_request);
-- Without it nobody could be known to be excluded, so a row that lacks it is refused.
ALTER TABLE approval_request
    ALTER COLUMN excluded SET NOT NULL,
    ADD CONSTRAINT ck_approval_request_excluded_is_list CHECK (jsonb_typeof(excluded) = 'array');

-- Workers of version 0003 and before keep working during the rollout and do not write the column: the triggers do it for
-- them. Rows of this version arrive complete and pass them by. The first version that no longer works with 0003 drops them.
CREATE FUNCTION fill_excluded() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.excluded := exclusions(NEW);
    RETURN NEW;
END;
$$;
CREATE FUNCTION add_editor() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    editor jsonb := jsonb_build_object('team', NEW.editor_team_id, 'user', NEW.editor_user_id);
BEGIN
    UPDATE approval_request SET excluded = excluded || (editor || '{"why": "editor"}')
    WHERE id = NEW.request_id AND NOT excluded @> jsonb_build_array(editor)
      AND NOT coalesce((policy ->> 'editor_may_approve')::boolean, false);
    RETURN NULL;
END;
$$;
CREATE TRIGGER approval_request_fill_excluded
    BEFORE INSERT ON approval_request
    FOR EACH ROW WHEN (NEW.excluded IS NULL) EXECUTE FUNCTION fill_excluded();
CREATE TRIGGER request_revision_add_editor
    AFTER INSERT ON request_revision
    FOR EACH ROW WHEN (NEW.editor_user_id IS NOT NULL) EXECUTE FUNCTION add_editor();

CREATE TRIGGER approval_request_exclusions_stay
    BEFORE UPDATE OF excluded ON approval_request
    FOR EACH ROW WHEN (NOT coalesce(NEW.excluded @> OLD.excluded, false))
    EXECUTE FUNCTION refuse_change('who is excluded from a request stays excluded');

CREATE OR REPLACE VIEW works_with AS SELECT '0004'::text AS version, '0002'::text AS oldest;
