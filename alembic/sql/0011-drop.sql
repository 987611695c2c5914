DROP INDEX ix_delivery_dead;

CREATE OR REPLACE VIEW works_with AS SELECT '0010'::text AS version, '0002'::text AS oldest;
