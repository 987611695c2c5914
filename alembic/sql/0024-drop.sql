DROP INDEX ix_decision_rejected;

CREATE OR REPLACE VIEW works_with AS SELECT '0023'::text AS version, '0002'::text AS oldest;
