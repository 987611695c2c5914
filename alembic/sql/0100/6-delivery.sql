-- What is to be sent to Slack, webhooks and mailboxes, and where the cards stand.

CREATE TYPE surface AS ENUM ('channel', 'home', 'modal', 'command');
CREATE TYPE delivery_kind AS ENUM ('run_root', 'run_line', 'card', 'thread_line', 'direct', 'digest');
CREATE TYPE delivery_state AS ENUM ('pending', 'sent', 'dead', 'skipped');
CREATE TYPE notice_kind AS ENUM ('webhook', 'email');

CREATE TABLE card_place (
    nonce text NOT NULL,
    request_id uuid NOT NULL,
    surface surface NOT NULL,
    team_id text NOT NULL,
    channel_id text,
    user_id text,
    ts text,
    folded boolean DEFAULT false NOT NULL,
    -- The message that shows it instead of a card: first the name of its batch, then that of its group. NULL: none, or
    -- if folded, the digest of its sender's flood.
    digest text,
    -- The messages, by ts, that Slack lets nobody change any more: they may show buttons that no longer count.
    closed text[] DEFAULT '{}' NOT NULL,
    -- When people could learn of it without a card of its own: counted in a digest, or among those that expired unseen.
    told_at timestamptz,
    -- When to look whether its card still stands, in case Slack's event about its deletion was lost.
    look_at timestamptz,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_card_place PRIMARY KEY (nonce),
    CONSTRAINT ck_card_place_nonce_unguessable CHECK (length(nonce) >= 22),
    CONSTRAINT ck_card_place_channel_card_has_channel CHECK (surface <> 'channel' OR channel_id IS NOT NULL),
    CONSTRAINT ck_card_place_only_folded_in_digest CHECK (digest IS NULL OR folded),
    CONSTRAINT ck_card_place_own_place_has_user CHECK (surface NOT IN ('home', 'modal') OR user_id IS NOT NULL),
    CONSTRAINT fk_card_place_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);
CREATE INDEX ix_card_place_message ON card_place (team_id, channel_id, ts);
CREATE INDEX ix_card_place_untold ON card_place (team_id, channel_id, request_id)
    WHERE surface = 'channel' AND ts IS NULL AND told_at IS NULL;
CREATE INDEX ix_card_place_look ON card_place (team_id, look_at) WHERE look_at IS NOT NULL AND ts IS NOT NULL;
CREATE INDEX ix_card_place_folded ON card_place (team_id, channel_id, request_id) WHERE folded;
CREATE INDEX ix_card_place_digest ON card_place (digest) WHERE digest IS NOT NULL;
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
    -- Changes of messages have a pace of their own in each channel, because Slack counts them apart from new messages.
    next_update_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_outlet PRIMARY KEY (team_id, channel_id),
    CONSTRAINT ck_outlet_trouble_whole CHECK ((trouble IS NULL) = (trouble_since IS NULL)),
    CONSTRAINT ck_outlet_lease_whole CHECK ((lease_until IS NULL) = (lease_worker IS NULL))
);

-- Where the operators' channel of the policy in force is: one row, written by the service, which finds it in Slack.
CREATE TABLE admin_channel (
    one boolean DEFAULT true NOT NULL,
    policy_epoch integer NOT NULL,
    team_id text,
    channel_id text,
    CONSTRAINT pk_admin_channel PRIMARY KEY (one),
    CONSTRAINT ck_admin_channel_one CHECK (one),
    CONSTRAINT ck_admin_channel_whole CHECK ((team_id IS NULL) = (channel_id IS NULL))
);

CREATE TABLE digest_card (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    agent text NOT NULL,
    ts text NOT NULL,
    outdated boolean DEFAULT false NOT NULL,
    CONSTRAINT pk_digest_card PRIMARY KEY (team_id, channel_id, agent)
);

-- The requests of one batch and checkpoint that share a message (`card_place.digest` is its name).
CREATE TABLE request_group (
    name text NOT NULL,
    team_id text NOT NULL,
    channel_id text NOT NULL,
    sender text NOT NULL,
    ts text,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_request_group PRIMARY KEY (name)
);
CREATE INDEX ix_request_group_message ON request_group (team_id, channel_id, ts);

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
    -- Words to operators may be about no request and no run.
    CONSTRAINT ck_delivery_about_something CHECK (num_nonnulls(request_id, run_id, agent) > 0 OR kind = 'direct'),
    CONSTRAINT ck_delivery_digest_of_agent CHECK ((kind = 'digest') = (agent IS NOT NULL)),
    CONSTRAINT fk_delivery_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE,
    CONSTRAINT fk_delivery_run_id FOREIGN KEY (run_id) REFERENCES agent_run (id) ON DELETE CASCADE
);
CREATE INDEX ix_delivery_request ON delivery (request_id);
CREATE INDEX ix_delivery_run ON delivery (run_id);
CREATE UNIQUE INDEX uq_delivery_coalesce ON delivery (coalesce_key)
    WHERE state = 'pending' AND coalesce_key IS NOT NULL;
-- Of what operators have been told already.
CREATE INDEX ix_delivery_told ON delivery USING gin ((body -> 'told')) WHERE kind = 'direct' AND body -> 'told' IS NOT NULL;
CREATE INDEX ix_delivery_dead ON delivery (created_at) WHERE state = 'dead';
-- What waits in a channel is read kind by kind: while no message may be changed, none of the cards that stand is looked at.
CREATE INDEX ix_delivery_pending ON delivery (team_id, channel_id, kind, priority, id) WHERE state = 'pending';

-- How people want to be told of the outcomes of what they asked for. Without a row: in the thread.
CREATE TABLE notify_choice (
    team_id text NOT NULL,
    user_id text NOT NULL,
    way text NOT NULL,
    -- Their own conversation with the app, which the choice has opened.
    channel_id text,
    CONSTRAINT pk_notify_choice PRIMARY KEY (team_id, user_id),
    CONSTRAINT ck_notify_choice_known_way CHECK (way IN ('dm', 'thread', 'off')),
    CONSTRAINT ck_notify_choice_dm_has_channel CHECK ((way = 'dm') = (channel_id IS NOT NULL))
);

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
CREATE INDEX ix_notice_target ON notice (webhook_id, next_at) WHERE state = 'pending';
