DROP INDEX ix_request_revision_edits;
DROP INDEX ix_settlement_words;
DROP INDEX ix_vote_words;
DROP INDEX ix_decision_words;
ALTER TABLE approval_request DROP COLUMN session;
