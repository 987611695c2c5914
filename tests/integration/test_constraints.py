"""The database refuses invalid rows, also from raw SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from agent.database.address import APP_ROLE, Address

RUN = "00000000-0000-7000-8000-000000000001"
CALL = "00000000-0000-7000-8000-000000000002"
REQUEST = "00000000-0000-7000-8000-000000000003"
EXECUTION = "00000000-0000-7000-8000-000000000004"
VOTE, LATER_VOTE = "00000000-0000-7000-8000-000000000005", "00000000-0000-7000-8000-000000000006"

WORLD = f"""
    INSERT INTO agent_run (id, agent, agent_version, task, principal, requester_asserted)
        VALUES ('{RUN}', 'refunds', '1', 'refund order 7', 'slack', 'none');
    INSERT INTO tool_call (id, run_id, agent, turn, index, model_call_id, tool, raw_arguments, state, blocking, action,
            digest, executor)
        VALUES ('{CALL}', '{RUN}', 'refunds', 1, 0, 'call_1', 'refund', '{{}}', 'asked', true, 'a', sha256('a'),
            'here');
    INSERT INTO rule (digest, content) VALUES (sha256('p'), '{{}}');
    INSERT INTO approval_request (id, principal, client_id, source, run_id, call_id, agent,
            agent_version, requester_asserted, checkpoint_id, rule_digest, policy_epoch, approvers, excluded,
            risk, approvals_required, team_id, channel_id, expires_at)
        VALUES ('{REQUEST}', 'runtime', 'c1', 'run', '{RUN}', '{CALL}', 'refunds', '1', 'none', 'large',
            sha256('p'), 0, '["channel"]', '[]', 'high', 1, 'T1', 'C1', clock_timestamp() + interval '1 day');
    INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description, context)
        VALUES ('{REQUEST}', 1, 'refund', '1', 'a', sha256('a'), 'agent', 'Refund order 7', '{{"why": "broken"}}');
    INSERT INTO vote (id, request_id, revision, team_id, user_id, verdict, path)
        VALUES ('{VOTE}', '{REQUEST}', 1, 'T1', 'U1', 'approve', 'slack_button');
    INSERT INTO execution (id, call_id, executor, request_id, attempt, digest, policy_epoch, idempotent, worker,
            lease_until)
        VALUES ('{EXECUTION}', '{CALL}', 'here', '{REQUEST}', 1, sha256('a'), 0, false, 'w1', clock_timestamp());
    INSERT INTO approval_grant (request_id, agent, tool, checkpoint_id, agents, until, max_uses, max_sum)
        VALUES ('{REQUEST}', 'refunds', 'refund', 'large', '{{refunds}}', now() + interval '1 day', 1, 10);
    INSERT INTO retry_vote (execution_id, team_id, user_id) VALUES ('{EXECUTION}', 'T1', 'U1');
    INSERT INTO settlement (execution_id, verdict, team_id, user_id) VALUES ('{EXECUTION}', 'done', 'T1', 'U1');
    INSERT INTO run_message (run_id, seq, turn, role) VALUES ('{RUN}', 1, 0, 'user');
    INSERT INTO audit_event (subject, seq, at, actor, event, detail, hash)
        VALUES ('{REQUEST}', 1, now(), 'U1', 'opened', '{{}}', sha256('h'));
    INSERT INTO delivery (id, kind, priority, team_id, channel_id, run_id, body)
        VALUES ('{RUN}', 'run_root', 1, 'T1', 'C1', '{RUN}', '{{}}');
    INSERT INTO outlet (team_id, channel_id) VALUES ('T1', 'C1');
    INSERT INTO notify_choice (team_id, user_id, way) VALUES ('T1', 'U1', 'thread');
    INSERT INTO card_place (nonce, request_id, surface, team_id, channel_id)
        VALUES (repeat('n', 22), '{REQUEST}', 'channel', 'T1', 'C1');
    INSERT INTO pause (scope, by) VALUES ('*', 'cli:root');
    INSERT INTO policy (epoch, source, digest, by) VALUES (1, '', sha256(''), 'cli:root');
    INSERT INTO api_key (id, name, prefix, hash, scopes, created_by)
        VALUES ('{RUN}', 'one', 'signoff_abcd', sha256('k'), '["read"]', 'cli:root');
    INSERT INTO http_reply (principal, key, fingerprint) VALUES ('key:one', 'k', sha256('f'));
    INSERT INTO sign_in_link (hash, team_id, user_id, expires_at) VALUES (sha256('l'), 'T1', 'U1', now());
    INSERT INTO web_session (hash, team_id, user_id, via, expires_at) VALUES (sha256('s'), 'T1', 'U1', 'link', now());
    INSERT INTO webhook (id, name, url, secret, events, created_by)
        VALUES ('{RUN}', 'ours', 'https://ours.example', 's', '["decision.made"]', 'cli:root');
    INSERT INTO notice (id, kind, webhook_id, event, request_id)
        VALUES ('{RUN}', 'webhook', '{RUN}', 'decision.made', '{REQUEST}');
