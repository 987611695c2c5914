ALTER TABLE request_revision DROP COLUMN facts_source;
CREATE OR REPLACE TRIGGER approval_request_terms_stay
    AFTER UPDATE ON approval_request
    FOR EACH ROW WHEN (
        (OLD.policy, OLD.policy_digest, OLD.principal, OLD.client_id, OLD.content_digest, OLD.approvals_required,
         OLD.checkpoint_id, OLD.team_id)
        IS DISTINCT FROM
        (NEW.policy, NEW.policy_digest, NEW.principal, NEW.client_id, NEW.content_digest, NEW.approvals_required,
         NEW.checkpoint_id, NEW.team_id)
        OR (OLD.requester_team_id, OLD.requester_user_id) IS DISTINCT FROM (NEW.requester_team_id, NEW.requester_user_id))
    EXECUTE FUNCTION refuse_change('the terms of a request stay as they were opened');
UPDATE api_key SET scopes = scopes - 'facts' WHERE scopes ? 'facts' AND scopes <> '["facts"]';
DELETE FROM api_key WHERE scopes = '["facts"]';
ALTER TABLE api_key DROP CONSTRAINT ck_api_key_known_scopes;
ALTER TABLE api_key ADD CONSTRAINT ck_api_key_known_scopes
    CHECK (scopes <@ '["request", "on_behalf", "decide", "read", "admin"]' AND scopes <> '[]');

CREATE OR REPLACE VIEW works_with AS SELECT '0016'::text AS version, '0002'::text AS oldest;
