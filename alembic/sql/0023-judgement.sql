-- Every judgement of policy with what it rests on, so that another policy can be tried on them. The content of those
-- that led to a request is in its first revision.
CREATE TABLE judgement (
    id uuid CONSTRAINT pk_judgement PRIMARY KEY,
    policy_epoch integer NOT NULL,
    call_id uuid,
    request_id uuid,
    principal text,
    agent text NOT NULL,
    requester text,
    tool text NOT NULL,
    traits jsonb NOT NULL,
    action bytea,
    facts bytea,
    facts_failed boolean NOT NULL,
    verdict text NOT NULL,
    checkpoint_id text,
    because text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ck_judgement_known_verdict CHECK (verdict IN ('run', 'ask', 'deny'))
);
CREATE INDEX ix_judgement_content ON judgement (id) WHERE action IS NOT NULL;
DO $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT ON judgement TO %I', current_setting('signoff.role'));
END;
$$;

CREATE OR REPLACE VIEW works_with AS SELECT '0023'::text AS version, '0002'::text AS oldest;
