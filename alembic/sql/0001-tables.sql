-- Enums, tables and indexes of version 0001. Every name is unqualified: the search_path says which schema.

CREATE TYPE run_status AS ENUM ('working', 'pending_approval', 'completed', 'denied', 'failed', 'cancelled');
CREATE TYPE message_role AS ENUM ('user', 'assistant', 'note');
CREATE TYPE call_state AS ENUM ('new', 'asked', 'ready', 'refused', 'claimed', 'delegated', 'in_doubt', 'answered');
CREATE TYPE answer_kind AS ENUM (
    'result', 'error', 'rejected', 'expired', 'withdrawn', 'denied', 'malformed', 'unknown_tool', 'stopped', 'done_by_person'
);
CREATE TYPE risk AS ENUM ('low', 'medium', 'high', 'critical');
CREATE TYPE request_status AS ENUM ('waiting', 'approved', 'rejected', 'expired', 'cancelled');
CREATE TYPE verdict AS ENUM ('approve', 'reject');
CREATE TYPE execution_status AS ENUM ('claimed', 'succeeded', 'failed', 'in_doubt');
CREATE TYPE settlement_verdict AS ENUM ('retry', 'done');
CREATE TYPE notice_kind AS ENUM ('webhook', 'email');
CREATE TYPE surface AS ENUM ('channel', 'home', 'modal', 'command');
CREATE TYPE delivery_kind AS ENUM ('run_root', 'run_line', 'card', 'thread_line', 'direct', 'digest');
CREATE TYPE delivery_state AS ENUM ('pending', 'sent', 'dead', 'skipped');

