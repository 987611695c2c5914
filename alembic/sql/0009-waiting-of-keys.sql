CREATE INDEX ix_approval_request_key_waiting ON approval_request (principal)
    WHERE status = 'waiting' AND call_id IS NULL;

CREATE OR REPLACE VIEW works_with AS SELECT '0009'::text AS version, '0002'::text AS oldest;
