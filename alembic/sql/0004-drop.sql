DROP TRIGGER approval_request_exclusions_stay ON approval_request;
DROP TRIGGER request_revision_add_editor ON request_revision;
DROP TRIGGER approval_request_fill_excluded ON approval_request;
DROP FUNCTION add_editor();
DROP FUNCTION fill_excluded();
DROP FUNCTION exclusions(approval_request);

ALTER TABLE approval_request DROP COLUMN excluded;

CREATE OR REPLACE VIEW works_with AS SELECT '0003'::text AS version, '0002'::text AS oldest;