"""
DECIDE = f"""
    UPDATE approval_request SET status = 'approved', decided_at = now() WHERE id = '{REQUEST}';
    INSERT INTO decision (request_id, outcome, revision, digest, team_id, user_id)
        VALUES ('{REQUEST}', 'approved', 1, sha256('a'), 'T1', 'U1');
"""


PROGRAM = """
    INSERT INTO tool_call (id, principal, client_id, content_digest, agent, tool, executor, state, blocking)
        VALUES (gen_random_uuid(), 'key:ci', 'r-1', '', 'refunds', 'refund', 'program', 'asked', false)"""
ANSWERED = f"""INSERT INTO answer (vote_id, request_id, value, digest, own_words, created_at)
               VALUES ('{VOTE}', '{REQUEST}', '"eu"', sha256('"eu"'), false, now());"""
ERASED = """action = '', erased_at = now(),
    description = 'erased on ' || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD'),
    context = jsonb_build_object('task', 'erased on ' || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD'))"""
"""What `signoff retention` sets, of a revision without arguments, facts and rationale."""

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def shared(postgres: Any) -> Iterator[tuple[Connection, Connection]]:
    """Owner's and service's connections to a database with one waiting request, its run, call, vote and execution.

    Most tests here try what is refused, so it stays as it is; the others roll back, or take the fixture `fresh`.
    """
    name = postgres.create("signoff_template")
    yield from opened(postgres.url(name))
    postgres.drop(name)


@pytest.fixture
def fresh(database_url: str) -> Iterator[tuple[Connection, Connection]]:
    """The same in a database of the test's own, for what is committed."""
    yield from opened(database_url)


def opened(url: str) -> Iterator[tuple[Connection, Connection]]:
    as_owner, as_service = Address.read(url).conninfo(), Address.read(url, role=APP_ROLE).conninfo()
    with (
        psycopg.connect(as_owner, autocommit=True) as owner,
        psycopg.connect(as_service, autocommit=True) as service,
    ):
        owner.execute(WORLD)
        yield owner, service


def test_every_enum_refuses_a_strange_state(shared: tuple[Connection, Connection]) -> None:
    """No column with states, of any table, takes one that is not among them."""
    owner, _ = shared
    columns = owner.execute("""
        SELECT c.relname, a.attname FROM pg_attribute a
            JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r' JOIN pg_type t ON t.oid = a.atttypid
        WHERE c.relnamespace = 'signoff'::regnamespace AND t.typtype = 'e'
    """).fetchall()
    assert ("approval_request", "status") in columns
    assert len(columns) >= 13
    for table, column in columns:
        with pytest.raises(errors.InvalidTextRepresentation):
            owner.execute(
                sql.SQL("UPDATE {} SET {} = 'no_such_state'").format(
                    sql.Identifier(table), sql.Identifier(column)
                )
            )


BROKEN = {
    "ck_agent_run_heard_within_inputs": "UPDATE agent_run SET heard = inputs + 1",
    "ck_agent_run_awaiting_not_negative": "UPDATE agent_run SET awaiting_calls = -1",
    "ck_agent_run_requester_with_team": "UPDATE agent_run SET requester_user_id = 'U1'",
    "ck_agent_run_last_ancestor_is_parent": f"""
        INSERT INTO agent_run (id, agent, agent_version, task, principal, requester_asserted, ancestor_ids,
                               ancestor_agents)
            VALUES ('{CALL}', 'a', '1', 't', 'p', 'none', '{{{RUN}}}', '{{refunds}}')""",
    "ck_agent_run_every_ancestor_named": f"""
        INSERT INTO agent_run (id, agent, agent_version, task, principal, requester_asserted, parent_run_id,
                               ancestor_ids)
            VALUES ('{CALL}', 'a', '1', 't', 'p', 'none', '{RUN}', '{{{RUN}}}')""",
    "ck_agent_run_label_is_short": "UPDATE agent_run SET label = repeat('x', 10000)",
    "ck_agent_run_lease_whole": "UPDATE agent_run SET lease_until = now()",
    "ck_agent_run_ended_badly_with_cause": "UPDATE agent_run SET status = 'denied'",
    "ck_run_message_seq_from_one": "UPDATE run_message SET seq = 0",
    "ck_tool_call_action_with_digest": "UPDATE tool_call SET digest = NULL",
    "ck_tool_call_digest_of_action": "UPDATE tool_call SET action = 'another'",
    "ck_tool_call_answered_with_time": "UPDATE tool_call SET state = 'answered', answer_kind = 'result'",
    "ck_tool_call_ended_with_kind": "UPDATE tool_call SET state = 'refused'",
    "ck_tool_call_judged_has_action": "UPDATE tool_call SET action = NULL, digest = NULL",
    "ck_tool_call_one_proposer": "UPDATE tool_call SET model_call_id = NULL",
    "ck_tool_call_executor_fits": f"{PROGRAM}; UPDATE tool_call SET executor = 'here' WHERE run_id IS NULL",
    "ck_tool_call_states_fit": f"{PROGRAM}; UPDATE tool_call SET state = 'new' WHERE run_id IS NULL",
    "ck_tool_call_lapses": f"{PROGRAM}; UPDATE tool_call SET state = 'ready' WHERE run_id IS NULL",
    "ck_tool_call_lapsed_ended": f"{PROGRAM}; UPDATE tool_call SET lapsed_at = now() WHERE run_id IS NULL",
    "ck_tool_call_handed_over_approved": f"{PROGRAM}; UPDATE tool_call SET handed_over_at = now() WHERE run_id IS NULL",
    "ck_tool_call_key_of_program": "UPDATE tool_call SET executor_key = 'ci'",
    "ck_approval_request_expires_after_created": "UPDATE approval_request SET expires_at = created_at",
    "ck_approval_request_at_least_one_approval": "UPDATE approval_request SET approvals_required = 0",
    "ck_approval_request_decided_with_time": "UPDATE approval_request SET status = 'approved'",
    "ck_approval_request_only_approved_voided": "UPDATE approval_request SET voided_at = now()",
    "ck_approval_request_rule_digest_size": "UPDATE approval_request SET rule_digest = ''",
    "ck_rule_digest_size": "INSERT INTO rule (digest, content) VALUES ('', '{}')",
    "ck_rule_content_is_object": "INSERT INTO rule (digest, content) VALUES (sha256('q'), '[]')",
    "ck_approval_request_run_request_has_run": "UPDATE approval_request SET source = 'api'",
    "ck_approval_request_requester_with_team": "UPDATE approval_request SET requester_team_id = 'T1'",
    "ck_approval_request_somebody_may_decide": "UPDATE approval_request SET approvers = '[]'",
    "ck_approval_request_limits_is_list": """
        UPDATE approval_request SET limits = '{}'""",
    "ck_limit_use_amount_from_zero": """
        INSERT INTO limit_use (limit_name, key, subject, amount, settled)
            VALUES ('refunds', gen_random_uuid(), 'all', 'NaN', false)""",
    "ck_approval_request_excluded_is_list": """
        ALTER TABLE approval_request DISABLE TRIGGER approval_request_exclusions_stay;
        UPDATE approval_request SET excluded = '{}'""",
    "ck_approval_request_reminded_not_negative": "UPDATE approval_request SET reminded = -1",
    "ck_request_revision_digest_of_action": f"""
        INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description, context,
                                      editor_team_id, editor_user_id, changes)
        VALUES ('{REQUEST}', 2, 't', '1', 'a', sha256('b'), 'U1', 'd', '{{}}', 'T1', 'U1', '[]')""",
    "ck_request_revision_signature_digest_size": f"""
        INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description, context,
                                      editor_team_id, editor_user_id, changes, signature_digest)
        VALUES ('{REQUEST}', 2, 't', '1', 'a', sha256('a'), 'U1', 'd', '{{}}', 'T1', 'U1', '[]', 'a')""",
    "ck_request_revision_known_facts_source": f"""
        INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description, context,
                                      editor_team_id, editor_user_id, changes, facts_source)
        VALUES ('{REQUEST}', 2, 't', '1', 'a', sha256('a'), 'U1', 'd', '{{}}', 'T1', 'U1', '[]', 'the model')""",
    "ck_request_revision_n_from_one": f"""
        INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description, context)
        VALUES ('{REQUEST}', 0, 't', '1', 'a', sha256('a'), 'U1', 'd', '{{}}')""",
    "ck_request_revision_editor_with_team": f"""
        INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description, context,
                                      editor_user_id, changes)
        VALUES ('{REQUEST}', 2, 't', '1', 'a', sha256('a'), 'U1', 'd', '{{}}', 'U1', '[]')""",
    "ck_request_revision_edit_with_changes": f"""
        INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description, context,
                                      editor_team_id, editor_user_id)
        VALUES ('{REQUEST}', 2, 't', '1', 'a', sha256('a'), 'U1', 'd', '{{}}', 'T1', 'U1')""",
    "ck_request_revision_later_ones_edited": f"""
        INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description, context)
        VALUES ('{REQUEST}', 2, 't', '1', 'a', sha256('a'), 'agent', 'd', '{{}}')""",
    "ck_request_revision_erased_whole": f"""
        ALTER TABLE request_revision DISABLE TRIGGER request_revision_not_born_erased;
        INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description, context,
                                      editor_team_id, editor_user_id, changes, erased_at)
        VALUES ('{REQUEST}', 2, 't', '1', 'a', sha256('a'), 'U1', 'd', '{{}}', 'T1', 'U1', '[]', now())""",
    "ck_answer_digest_of_value": f"""
        INSERT INTO answer (vote_id, request_id, value, digest, own_words, created_at)
        VALUES ('{VOTE}', '{REQUEST}', '"eu"', sha256('"us"'), false, now())""",
    "ck_answer_erased_whole": f"""
        INSERT INTO answer (vote_id, request_id, value, digest, own_words, created_at, erased_at)
        VALUES ('{VOTE}', '{REQUEST}', '"eu"', sha256('"eu"'), false, now(), now())""",
    "ck_approval_request_answered_or_approved": """
        UPDATE approval_request SET status = 'answered', decided_at = now()""",
    "ck_decision_is_an_outcome": f"""
        INSERT INTO decision (request_id, outcome, revision, digest) VALUES ('{REQUEST}', 'waiting', 1, sha256('a'))""",
    "ck_decision_people_decide": f"""
        INSERT INTO decision (request_id, outcome, revision, digest)
        VALUES ('{REQUEST}', 'approved', 1, sha256('a'))""",
    "ck_decision_digest_size": f"""
        INSERT INTO decision (request_id, outcome, revision, digest) VALUES ('{REQUEST}', 'expired', 1, '')""",
    "ck_decision_approved_by_is_list": f"""
        INSERT INTO decision (request_id, outcome, revision, digest, approved_by)
        VALUES ('{REQUEST}', 'expired', 1, sha256('a'), '{{}}')""",
    "ck_execution_program_with_claim": "UPDATE execution SET claim_hash = sha256('t')",
    # An attempt is made by the executor of its call.
    "fk_execution_call_id": "UPDATE execution SET executor = 'program', claim_hash = sha256('t')",
    "ck_execution_finished_with_time": "UPDATE execution SET status = 'succeeded'",
    "ck_card_place_nonce_unguessable": "UPDATE card_place SET nonce = 'guess'",
    "ck_card_place_channel_card_has_channel": "UPDATE card_place SET channel_id = NULL",
    "ck_card_place_only_folded_in_digest": "UPDATE card_place SET digest = 'group:1'",
    "ck_card_place_own_place_has_user": "UPDATE card_place SET surface = 'home'",
    "ck_admin_channel_one": "INSERT INTO admin_channel (one, policy_epoch) VALUES (false, 1)",
    "ck_admin_channel_whole": "INSERT INTO admin_channel (policy_epoch, team_id) VALUES (1, 'T1')",
    "ck_outlet_lease_whole": "UPDATE outlet SET lease_worker = 'w1'",
    "ck_outlet_trouble_whole": "UPDATE outlet SET trouble = 'It is archived.'",
    "ck_notify_choice_known_way": "UPDATE notify_choice SET way = 'email'",
    "ck_notify_choice_dm_has_channel": "UPDATE notify_choice SET way = 'dm'",
    "ck_delivery_digest_of_agent": "UPDATE delivery SET agent = 'refunds'",
    "ck_delivery_about_something": "UPDATE delivery SET run_id = NULL",
    "ck_audit_event_seq_from_one": "INSERT INTO audit_event VALUES ('s', 0, now(), 'a', 'e', '{}', sha256('h'))",
    "ck_audit_event_hash_size": "INSERT INTO audit_event VALUES ('s', 1, now(), 'a', 'e', '{}', '')",
    "ck_pause_names_something": "UPDATE pause SET scope = ''",
    "ck_judgement_known_verdict": """
        INSERT INTO judgement (id, policy_epoch, agent, tool, traits, facts_failed, verdict, because)
        VALUES (gen_random_uuid(), 1, 'a', 't', '{}', false, 'perhaps', '')""",
    "ck_judgement_known_ruling": """
        INSERT INTO judgement (id, policy_epoch, agent, tool, traits, facts_failed, verdict, because, ruled)
        VALUES (gen_random_uuid(), 1, 'a', 't', '{}', false, 'run', '', 'deny')""",
    "ck_judgement_observed_is_list": """
        INSERT INTO judgement (id, policy_epoch, agent, tool, traits, facts_failed, verdict, because, observed)
        VALUES (gen_random_uuid(), 1, 'a', 't', '{}', false, 'run', '', '{}')""",
    "ck_policy_counts_from_one": "INSERT INTO policy (epoch, source, digest, by) VALUES (0, '', sha256(''), '')",
    "ck_schedule_grace_not_negative": """
        INSERT INTO schedule (id, agent, task, cron, timezone, requester_team_id, requester_user_id, grace_seconds,
                              created_by)
        VALUES (gen_random_uuid(), 'a', 't', '0 9 * * *', 'UTC', 'T1', 'U1', -1, 'cli')""",
    "ck_policy_digest_size": "INSERT INTO policy (epoch, source, digest, by) VALUES (2, '', '', '')",
    "ck_policy_restores_an_earlier_one": """
        INSERT INTO policy (epoch, source, digest, by, restores) VALUES (2, '', sha256(''), '', 2)""",
    "ck_api_key_hash_size": "UPDATE api_key SET hash = ''",
    "ck_api_key_who_asks_never_decides": """
        UPDATE api_key SET owner_team_id = 'T1', owner_user_id = 'U1', scopes = '["request", "decide"]'""",
    "ck_api_key_old_whole": "UPDATE api_key SET old_until = now()",
    "ck_api_key_known_scopes": """UPDATE api_key SET scopes = '["everything"]'""",
    "ck_api_key_people_decide": """UPDATE api_key SET scopes = '["decide"]'""",
    "ck_api_key_owner_with_team": "UPDATE api_key SET owner_user_id = 'U1'",
    "ck_api_key_at_least_one_a_minute": "UPDATE api_key SET per_minute = 0",
    "ck_http_reply_fingerprint_size": "UPDATE http_reply SET fingerprint = ''",
    "ck_http_reply_whole": "UPDATE http_reply SET status = 201",
    "ck_sign_in_link_hash_size": "UPDATE sign_in_link SET hash = ''",
    "ck_web_session_hash_size": "UPDATE web_session SET hash = ''",
    "ck_webhook_known_events": """UPDATE webhook SET events = '["everything"]'""",
    "ck_notice_to_webhook": "UPDATE notice SET webhook_id = NULL",
    "ck_notice_to_somebody": "UPDATE notice SET recipient = 'a@example.com'",
    "ck_notice_about_something": "UPDATE notice SET request_id = NULL",
    # What unique constraints settle.
    "uq_agent_run_start_key": f"""
        UPDATE agent_run SET start_key = 'k';
        INSERT INTO agent_run (id, agent, agent_version, task, principal, requester_asserted, start_key)
            VALUES ('{CALL}', 'a', '1', 't', 'p', 'none', 'k')""",
    "uq_tool_call_run_id_turn_index": f"""
        INSERT INTO tool_call (id, run_id, agent, turn, index, model_call_id, tool, raw_arguments, blocking,
                               executor)
            VALUES ('{RUN}', '{RUN}', 'refunds', 1, 0, 'call_1', 'refund', '', true, 'here')""",
    "uq_tool_call_principal_client_id": f"{PROGRAM};{PROGRAM}",
    "uq_vote_live": f"""
        INSERT INTO vote (id, request_id, revision, team_id, user_id, verdict, path)
            VALUES ('{LATER_VOTE}', '{REQUEST}', 1, 'T1', 'U1', 'reject', 'slack_button')""",
    "uq_execution_open_call": f"""
        INSERT INTO execution (id, call_id, executor, attempt, digest, policy_epoch, idempotent, worker, lease_until)
            VALUES ('{RUN}', '{CALL}', 'here', 2, '', 0, false, 'w2', now())""",
    "uq_card_place_channel_card": f"""
        INSERT INTO card_place (nonce, request_id, surface, team_id, channel_id)
            VALUES (repeat('m', 22), '{REQUEST}', 'channel', 'T1', 'C2')""",
    "uq_card_place_own": f"""
        INSERT INTO card_place (nonce, request_id, surface, team_id, user_id)
            SELECT repeat(letter, 22), '{REQUEST}', 'home', 'T1', 'U1' FROM unnest(ARRAY['h', 'i']) AS letter""",
    "ck_approval_grant_uses_within": f"""
        INSERT INTO grant_use (key, grant_id, n, amount, digest, content)
            SELECT letter, '{REQUEST}', 1, 1, 'd', '' FROM unnest(ARRAY['a', 'b']) AS letter""",
    "ck_approval_grant_sum_within": f"""
        INSERT INTO grant_use (key, grant_id, n, amount, digest, content) VALUES ('a', '{REQUEST}', 1, 11, 'd', '')""",
    "ck_approval_grant_ended_whole": "UPDATE approval_grant SET ended_at = now()",
    "ck_grant_use_adds_up": f"""
        INSERT INTO grant_use (key, grant_id, n, amount, digest, content) VALUES ('a', '{REQUEST}', 1, -1, 'd', '')""",
    "pk_retry_vote": f"""
        INSERT INTO retry_vote (execution_id, team_id, user_id) VALUES ('{EXECUTION}', 'T1', 'U1')""",
    "pk_settlement": f"""
        INSERT INTO settlement (execution_id, verdict, team_id, user_id) VALUES ('{EXECUTION}', 'retry', 'T1', 'U2')""",
}


@pytest.mark.parametrize("constraint", BROKEN)
def test_broken_combination_is_refused(shared: tuple[Connection, Connection], constraint: str) -> None:
    """A row that contradicts itself, or a second one where there can be one, is refused by the named constraint."""
    owner, _ = shared
    with pytest.raises(errors.IntegrityError) as caught:
        owner.execute(BROKEN[constraint])
    assert caught.value.diag.constraint_name == constraint


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("approval_request", "excluded"),
        ("approval_request", "policy_epoch"),
        ("execution", "policy_epoch"),
        ("tool_call", "agent"),
        ("tool_call", "executor"),
        ("approval_request", "call_id"),
        ("execution", "executor"),
    ],
)
def test_a_row_that_leaves_it_open_is_refused(
    shared: tuple[Connection, Connection], table: str, column: str
) -> None:
    """Who may not approve, which policy was applied and whose work it is are stated in every row."""
    owner, _ = shared
    row = sql.SQL("INSERT INTO {0} SELECT (jsonb_populate_record(t, {1})).* FROM {0} AS t")
    open_ = sql.Literal(f'{{"{column}": null}}')
    with pytest.raises(errors.NotNullViolation) as caught:
        owner.execute(row.format(sql.Identifier(table), open_))
    assert caught.value.diag.column_name == column


