-- Facts of a revision that the tool did not look up itself: told by the program that asks, or looked up by Signoff.
ALTER TABLE request_revision
    ADD COLUMN facts_source text,
    ADD CONSTRAINT ck_request_revision_known_facts_source CHECK (facts_source IN ('program', 'signoff'));
ALTER TABLE api_key DROP CONSTRAINT ck_api_key_known_scopes;
ALTER TABLE api_key ADD CONSTRAINT ck_api_key_known_scopes
    CHECK (scopes <@ '["request", "on_behalf", "facts", "decide", "read", "admin"]' AND scopes <> '[]');
-- A program's request that becomes void gives its name to the request that asks again, and is numbered itself.
CREATE OR REPLACE TRIGGER approval_request_terms_stay
    AFTER UPDATE ON approval_request
    FOR EACH ROW WHEN (
        (OLD.policy, OLD.policy_digest, OLD.principal, OLD.content_digest, OLD.approvals_required,
         OLD.checkpoint_id, OLD.team_id)
        IS DISTINCT FROM
        (NEW.policy, NEW.policy_digest, NEW.principal, NEW.content_digest, NEW.approvals_required,
         NEW.checkpoint_id, NEW.team_id)
        OR (OLD.requester_team_id, OLD.requester_user_id) IS DISTINCT FROM (NEW.requester_team_id, NEW.requester_user_id)
        OR (NEW.client_id <> OLD.client_id
            AND NOT (OLD.call_id IS NULL AND OLD.voided_at IS NULL AND NEW.voided_at IS NOT NULL
                     AND NEW.client_id = OLD.client_id || '#' || OLD.ask_no)))
    EXECUTE FUNCTION refuse_change('the terms of a request stay as they were opened');

CREATE OR REPLACE VIEW works_with AS SELECT '0017'::text AS version, '0002'::text AS oldest;
