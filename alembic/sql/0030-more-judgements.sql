-- Judgements of edits (the content is in that revision) and of what runs as a use of a grant; and what the checkpoints
-- alone said where a limit over time or an earlier rejection said something else.
ALTER TABLE judgement ADD COLUMN revision integer, ADD COLUMN grant_id uuid, ADD COLUMN ruled text,
    ADD COLUMN ruled_by text,
    ADD CONSTRAINT ck_judgement_known_ruling CHECK (ruled IN ('run', 'ask'));

CREATE OR REPLACE VIEW works_with AS SELECT '0030'::text AS version, '0002'::text AS oldest;
