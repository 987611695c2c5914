DROP INDEX ix_approval_request_by_expires_at, ix_approval_request_by_risk;

CREATE OR REPLACE VIEW works_with AS SELECT '0020'::text AS version, '0002'::text AS oldest;
