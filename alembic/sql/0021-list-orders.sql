-- The orders of the inbox beside that of age. Only what waits is in these indexes.
CREATE INDEX ix_approval_request_by_expires_at ON approval_request (team_id, approvers, channel_id, expires_at, id)
    WHERE status = 'waiting';
CREATE INDEX ix_approval_request_by_risk ON approval_request (team_id, approvers, channel_id, risk, id)
    WHERE status = 'waiting';

CREATE OR REPLACE VIEW works_with AS SELECT '0021'::text AS version, '0002'::text AS oldest;