CREATE TABLE agent_run (
    id uuid NOT NULL,
    parent_run_id uuid,
    parent_call_id uuid,
    agent text NOT NULL,
    agent_version text NOT NULL,
    task text NOT NULL,
    principal text NOT NULL,
    start_key text,
    session_id text,
    requester_team_id text,
    requester_user_id text,
    requester_asserted text NOT NULL,
    team_id text,
    channel_id text,
    thread_ts text,
    status run_status DEFAULT 'working' NOT NULL,
    cause text,
    answer text,
    progress text,
    turn integer DEFAULT 0 NOT NULL,
    steps integer DEFAULT 0 NOT NULL,
    tokens bigint DEFAULT 0 NOT NULL,
    tokens_before bigint DEFAULT 0 NOT NULL,
    inputs integer DEFAULT 0 NOT NULL,
    heard integer DEFAULT 0 NOT NULL,
    awaiting_calls integer DEFAULT 0 NOT NULL,
    model_failures integer DEFAULT 0 NOT NULL,
    look_at timestamptz,
    lease_epoch bigint DEFAULT 0 NOT NULL,
    lease_until timestamptz,
    lease_worker text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    erased_at timestamptz,
    CONSTRAINT pk_agent_run PRIMARY KEY (id),
    CONSTRAINT ck_agent_run_heard_within_inputs CHECK (heard <= inputs),
    CONSTRAINT ck_agent_run_awaiting_not_negative CHECK (awaiting_calls >= 0),
    CONSTRAINT ck_agent_run_requester_with_team
        CHECK ((requester_user_id IS NULL) = (requester_team_id IS NULL)),
    CONSTRAINT ck_agent_run_lease_whole CHECK ((lease_until IS NULL) = (lease_worker IS NULL)),
    CONSTRAINT ck_agent_run_ended_badly_with_cause
        CHECK (status NOT IN ('denied', 'failed') OR cause IS NOT NULL),
    CONSTRAINT fk_agent_run_parent_run_id FOREIGN KEY (parent_run_id) REFERENCES agent_run (id),
    CONSTRAINT uq_agent_run_start_key UNIQUE (start_key)
);
CREATE INDEX ix_agent_run_leased ON agent_run (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX ix_agent_run_over ON agent_run (team_id, status, id)
    WHERE status NOT IN ('working', 'pending_approval');
CREATE INDEX ix_agent_run_parent ON agent_run (parent_run_id);
CREATE INDEX ix_agent_run_runnable ON agent_run (look_at)
    WHERE inputs > heard AND status IN ('working', 'pending_approval');
CREATE INDEX ix_agent_run_at_work ON agent_run (team_id, id) WHERE status IN ('working', 'pending_approval');
CREATE INDEX ix_agent_run_principal ON agent_run (principal, id);
CREATE INDEX ix_agent_run_session ON agent_run (principal, session_id, id) WHERE session_id IS NOT NULL;
CREATE INDEX ix_agent_run_team ON agent_run (team_id, id);
CREATE UNIQUE INDEX ix_agent_run_thread ON agent_run (team_id, channel_id, thread_ts);

CREATE TABLE run_message (
    run_id uuid NOT NULL,
    seq integer NOT NULL,
    turn integer NOT NULL,
    role message_role NOT NULL,
    text text,
    author_team_id text,
    author_user_id text,
    source_key text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_run_message PRIMARY KEY (run_id, seq),
    CONSTRAINT ck_run_message_seq_from_one CHECK (seq >= 1),
    CONSTRAINT fk_run_message_run_id FOREIGN KEY (run_id) REFERENCES agent_run (id) ON DELETE CASCADE,
    CONSTRAINT uq_run_message_source_key UNIQUE (source_key)
);

CREATE TABLE tool_call (
    id uuid NOT NULL,
    run_id uuid NOT NULL,
    turn integer NOT NULL,
    index smallint NOT NULL,
    model_call_id text NOT NULL,
    tool text NOT NULL,
    raw_arguments text NOT NULL,
    tool_version text,
    action bytea,
    digest bytea,
    state call_state DEFAULT 'new' NOT NULL,
    blocking boolean NOT NULL,
    ask_no smallint DEFAULT 0 NOT NULL,
    repeats uuid,
    announced_at timestamptz,
    held bytea,
    answer_kind answer_kind,
    answer text,
    answered_at timestamptz,
    lease_until timestamptz,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_tool_call PRIMARY KEY (id),
    CONSTRAINT uq_tool_call_run_id_turn_index UNIQUE (run_id, turn, index),
    CONSTRAINT ck_tool_call_action_with_digest CHECK ((action IS NULL) = (digest IS NULL)),
    CONSTRAINT ck_tool_call_digest_of_action CHECK (digest IS NULL OR digest = sha256(action)),
    CONSTRAINT ck_tool_call_answered_with_time CHECK ((state = 'answered') = (answered_at IS NOT NULL)),
    CONSTRAINT ck_tool_call_ended_with_kind
        CHECK (state NOT IN ('answered', 'refused') OR answer_kind IS NOT NULL),
    CONSTRAINT ck_tool_call_judged_has_action
        CHECK (state IN ('new', 'refused', 'answered') OR action IS NOT NULL),
    CONSTRAINT fk_tool_call_run_id FOREIGN KEY (run_id) REFERENCES agent_run (id) ON DELETE CASCADE,
    CONSTRAINT fk_tool_call_repeats FOREIGN KEY (repeats) REFERENCES tool_call (id)
);
CREATE INDEX ix_tool_call_runnable ON tool_call (created_at) WHERE state IN ('new', 'ready', 'refused');
CREATE INDEX ix_tool_call_unannounced ON tool_call (created_at) WHERE state = 'asked' AND announced_at IS NULL;
CREATE INDEX ix_tool_call_delegated ON tool_call (run_id) WHERE state = 'delegated';
CREATE UNIQUE INDEX uq_tool_call_repeats ON tool_call (repeats);

CREATE TABLE approval_request (
    id uuid NOT NULL,
    principal text NOT NULL,
    client_id text NOT NULL,
    content_digest bytea NOT NULL,
    source text NOT NULL,
    run_id uuid,
    call_id uuid,
    ask_no smallint DEFAULT 1 NOT NULL,
    agent text NOT NULL,
    agent_version text NOT NULL,
    requester_team_id text,
    requester_user_id text,
    requester_asserted text NOT NULL,
    checkpoint_id text NOT NULL,
    policy jsonb NOT NULL,
    policy_digest bytea NOT NULL,
    approvers jsonb NOT NULL,
    risk risk NOT NULL,
    approvals_required smallint NOT NULL,
    team_id text NOT NULL,
    channel_id text NOT NULL,
    status request_status DEFAULT 'waiting' NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    voided_at timestamptz,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamptz NOT NULL,
    decided_at timestamptz,
    reminded smallint DEFAULT 0 NOT NULL,
    remind_next timestamptz,
    escalated_at timestamptz,
    lapse_at timestamptz,
    lapsed_at timestamptz,
    CONSTRAINT pk_approval_request PRIMARY KEY (id),
    CONSTRAINT uq_approval_request_principal_client_id UNIQUE (principal, client_id),
    CONSTRAINT uq_approval_request_call_id_ask_no UNIQUE (call_id, ask_no),
    CONSTRAINT ck_approval_request_expires_after_created CHECK (expires_at > created_at),
    CONSTRAINT ck_approval_request_at_least_one_approval CHECK (approvals_required >= 1),
    CONSTRAINT ck_approval_request_decided_with_time CHECK ((status = 'waiting') = (decided_at IS NULL)),
    CONSTRAINT ck_approval_request_only_approved_voided CHECK (voided_at IS NULL OR status = 'approved'),
    CONSTRAINT ck_approval_request_policy_digest_size CHECK (octet_length(policy_digest) = 32),
    CONSTRAINT ck_approval_request_somebody_may_decide
        CHECK (jsonb_typeof(approvers) = 'array' AND approvers <> '[]'),
    CONSTRAINT ck_approval_request_reminded_not_negative CHECK (reminded >= 0),
    CONSTRAINT ck_approval_request_only_approved_lapses
        CHECK (num_nonnulls(lapse_at, lapsed_at) = 0 OR (status = 'approved' AND call_id IS NULL)),
    CONSTRAINT ck_approval_request_lapses_once CHECK (num_nonnulls(lapse_at, lapsed_at) <= 1),
    CONSTRAINT ck_approval_request_run_request_has_call CHECK ((source = 'run') = (call_id IS NOT NULL)),
    CONSTRAINT ck_approval_request_requester_with_team
        CHECK ((requester_user_id IS NULL) = (requester_team_id IS NULL)),
    CONSTRAINT fk_approval_request_run_id FOREIGN KEY (run_id) REFERENCES agent_run (id) ON DELETE CASCADE,
    CONSTRAINT fk_approval_request_call_id FOREIGN KEY (call_id) REFERENCES tool_call (id) ON DELETE CASCADE
);
CREATE INDEX ix_approval_request_agent ON approval_request (team_id, agent, decided_at, id)
    WHERE decided_at IS NOT NULL;
CREATE INDEX ix_approval_request_audience ON approval_request (team_id, approvers, channel_id, id)
    WHERE status = 'waiting';
CREATE INDEX ix_approval_request_client ON approval_request (client_id) WHERE source = 'api';
CREATE INDEX ix_approval_request_decided ON approval_request (team_id, decided_at, id) WHERE decided_at IS NOT NULL;
CREATE INDEX ix_approval_request_due ON approval_request (expires_at) WHERE status = 'waiting';
CREATE INDEX ix_approval_request_lapse ON approval_request (lapse_at) WHERE lapse_at IS NOT NULL;
CREATE INDEX ix_approval_request_principal ON approval_request (principal, created_at, id);
CREATE INDEX ix_approval_request_remind ON approval_request (remind_next) WHERE status = 'waiting';
CREATE INDEX ix_approval_request_requester
    ON approval_request (requester_team_id, requester_user_id, created_at, id);
CREATE INDEX ix_approval_request_run ON approval_request (run_id);
CREATE INDEX ix_approval_request_run_waiting ON approval_request (team_id, run_id)
    WHERE status = 'waiting' AND run_id IS NOT NULL;
CREATE INDEX ix_approval_request_status ON approval_request (team_id, status, decided_at, id)
    WHERE decided_at IS NOT NULL;
CREATE INDEX ix_approval_request_team ON approval_request (team_id, created_at, id);
CREATE INDEX ix_approval_request_waiting ON approval_request (team_id, created_at, id) WHERE status = 'waiting';

CREATE TABLE request_revision (
    request_id uuid NOT NULL,
    n integer NOT NULL,
    tool text NOT NULL,
    tool_version text NOT NULL,
    action bytea NOT NULL,
    digest bytea NOT NULL,
    arguments jsonb,
    facts bytea,
    author text NOT NULL,
    description text NOT NULL,
    rationale text,
    context jsonb NOT NULL,
    editor_team_id text,
    editor_user_id text,
    changes jsonb,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    erased_at timestamptz,
    CONSTRAINT pk_request_revision PRIMARY KEY (request_id, n),
    CONSTRAINT ck_request_revision_digest_of_action CHECK (erased_at IS NOT NULL OR digest = sha256(action)),
    CONSTRAINT ck_request_revision_erased_whole
        CHECK (erased_at IS NULL OR (octet_length(action) = 0 AND num_nonnulls(arguments, facts, rationale) = 0)),
    CONSTRAINT ck_request_revision_n_from_one CHECK (n >= 1),
    CONSTRAINT ck_request_revision_editor_with_team CHECK ((editor_user_id IS NULL) = (editor_team_id IS NULL)),
    CONSTRAINT ck_request_revision_edit_with_changes CHECK ((editor_user_id IS NULL) = (changes IS NULL)),
    CONSTRAINT ck_request_revision_later_ones_edited CHECK (n <= 1 OR editor_user_id IS NOT NULL),
    CONSTRAINT fk_request_revision_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);

CREATE TABLE vote (
    id uuid NOT NULL,
    request_id uuid NOT NULL,
    revision integer NOT NULL,
    team_id text NOT NULL,
    user_id text NOT NULL,
    verdict verdict NOT NULL,
    reason text,
    path text NOT NULL,
    superseded_by uuid,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_vote PRIMARY KEY (id),
    CONSTRAINT fk_vote_request_id_revision
        FOREIGN KEY (request_id, revision) REFERENCES request_revision (request_id, n) ON DELETE CASCADE,
    CONSTRAINT fk_vote_superseded_by
        FOREIGN KEY (superseded_by) REFERENCES vote (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE UNIQUE INDEX uq_vote_live ON vote (request_id, team_id, user_id) WHERE superseded_by IS NULL;

CREATE TABLE decision (
    request_id uuid NOT NULL,
    outcome request_status NOT NULL,
    revision integer NOT NULL,
    digest bytea NOT NULL,
    team_id text,
    user_id text,
    reason text,
    decided_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_decision PRIMARY KEY (request_id),
    CONSTRAINT ck_decision_is_an_outcome CHECK (outcome <> 'waiting'),
    CONSTRAINT ck_decision_people_decide
        CHECK (outcome NOT IN ('approved', 'rejected') OR user_id IS NOT NULL),
    CONSTRAINT ck_decision_digest_size CHECK (octet_length(digest) = 32),
    CONSTRAINT fk_decision_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);
CREATE INDEX ix_decision_person ON decision (team_id, user_id, decided_at, request_id);

CREATE TABLE execution (
    id uuid NOT NULL,
    call_id uuid,
    request_id uuid,
    attempt smallint NOT NULL,
    digest bytea NOT NULL,
    idempotent boolean NOT NULL,
    worker text NOT NULL,
    claim_hash bytea,
    lease_epoch bigint DEFAULT 1 NOT NULL,
    lease_until timestamptz NOT NULL,
    status execution_status DEFAULT 'claimed' NOT NULL,
    result text,
    error text,
    late_result text,
    started_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamptz,
    CONSTRAINT pk_execution PRIMARY KEY (id),
    CONSTRAINT ck_execution_of_something CHECK (call_id IS NOT NULL OR request_id IS NOT NULL),
    CONSTRAINT ck_execution_outside_with_claim CHECK ((call_id IS NULL) = (claim_hash IS NOT NULL)),
    CONSTRAINT ck_execution_finished_with_time CHECK ((status = 'claimed') = (finished_at IS NULL)),
    CONSTRAINT fk_execution_call_id FOREIGN KEY (call_id) REFERENCES tool_call (id) ON DELETE CASCADE,
    CONSTRAINT fk_execution_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);
CREATE INDEX ix_execution_leased ON execution (lease_until) WHERE status = 'claimed';
CREATE INDEX ix_execution_request ON execution (request_id);
CREATE UNIQUE INDEX uq_execution_attempt ON execution (call_id, attempt);
CREATE UNIQUE INDEX uq_execution_attempt_outside ON execution (request_id, attempt) WHERE call_id IS NULL;
CREATE UNIQUE INDEX uq_execution_open_call ON execution (call_id) WHERE status = 'claimed';
CREATE UNIQUE INDEX uq_execution_open_request ON execution (request_id) WHERE status = 'claimed';

CREATE TABLE settlement (
    execution_id uuid NOT NULL,
    verdict settlement_verdict NOT NULL,
    team_id text NOT NULL,
    user_id text NOT NULL,
    note text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_settlement PRIMARY KEY (execution_id),
    CONSTRAINT fk_settlement_execution_id
        FOREIGN KEY (execution_id) REFERENCES execution (id) ON DELETE CASCADE
);

CREATE TABLE card_place (
    nonce text NOT NULL,
    request_id uuid NOT NULL,
    surface surface NOT NULL,
    team_id text NOT NULL,
    channel_id text,
    user_id text,
    ts text,
    folded boolean DEFAULT false NOT NULL,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_card_place PRIMARY KEY (nonce),
    CONSTRAINT ck_card_place_nonce_unguessable CHECK (length(nonce) >= 22),
    CONSTRAINT ck_card_place_channel_card_has_channel CHECK (surface <> 'channel' OR channel_id IS NOT NULL),
    CONSTRAINT ck_card_place_own_place_has_user CHECK (surface NOT IN ('home', 'modal') OR user_id IS NOT NULL),
    CONSTRAINT fk_card_place_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);
CREATE INDEX ix_card_place_message ON card_place (team_id, channel_id, ts);
CREATE INDEX ix_card_place_folded ON card_place (team_id, channel_id, request_id) WHERE folded;
CREATE UNIQUE INDEX uq_card_place_channel_card ON card_place (request_id) WHERE surface = 'channel';
CREATE UNIQUE INDEX uq_card_place_own ON card_place (request_id, team_id, user_id, surface)
    WHERE surface IN ('home', 'modal');

CREATE TABLE outlet (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    lease_epoch bigint DEFAULT 0 NOT NULL,
    lease_until timestamptz,
    lease_worker text,
    next_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    trouble text,
    trouble_since timestamptz,
    CONSTRAINT pk_outlet PRIMARY KEY (team_id, channel_id),
    CONSTRAINT ck_outlet_trouble_whole CHECK ((trouble IS NULL) = (trouble_since IS NULL)),
    CONSTRAINT ck_outlet_lease_whole CHECK ((lease_until IS NULL) = (lease_worker IS NULL))
);

CREATE TABLE digest_card (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    agent text NOT NULL,
    ts text NOT NULL,
    CONSTRAINT pk_digest_card PRIMARY KEY (team_id, channel_id, agent)
);

CREATE TABLE delivery (
    id uuid NOT NULL,
    kind delivery_kind NOT NULL,
    priority smallint NOT NULL,
    team_id text NOT NULL,
    channel_id text NOT NULL,
    request_id uuid,
    run_id uuid,
    agent text,
    body jsonb NOT NULL,
    coalesce_key text,
    state delivery_state DEFAULT 'pending' NOT NULL,
    wanted integer DEFAULT 1 NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    ambiguous boolean DEFAULT false NOT NULL,
    not_before timestamptz DEFAULT clock_timestamp() NOT NULL,
    ts text,
    error text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    sent_at timestamptz,
    CONSTRAINT pk_delivery PRIMARY KEY (id),
    CONSTRAINT ck_delivery_about_something CHECK (num_nonnulls(request_id, run_id, agent) > 0),
    CONSTRAINT ck_delivery_digest_of_agent CHECK ((kind = 'digest') = (agent IS NOT NULL)),
    CONSTRAINT fk_delivery_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE,
    CONSTRAINT fk_delivery_run_id FOREIGN KEY (run_id) REFERENCES agent_run (id) ON DELETE CASCADE
);
CREATE INDEX ix_delivery_pending ON delivery (team_id, channel_id, priority, id) WHERE state = 'pending';
CREATE INDEX ix_delivery_request ON delivery (request_id);
CREATE INDEX ix_delivery_run ON delivery (run_id);
CREATE UNIQUE INDEX uq_delivery_coalesce ON delivery (coalesce_key)
    WHERE state = 'pending' AND coalesce_key IS NOT NULL;

CREATE TABLE audit_event (
    subject text NOT NULL,
    seq integer NOT NULL,
    at timestamptz NOT NULL,
    actor text NOT NULL,
    event text NOT NULL,
    detail jsonb NOT NULL,
    previous bytea NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT pk_audit_event PRIMARY KEY (subject, seq),
    CONSTRAINT ck_audit_event_seq_from_one CHECK (seq >= 1),
    CONSTRAINT ck_audit_event_hash_size CHECK (octet_length(hash) = 32)
);
CREATE INDEX ix_audit_event_at ON audit_event (at);

CREATE TABLE audit_head (
    subject text NOT NULL,
    seq integer NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT pk_audit_head PRIMARY KEY (subject)
);

-- What must not begin: every agent ('*'), or one. While a row is here, nothing of it is claimed.
CREATE TABLE pause (
    scope text NOT NULL,
    by text NOT NULL,
    reason text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_pause PRIMARY KEY (scope),
    CONSTRAINT ck_pause_names_something CHECK (scope <> '')
);

CREATE TABLE api_key (
    id uuid NOT NULL,
    name text NOT NULL,
    prefix text NOT NULL,
    hash bytea NOT NULL,
    old_hash bytea,
    old_until timestamptz,
    scopes jsonb NOT NULL,
    owner_team_id text,
    owner_user_id text,
    agent text,
    per_minute integer DEFAULT 600 NOT NULL,
    created_by text NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_api_key PRIMARY KEY (id),
    CONSTRAINT ck_api_key_hash_size CHECK (octet_length(hash) = 32),
    CONSTRAINT ck_api_key_old_whole CHECK ((old_hash IS NULL) = (old_until IS NULL)),
    CONSTRAINT ck_api_key_known_scopes
        CHECK (scopes <@ '["request", "on_behalf", "decide", "read", "admin"]' AND scopes <> '[]'),
    CONSTRAINT ck_api_key_who_asks_never_decides CHECK (NOT (scopes ? 'request' AND scopes ? 'decide')),
    CONSTRAINT ck_api_key_people_decide CHECK (NOT scopes ? 'decide' OR owner_user_id IS NOT NULL),
    CONSTRAINT ck_api_key_owner_with_team CHECK ((owner_user_id IS NULL) = (owner_team_id IS NULL)),
    CONSTRAINT ck_api_key_at_least_one_a_minute CHECK (per_minute >= 1),
    CONSTRAINT uq_api_key_name UNIQUE (name),
    CONSTRAINT uq_api_key_hash UNIQUE (hash)
);
CREATE UNIQUE INDEX uq_api_key_old_hash ON api_key (old_hash);

-- How often each key was used in which minute. Losing it in a crash forgives a minute.
CREATE UNLOGGED TABLE key_use (
    key_id uuid NOT NULL,
    minute timestamptz NOT NULL,
    calls integer NOT NULL,
    CONSTRAINT pk_key_use PRIMARY KEY (key_id, minute)
);
CREATE INDEX ix_key_use_minute ON key_use (minute);

CREATE TABLE http_reply (
    principal text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    status smallint,
    body jsonb,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_http_reply PRIMARY KEY (principal, key),
    CONSTRAINT ck_http_reply_fingerprint_size CHECK (octet_length(fingerprint) = 32),
    CONSTRAINT ck_http_reply_whole CHECK ((status IS NULL) = (body IS NULL))
);
CREATE INDEX ix_http_reply_created ON http_reply (created_at);

CREATE TABLE sign_in_link (
    hash bytea NOT NULL,
    team_id text NOT NULL,
    user_id text NOT NULL,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    CONSTRAINT pk_sign_in_link PRIMARY KEY (hash),
    CONSTRAINT ck_sign_in_link_hash_size CHECK (octet_length(hash) = 32)
);
CREATE INDEX ix_sign_in_link_expires ON sign_in_link (expires_at);

CREATE TABLE web_session (
    hash bytea NOT NULL,
    team_id text NOT NULL,
    user_id text NOT NULL,
    via text NOT NULL,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at timestamptz,
    CONSTRAINT pk_web_session PRIMARY KEY (hash),
    CONSTRAINT ck_web_session_hash_size CHECK (octet_length(hash) = 32)
);
CREATE INDEX ix_web_session_expires ON web_session (expires_at);

CREATE TABLE webhook (
    id uuid NOT NULL,
    name text NOT NULL,
    url text NOT NULL,
    secret text NOT NULL,
    events jsonb NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    removed_at timestamptz,
    CONSTRAINT pk_webhook PRIMARY KEY (id),
    CONSTRAINT ck_webhook_known_events
        CHECK (events <@ '["request.opened", "decision.made", "run.finished"]' AND events <> '[]')
);
CREATE UNIQUE INDEX uq_webhook_name ON webhook (name) WHERE removed_at IS NULL;

CREATE TABLE notice (
    id uuid NOT NULL,
    kind notice_kind NOT NULL,
    webhook_id uuid,
    recipient text,
    event text NOT NULL,
    request_id uuid,
    run_id uuid,
    state delivery_state DEFAULT 'pending' NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    next_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    error text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    sent_at timestamptz,
    CONSTRAINT pk_notice PRIMARY KEY (id),
    CONSTRAINT ck_notice_to_webhook CHECK ((kind = 'webhook') = (webhook_id IS NOT NULL)),
    CONSTRAINT ck_notice_to_somebody CHECK ((kind = 'email') = (recipient IS NOT NULL)),
    CONSTRAINT ck_notice_about_something CHECK (num_nonnulls(request_id, run_id) = 1),
    CONSTRAINT fk_notice_webhook_id FOREIGN KEY (webhook_id) REFERENCES webhook (id),
    CONSTRAINT fk_notice_request_id FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE,
    CONSTRAINT fk_notice_run_id FOREIGN KEY (run_id) REFERENCES agent_run (id) ON DELETE CASCADE
);
CREATE INDEX ix_notice_due ON notice (next_at) WHERE state = 'pending';
CREATE INDEX ix_notice_dead ON notice (created_at) WHERE state = 'dead';
CREATE INDEX ix_notice_request ON notice (request_id);
CREATE INDEX ix_notice_run ON notice (run_id);
