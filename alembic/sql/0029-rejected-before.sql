-- The request in which people rejected the very same action, where policy shows that to whoever is asked again.
ALTER TABLE approval_request ADD COLUMN rejected_before uuid;

CREATE OR REPLACE VIEW works_with AS SELECT '0029'::text AS version, '0002'::text AS oldest;