def test_every_check_is_tried(shared: tuple[Connection, Connection]) -> None:
    """No check constraint exists without a row above that it refuses."""
    owner, _ = shared
    checks = owner.execute("""
        SELECT conname FROM pg_constraint WHERE contype = 'c' AND connamespace = 'signoff'::regnamespace
    """)
    assert {name for (name,) in checks} <= set(BROKEN)


@pytest.mark.parametrize("who", ["owner", "replica", "service"])
@pytest.mark.parametrize(
    "attempt",
    [
        "UPDATE audit_event SET actor = 'nobody'",
        "UPDATE audit_event SET actor = 'nobody' WHERE false",
        "DELETE FROM audit_event",
        "TRUNCATE audit_event",
        "TRUNCATE audit_event CASCADE",
        """INSERT INTO audit_event SELECT * FROM audit_event
           ON CONFLICT (subject, seq) DO UPDATE SET actor = 'nobody'""",
    ],
)
def test_audit_rows_are_final(shared: tuple[Connection, Connection], who: str, attempt: str) -> None:
    """Neither the service nor the owner, even one that poses as a replica, changes or removes an audit row."""
    owner, service = shared
    if who == "replica":
        attempt = f"SET LOCAL session_replication_role = replica; {attempt}"
    with pytest.raises(errors.InsufficientPrivilege if who == "service" else errors.RestrictViolation):
        (service if who == "service" else owner).execute(attempt)
    assert owner.execute("SELECT actor FROM audit_event").fetchall() == [("U1",)]


