CREATE INDEX ix_delivery_dead ON delivery (created_at) WHERE state = 'dead';

CREATE OR REPLACE VIEW works_with AS SELECT '0011'::text AS version, '0002'::text AS oldest;
