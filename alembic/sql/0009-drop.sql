DROP INDEX ix_approval_request_key_waiting;

CREATE OR REPLACE VIEW works_with AS SELECT '0008'::text AS version, '0002'::text AS oldest;
