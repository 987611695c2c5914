-- The table of the guide "How to set up agent-human collaboration workflows": what a program sent, as it sent it; of a
-- run's request what people are shown. Our own id of a request is `id`.
DROP VIEW pending_reviews;
CREATE VIEW pending_reviews WITH (security_invoker = true) AS
    SELECT CASE r.source WHEN 'api' THEN r.client_id ELSE r.id::text END AS request_id,
           coalesce(asked.fields ->> 'action_description', v.description) AS action_description,
           CASE WHEN jsonb_exists(asked.fields, 'agent_context') THEN nullif(asked.fields -> 'agent_context', 'null')
                ELSE v.context END AS agent_context,
           coalesce((asked.fields ->> 'timestamp')::timestamptz, r.created_at) AS "timestamp",
           r.status,
           r.id
    FROM approval_request AS r
    JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
    CROSS JOIN LATERAL (
        -- Without an action the fields are the arguments, which an edit may change: the first revision has what was sent.
        SELECT CASE WHEN r.source <> 'api' THEN NULL WHEN f.tool = 'external' THEN f.arguments ELSE f.context END AS fields
        FROM request_revision AS f WHERE f.request_id = r.id AND f.n = 1
    ) AS asked;
DO $$
BEGIN
    EXECUTE format('GRANT SELECT ON pending_reviews TO %I', current_setting('signoff.role'));
END;
$$;

CREATE OR REPLACE VIEW works_with AS SELECT '0014'::text AS version, '0002'::text AS oldest;