@pytest.mark.parametrize(
    "attempt",
    [
        "UPDATE decision SET outcome = 'rejected'",
        "DELETE FROM decision",
        "TRUNCATE decision",
        "UPDATE settlement SET verdict = 'retry'",
        "DELETE FROM settlement",
        "TRUNCATE settlement",
        "UPDATE policy SET source = ''",
        "DELETE FROM policy",
        "TRUNCATE policy",
        "UPDATE retry_vote SET user_id = 'U2'",
        "DELETE FROM retry_vote",
        "TRUNCATE retry_vote",
        "UPDATE request_revision SET action = 'b', digest = sha256('b')",
        "UPDATE request_revision SET description = 'harmless'",
        "UPDATE request_revision SET action = '', erased_at = now()",
        "UPDATE request_revision SET action = '', description = 'harmless', context = '{}', erased_at = now()",
        "UPDATE request_revision SET digest = sha256('b'), " + ERASED,
        f"UPDATE request_revision SET {ERASED}; UPDATE request_revision SET {ERASED}",
        f"UPDATE request_revision SET {ERASED}; UPDATE request_revision SET erased_at = NULL, action = 'a'",
        f"""INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, author, description,
                                         context, editor_team_id, editor_user_id, changes, erased_at)
            VALUES ('{REQUEST}', 2, 't', '1', '', sha256('a'), 'U1', 'd', '{{}}', 'T1', 'U1', '[]', now())""",
        "DELETE FROM request_revision",
        "TRUNCATE request_revision CASCADE",
        "UPDATE vote SET verdict = 'reject'",
        f"UPDATE vote SET superseded_by = '{LATER_VOTE}', reason = 'another'",
        "DELETE FROM vote",
        "TRUNCATE vote CASCADE",
        f"{ANSWERED} UPDATE answer SET value = '\"us\"', digest = sha256('\"us\"')",
        f"{ANSWERED} UPDATE answer SET erased_at = now()",
        f"{ANSWERED} DELETE FROM answer",
        f"{ANSWERED} TRUNCATE answer",
        "UPDATE approval_request SET status = 'rejected'",
        "UPDATE approval_request SET status = 'waiting', decided_at = NULL",
        "UPDATE approval_request SET rule_digest = sha256('q')",
        "UPDATE rule SET content = content || '{\"prevent_self_review\": false}'",
        "DELETE FROM rule",
        "TRUNCATE rule",
        "UPDATE approval_request SET approvals_required = 5",
        "UPDATE approval_request SET requester_team_id = 'T9', requester_user_id = 'U9'",
        "UPDATE approval_request SET api_key_id = NULL",
        "UPDATE approval_request SET client_id = 'another'",
        "UPDATE approval_request SET client_id = client_id || '#' || ask_no, voided_at = now()",
        "UPDATE request_revision SET facts_source = 'signoff'",
        "UPDATE agent_run SET parent_run_id = id",
        "UPDATE agent_run SET parent_call_id = NULL",
        "UPDATE agent_run SET ancestor_ids = ancestor_ids || id, ancestor_agents = ancestor_agents || agent",
        "UPDATE agent_run SET api_key_id = NULL",
    ],
)
def test_the_record_is_final(shared: tuple[Connection, Connection], attempt: str) -> None:
    """What was shown, voted, decided and settled stays, as does where a run comes from; an outcome absorbs."""
    owner, _ = shared
    with pytest.raises(errors.RestrictViolation, match="refused"):
        owner.execute(DECIDE + "SET CONSTRAINTS ALL IMMEDIATE;" + attempt)


