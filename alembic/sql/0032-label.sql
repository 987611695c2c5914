-- Free text beside the name of a run's agent: who started it, or the agent, calls it so.
ALTER TABLE agent_run ADD COLUMN label text CONSTRAINT ck_agent_run_label_is_short CHECK (char_length(label) BETWEEN 1 AND 80);

CREATE OR REPLACE VIEW works_with AS SELECT '0032'::text AS version, '0002'::text AS oldest;
