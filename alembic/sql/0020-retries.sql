ALTER TABLE tool_call ADD COLUMN retry_at timestamptz;

CREATE OR REPLACE VIEW works_with AS SELECT '0020'::text AS version, '0002'::text AS oldest;