def test_what_a_question_wants_is_settled_when_it_opens(shared: tuple[Connection, Connection]) -> None:
    """An approval does not become a question, nor a question another one, while people decide."""
    owner, _ = shared
    with pytest.raises(errors.RestrictViolation, match="refused"):
        owner.execute("UPDATE approval_request SET answer_form = '{}'")


def test_only_what_ended_is_erased_and_only_by_the_owner(fresh: tuple[Connection, Connection]) -> None:
    """The service may not erase what people were shown; its owner may once the request has an outcome, not before."""
    owner, service = fresh
    erase = f"UPDATE request_revision SET {ERASED}"
    with pytest.raises(errors.InsufficientPrivilege):
        service.execute(erase)
    with pytest.raises(errors.RestrictViolation):
        owner.execute(erase)
    with owner.transaction():
        owner.execute(DECIDE)
    with pytest.raises(errors.InsufficientPrivilege):
        service.execute(erase)
    owner.execute(erase)
    kept = "SELECT action, digest = sha256('a'), description FROM request_revision"
    assert [(bytes(row[0]), row[1], row[2][:9]) for row in owner.execute(kept)] == [(b"", True, "erased on")]


def test_a_vote_is_superseded_once(fresh: tuple[Connection, Connection]) -> None:
    """A change of mind supersedes the earlier vote, which then stays superseded by that one."""
    _, service = fresh
    with service.transaction():
        service.execute("UPDATE vote SET superseded_by = %s", [LATER_VOTE])
        service.execute(
            """INSERT INTO vote (id, request_id, revision, team_id, user_id, verdict, path)
               VALUES (%s, %s, 1, 'T1', 'U1', 'reject', 'slack_button')""",
            [LATER_VOTE, REQUEST],
        )
    with pytest.raises(errors.RestrictViolation):
        service.execute("UPDATE vote SET superseded_by = NULL")


