-- Where one agent has nearly all rows, PostgreSQL expects the newest rows of any agent soon, walks back through the
-- primary key, and reads the whole table for an agent that has none. The next ANALYZE takes this number over.
ALTER TABLE agent_run ALTER COLUMN agent SET (n_distinct = 1000);
ALTER TABLE approval_request ALTER COLUMN agent SET (n_distinct = 1000);
ALTER TABLE tool_call ALTER COLUMN agent SET (n_distinct = 1000);

CREATE OR REPLACE VIEW works_with AS SELECT '0016'::text AS version, '0002'::text AS oldest;
