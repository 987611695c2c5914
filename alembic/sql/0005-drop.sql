ALTER TABLE request_revision DROP COLUMN signature_digest;

CREATE OR REPLACE VIEW works_with AS SELECT '0004'::text AS version, '0002'::text AS oldest;
