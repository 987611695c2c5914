-- What processes learn about the schema before they use it.

-- The oldest version whose code works with the schema of this version: its processes stay ready while a newer one is
-- rolled out. Every later version replaces the view, if only to name itself: of another version nobody believes it.
CREATE VIEW works_with AS SELECT '0100'::text AS version, '0100'::text AS oldest;

-- Which text of version 0100 all of this was made by. No later version changes it.
DO $$
BEGIN
    EXECUTE format('CREATE VIEW lineage AS SELECT %L::text AS marker', current_setting('signoff.lineage'));
END;
$$;
