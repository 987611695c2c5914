-- Takes back procrastinate-3.10.0.sql, object by object; triggers and indexes go with their tables.

-- It returns a row of a table, so it goes before that table.
DROP FUNCTION procrastinate_fetch_job_v2(character varying[], bigint);

DROP TABLE procrastinate_events;
DROP TABLE procrastinate_periodic_defers;
DROP TABLE procrastinate_jobs;
DROP TABLE procrastinate_workers;

DROP FUNCTION procrastinate_defer_jobs_v1(procrastinate_job_to_defer_v1[]);
DROP FUNCTION procrastinate_defer_periodic_job_v2(
    character varying, character varying, character varying, character varying, integer, character varying, bigint, jsonb
);
DROP FUNCTION procrastinate_finish_job_v1(bigint, procrastinate_job_status, boolean);
DROP FUNCTION procrastinate_cancel_job_v1(bigint, boolean, boolean);
DROP FUNCTION procrastinate_retry_job_v1(
    bigint, timestamp with time zone, integer, character varying, character varying
);
DROP FUNCTION procrastinate_retry_job_v2(
    bigint, timestamp with time zone, integer, character varying, character varying
);
DROP FUNCTION procrastinate_notify_queue_job_inserted_v1();
DROP FUNCTION procrastinate_notify_queue_abort_job_v1();
DROP FUNCTION procrastinate_trigger_function_status_events_insert_v1();
DROP FUNCTION procrastinate_trigger_function_status_events_update_v1();
DROP FUNCTION procrastinate_trigger_function_scheduled_events_v1();
DROP FUNCTION procrastinate_trigger_abort_requested_events_procedure_v1();
DROP FUNCTION procrastinate_unlink_periodic_defers_v1();
DROP FUNCTION procrastinate_register_worker_v1();
DROP FUNCTION procrastinate_unregister_worker_v1(bigint);
DROP FUNCTION procrastinate_update_heartbeat_v1(bigint);
DROP FUNCTION procrastinate_prune_stalled_workers_v1(double precision);

DROP TYPE procrastinate_job_to_defer_v1;
DROP TYPE procrastinate_job_event_type;
DROP TYPE procrastinate_job_status;
