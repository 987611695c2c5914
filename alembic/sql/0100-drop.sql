-- The way back: everything that version 0100 made, by name, so that whatever else lives in the schema stays.
DROP VIEW lineage;
DROP VIEW works_with;
DROP VIEW limit_use_open;
DROP VIEW pending_reviews;
DROP FUNCTION shown_description(text);

DROP TABLE web_session;
DROP TABLE sign_in_link;
DROP TABLE http_reply;
DROP TABLE key_use;
DROP TABLE api_key;
DROP TABLE admin_channel;
DROP TABLE notice;
DROP TABLE notify_choice;
DROP TABLE webhook;
DROP TABLE delivery;
DROP TABLE digest_card;
DROP TABLE request_group;
DROP TABLE outlet;
DROP TABLE card_place;
DROP TABLE limit_sum;
DROP FUNCTION limit_settled(text, timestamptz);
DROP TABLE limit_use;
DROP TABLE grant_use;
DROP TABLE approval_grant;
DROP TABLE told_week;
DROP TABLE judgement;
DROP TABLE policy;
DROP TABLE retry_vote;
DROP TABLE settlement;
DROP TABLE execution;
DROP TABLE search_due;
DROP TABLE request_search;
DROP TABLE decision;
DROP TABLE answer;
DROP TABLE vote;
DROP TABLE request_revision;
DROP TABLE approval_request;
DROP TABLE rule;
DROP TABLE schedule_start;
DROP TABLE schedule;
DROP TABLE pause;
DROP FUNCTION time_to_claim;
DROP TABLE tool_call;
DROP TABLE run_message;
DROP TABLE agent_run;
DROP TABLE audit_head;
DROP TABLE audit_event;

DROP FUNCTION limit_use_adds_up();
DROP FUNCTION grant_use_counts();
DROP FUNCTION execution_keeps_its_outcome();
DROP FUNCTION search_is_due();
DROP FUNCTION outcome_is_decided();
DROP FUNCTION answer_only_erased();
DROP FUNCTION vote_only_superseded();
DROP FUNCTION revision_only_erased();
DROP FUNCTION rule_has_one_content();
DROP FUNCTION answer_form_only_erased();
DROP FUNCTION refuse_change();

DROP TYPE notice_kind;
DROP TYPE delivery_state;
DROP TYPE delivery_kind;
DROP TYPE surface;
DROP TYPE settlement_verdict;
DROP TYPE execution_status;
DROP TYPE verdict;
DROP TYPE request_status;
DROP TYPE risk;
DROP TYPE answer_kind;
DROP TYPE call_state;
DROP TYPE call_executor;
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
