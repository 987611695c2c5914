DROP TABLE grant_use;
DROP FUNCTION grant_use_counts();
DROP TABLE approval_grant;

CREATE OR REPLACE VIEW works_with AS SELECT '0017'::text AS version, '0002'::text AS oldest;