@pytest.mark.parametrize("ended", ["succeeded", "failed", "in_doubt"])
def test_an_execution_ends_once(fresh: tuple[Connection, Connection], ended: str) -> None:
    """An execution that has ended keeps its outcome; a late result is written beside it."""
    _, service = fresh
    service.execute("UPDATE execution SET status = %s, finished_at = now()", [ended])
    for other in {"claimed", "succeeded", "failed", "in_doubt"} - {ended}:
        with pytest.raises(errors.RestrictViolation):
            service.execute(
                "UPDATE execution SET status = %s, finished_at = CASE WHEN %s THEN now() END",
                [other, other != "claimed"],
            )
    service.execute("UPDATE execution SET late_result = 'done after all'")


@pytest.mark.parametrize(
    "half",
    [
        f"UPDATE approval_request SET status = 'approved', decided_at = now() WHERE id = '{REQUEST}'",
        f"""INSERT INTO decision (request_id, outcome, revision, digest)
            VALUES ('{REQUEST}', 'expired', 1, sha256('a'))""",
        f"""UPDATE approval_request SET status = 'cancelled', decided_at = now();
            INSERT INTO decision (request_id, outcome, revision, digest)
            VALUES ('{REQUEST}', 'expired', 1, sha256('a'))""",
    ],
)
def test_outcome_and_decision_are_one(shared: tuple[Connection, Connection], half: str) -> None:
    """An outcome without a decision, a decision without an outcome, or two that differ, do not commit."""
    _, service = shared
    with pytest.raises(errors.CheckViolation, match="decision says"):
        service.execute(half)
    assert service.execute("SELECT status FROM approval_request").fetchone() == ("waiting",)


