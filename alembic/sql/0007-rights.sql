-- The service's rights on what procrastinate-3.10.0.sql has made again.
DO $$
DECLARE
    app text := current_setting('signoff.role');
BEGIN
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON
            procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers, procrastinate_workers
        TO %I', app);
    EXECUTE format(
        'GRANT USAGE ON SEQUENCE
            procrastinate_jobs_id_seq, procrastinate_events_id_seq, procrastinate_periodic_defers_id_seq
        TO %I', app);
END;
$$;
