-- Whether the very same action was rejected lately.
CREATE INDEX ix_decision_rejected ON decision (digest, decided_at) WHERE outcome = 'rejected';

CREATE OR REPLACE VIEW works_with AS SELECT '0024'::text AS version, '0002'::text AS oldest;
