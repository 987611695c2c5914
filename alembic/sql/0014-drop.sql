DROP VIEW pending_reviews;
CREATE VIEW pending_reviews WITH (security_invoker = true) AS
    SELECT r.id AS request_id,
           v.description AS action_description,
           v.context AS agent_context,
           r.created_at AS "timestamp",
           r.status
    FROM approval_request r JOIN request_revision v ON v.request_id = r.id AND v.n = r.revision;
DO $$
BEGIN
    EXECUTE format('GRANT SELECT ON pending_reviews TO %I', current_setting('signoff.role'));
END;
$$;

CREATE OR REPLACE VIEW works_with AS SELECT '0013'::text AS version, '0002'::text AS oldest;
