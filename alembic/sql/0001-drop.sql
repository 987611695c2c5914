-- The way back: everything that version 0001 made, by name, so that whatever else lives in the schema stays.
DROP VIEW pending_reviews;

DROP TABLE notice;
DROP TABLE webhook;
DROP TABLE web_session;
DROP TABLE sign_in_link;
DROP TABLE http_reply;
DROP TABLE key_use;
DROP TABLE api_key;
DROP TABLE pause;
DROP TABLE audit_head;
DROP TABLE audit_event;
DROP TABLE delivery;
DROP TABLE digest_card;
DROP TABLE outlet;
DROP TABLE card_place;
DROP TABLE settlement;
DROP TABLE execution;
DROP TABLE decision;
DROP TABLE vote;
DROP TABLE request_revision;
DROP TABLE approval_request;
DROP TABLE tool_call;
DROP TABLE run_message;
DROP TABLE agent_run;

DROP FUNCTION outcome_is_decided();
DROP FUNCTION vote_only_superseded();
DROP FUNCTION revision_only_erased();
DROP FUNCTION refuse_change();

DROP TYPE delivery_state;
DROP TYPE delivery_kind;
DROP TYPE surface;
DROP TYPE notice_kind;
DROP TYPE settlement_verdict;
DROP TYPE execution_status;
DROP TYPE verdict;
DROP TYPE request_status;
DROP TYPE risk;
DROP TYPE answer_kind;
DROP TYPE call_state;
DROP TYPE message_role;
DROP TYPE run_status;

-- The role goes too, unless another database uses it or it is not ours to drop.
DO $$
DECLARE
    app text := current_setting('signoff.role');
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = app) THEN
        RETURN;
    END IF;
    EXECUTE format('REVOKE ALL ON alembic_version FROM %I', app);
    EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', current_schema(), app);
    BEGIN
        EXECUTE format('DROP ROLE %I', app);
    EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
        RAISE NOTICE 'the role % stays', app;
    END;
END;
$$;
