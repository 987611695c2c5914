DROP TRIGGER audit_event_knows_policy ON audit_event;
DROP TRIGGER execution_knows_policy ON execution;
DROP TRIGGER approval_request_knows_policy ON approval_request;
DROP FUNCTION refuse_unknown_policy();
ALTER TABLE execution DROP COLUMN policy_epoch;
ALTER TABLE approval_request DROP COLUMN policy_epoch;
DROP TABLE policy;

CREATE OR REPLACE VIEW works_with AS SELECT '0021'::text AS version, '0002'::text AS oldest;
