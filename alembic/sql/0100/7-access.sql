-- Programs with keys, people with sessions.

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
    CONSTRAINT uq_api_key_name UNIQUE (name),
    CONSTRAINT uq_api_key_hash UNIQUE (hash),
    CONSTRAINT ck_api_key_hash_size CHECK (octet_length(hash) = 32),
    CONSTRAINT ck_api_key_old_whole CHECK ((old_hash IS NULL) = (old_until IS NULL)),
    CONSTRAINT ck_api_key_known_scopes CHECK (
        scopes <@ '["request", "on_behalf", "facts", "decide", "read", "admin", "execute", "sessions"]'
        AND scopes <> '[]'),
    CONSTRAINT ck_api_key_who_asks_never_decides CHECK (NOT (scopes ? 'request' AND scopes ? 'decide')),
    CONSTRAINT ck_api_key_people_decide CHECK (NOT scopes ? 'decide' OR owner_user_id IS NOT NULL),
    CONSTRAINT ck_api_key_owner_with_team CHECK ((owner_user_id IS NULL) = (owner_team_id IS NULL)),
    CONSTRAINT ck_api_key_at_least_one_a_minute CHECK (per_minute >= 1)
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
    -- SHA-256 of the `Idempotency-Key`, in hex.
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
