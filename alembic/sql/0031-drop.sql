ALTER TABLE api_key DROP CONSTRAINT ck_api_key_known_scopes;
UPDATE api_key SET scopes = scopes - 'execute' WHERE scopes ? 'execute' AND scopes <> '["execute"]';
DELETE FROM api_key WHERE scopes = '["execute"]';
ALTER TABLE api_key ADD CONSTRAINT ck_api_key_known_scopes
    CHECK (scopes <@ '["request", "on_behalf", "facts", "decide", "read", "admin"]' AND scopes <> '[]');
ALTER TABLE execution DROP CONSTRAINT ck_execution_outside_with_claim;
UPDATE execution SET claim_hash = NULL WHERE call_id IS NOT NULL;
ALTER TABLE execution ADD CONSTRAINT ck_execution_outside_with_claim
    CHECK ((call_id IS NULL) = (claim_hash IS NOT NULL));
ALTER TABLE approval_request DROP COLUMN executor;
ALTER TABLE tool_call DROP COLUMN claim_until;

CREATE OR REPLACE VIEW works_with AS SELECT '0030'::text AS version, '0002'::text AS oldest;
