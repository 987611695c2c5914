DROP FUNCTION limit_settled(text, timestamptz);
DROP TRIGGER limit_use_comes ON limit_use;
DROP TRIGGER limit_use_changes ON limit_use;
DROP TRIGGER limit_use_goes ON limit_use;
DROP FUNCTION limit_use_adds_up();
DROP TABLE limit_sum;

CREATE OR REPLACE VIEW works_with AS SELECT '0026'::text AS version, '0002'::text AS oldest;
