DROP TABLE schedule_start;
DROP TABLE schedule;

CREATE OR REPLACE VIEW works_with AS SELECT '0032'::text AS version, '0002'::text AS oldest;
