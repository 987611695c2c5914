-- Calls of agents that other programs carry out: who does it, until when it may begin, and claims with a token.
ALTER TABLE tool_call ADD COLUMN claim_until timestamptz;
ALTER TABLE approval_request ADD COLUMN executor text;
ALTER TABLE execution DROP CONSTRAINT ck_execution_outside_with_claim;
ALTER TABLE execution ADD CONSTRAINT ck_execution_outside_with_claim
    CHECK (call_id IS NOT NULL OR claim_hash IS NOT NULL);
ALTER TABLE api_key DROP CONSTRAINT ck_api_key_known_scopes;
ALTER TABLE api_key ADD CONSTRAINT ck_api_key_known_scopes CHECK (
    scopes <@ '["request", "on_behalf", "facts", "decide", "read", "admin", "execute"]' AND scopes <> '[]');

CREATE OR REPLACE VIEW works_with AS SELECT '0031'::text AS version, '0002'::text AS oldest;
