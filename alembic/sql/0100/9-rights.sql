-- The role that the service works as, and its rights, one by one. It cannot log in: the service's login is a member
-- and takes it on. Roles belong to the whole server, so another database's migration may make it at this moment.
DO $$
DECLARE
    app text := current_setting('signoff.role');
    login text;
    -- Since PostgreSQL 16 a member may still be barred from taking the role on.
    needed text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    FOREACH login IN ARRAY string_to_array(concat_ws(E'\n', current_user, nullif(current_setting('signoff.login'), '')), E'\n') LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = app) THEN
                BEGIN
                    EXECUTE format('CREATE ROLE %I NOLOGIN', app);
                EXCEPTION WHEN duplicate_object OR unique_violation THEN
                    NULL;
                END;
            END IF;
            IF NOT pg_has_role(login, app, needed) THEN
                EXECUTE format('GRANT %I TO %I', app, login);
            END IF;
        EXCEPTION
            WHEN unique_violation THEN
                NULL;
            WHEN insufficient_privilege THEN
                RAISE EXCEPTION '%', format(
                    '%I may not create roles; run this once as a superuser: CREATE ROLE %I NOLOGIN; GRANT %I TO %I;',
                    current_user, app, app, login
                ) USING ERRCODE = 'insufficient_privilege';
        END;
    END LOOP;

    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), app);

    EXECUTE format('GRANT SELECT ON alembic_version, works_with, lineage, pending_reviews, limit_use_open TO %I', app);
    EXECUTE format(
        'GRANT SELECT, INSERT ON
            run_message, request_revision, vote, answer, decision, settlement, retry_vote, audit_event,
            rule, policy, judgement, told_week, grant_use
        TO %I', app);
    EXECUTE format('GRANT UPDATE (superseded_by) ON vote TO %I', app);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE ON
            agent_run, tool_call, approval_request, execution, approval_grant, card_place, audit_head, api_key, webhook,
            notify_choice, admin_channel
        TO %I', app);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON
            pause, schedule, schedule_start, request_search, search_due, limit_use, limit_sum,
            outlet, digest_card, request_group, delivery, notice, key_use, http_reply, sign_in_link, web_session
        TO %I', app);
END;
$$;
