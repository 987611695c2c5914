-- Changes of messages have a pace of their own in each channel, because Slack counts them apart from new messages.
ALTER TABLE outlet ADD COLUMN next_update_at timestamptz DEFAULT clock_timestamp() NOT NULL;

-- The oldest version whose code works with this schema: its processes stay ready while a newer one is rolled out.
-- Every later version replaces it, if only to say the same.
CREATE VIEW works_with AS SELECT '0001'::text AS oldest;
DO $$
BEGIN
    EXECUTE format('GRANT SELECT ON works_with TO %I', current_setting('signoff.role'));
END;
$$;