def test_outcome_and_decision_in_any_search_path(fresh: tuple[Connection, Connection]) -> None:
    """The rule holds for a session that names the schema itself, in either order of the two writes."""
    owner, _ = fresh
    owner.execute("SET search_path TO public")
    with owner.transaction():
        owner.execute(
            """INSERT INTO signoff.decision (request_id, outcome, revision, digest)
               VALUES (%s, 'expired', 1, sha256('a'))""",
            [REQUEST],
        )
        owner.execute("UPDATE signoff.approval_request SET status = 'expired', decided_at = now()")
    assert owner.execute("SELECT status FROM signoff.approval_request").fetchone() == ("expired",)


def test_a_run_goes_with_all_but_its_audit(fresh: tuple[Connection, Connection]) -> None:
    """The owner can erase a run with its requests, votes and decision; the audit rows stay."""
    owner, _ = fresh
    owner.execute(DECIDE)
    owner.execute("DELETE FROM agent_run")
    for table in ("approval_request", "request_revision", "vote", "decision", "execution", "settlement"):
        assert owner.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone() == (
            0,
        )
    assert owner.execute("SELECT count(*) FROM audit_event").fetchone() == (1,)


@pytest.mark.parametrize(
    "attempt",
    [
        "DELETE FROM agent_run",
        "DELETE FROM approval_request",
        "UPDATE request_revision SET description = 'harmless'",
        "UPDATE decision SET outcome = 'approved'",
        "UPDATE vote SET verdict = 'reject'",
        "ALTER TABLE audit_event DISABLE TRIGGER ALL",
        "DROP TABLE audit_event",
        "CREATE TABLE signoff.mine (id integer)",
        "UPDATE alembic_version SET version_num = '0'",
        "CREATE OR REPLACE VIEW lineage AS SELECT 'ours'::text AS marker",
    ],
)
def test_the_service_may_not(shared: tuple[Connection, Connection], attempt: str) -> None:
    """The service's role lacks the right to do this, quite apart from the triggers."""
    _, service = shared
    with pytest.raises(errors.InsufficientPrivilege):
        service.execute(attempt)


def test_pending_reviews(fresh: tuple[Connection, Connection]) -> None:
    """The view shows the request as its current revision, and its state as it changes."""
    _, service = fresh
    query = "SELECT request_id::text, action_description, agent_context, status FROM pending_reviews"
    seen = (REQUEST, "Refund order 7", {"why": "broken"})
    assert service.execute(query).fetchall() == [(*seen, "waiting")]
    service.execute(DECIDE)
    assert service.execute(query).fetchall() == [(*seen, "approved")]
