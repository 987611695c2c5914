-- Changes of messages have a pace of their own in each channel, because Slack counts them apart from new messages.
ALTER TABLE outlet ADD COLUMN next_update_at timestamptz DEFAULT clock_timestamp() NOT NULL;

-- What is to be told is found by looking, not by hints.
DELETE FROM procrastinate_jobs WHERE task_name = 'drain' AND status = 'todo';

-- The oldest version whose code works with the schema of this version: its processes stay ready while a newer one is
-- rolled out. Every later version replaces the view, if only to name itself: of another version nobody believes it.
CREATE VIEW works_with AS SELECT '0002'::text AS version, '0002'::text AS oldest;
DO $$
BEGIN
    EXECUTE format('GRANT SELECT ON works_with TO %I', current_setting('signoff.role'));
END;
$$;
