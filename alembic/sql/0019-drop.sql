ALTER TABLE approval_request DROP COLUMN limits;
DROP VIEW limit_use_open;
DROP TABLE limit_use;

CREATE OR REPLACE VIEW works_with AS SELECT '0018'::text AS version, '0002'::text AS oldest;
