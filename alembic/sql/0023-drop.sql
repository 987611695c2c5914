DROP TABLE judgement;

CREATE OR REPLACE VIEW works_with AS SELECT '0022'::text AS version, '0002'::text AS oldest;
