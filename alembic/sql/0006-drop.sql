ALTER TABLE execution DROP COLUMN read_only;

CREATE OR REPLACE VIEW works_with AS SELECT '0005'::text AS version, '0002'::text AS oldest;
