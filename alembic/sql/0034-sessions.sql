ALTER TABLE approval_request ADD COLUMN session text;
-- People's own words of the last day are few, however many questions there are.
CREATE INDEX ix_decision_words ON decision (decided_at) WHERE outcome = 'rejected' AND btrim(reason) <> '';
CREATE INDEX ix_vote_words ON vote (created_at) WHERE verdict = 'approve' AND btrim(reason) <> '';
CREATE INDEX ix_settlement_words ON settlement (created_at) WHERE btrim(note) <> '';
CREATE INDEX ix_request_revision_edits ON request_revision (created_at) WHERE editor_user_id IS NOT NULL;
ALTER TABLE api_key DROP CONSTRAINT ck_api_key_known_scopes;
ALTER TABLE api_key ADD CONSTRAINT ck_api_key_known_scopes
    CHECK (scopes <@ '["request", "on_behalf", "facts", "decide", "read", "admin", "execute", "sessions"]' AND scopes <> '[]');
