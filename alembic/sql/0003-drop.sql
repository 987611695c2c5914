DROP TRIGGER approval_request_key_stays ON approval_request;
DROP TRIGGER approval_request_fill_api_key ON approval_request;
DROP TRIGGER agent_run_origin_stays ON agent_run;
DROP TRIGGER agent_run_fill_api_key ON agent_run;
DROP TRIGGER agent_run_fill_ancestors ON agent_run;
DROP FUNCTION fill_api_key();
DROP FUNCTION fill_ancestors();

ALTER TABLE approval_request DROP COLUMN api_key_id;
ALTER TABLE agent_run DROP COLUMN api_key_id, DROP COLUMN ancestor_agents, DROP COLUMN ancestor_ids;

CREATE OR REPLACE VIEW works_with AS SELECT '0002'::text AS version, '0002'::text AS oldest;
