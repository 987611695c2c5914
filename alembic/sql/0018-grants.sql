-- Consent that people give in advance. What a grant allows stands in the action of its request, which they approve; the
-- columns here find it and bound it once more. It is counted where a use is written, so that no path can overdraw it.
CREATE TABLE approval_grant (
    request_id uuid NOT NULL,
    agent text NOT NULL,
    tool text NOT NULL,
    checkpoint_id text NOT NULL,
    agents text[] NOT NULL,
    until timestamptz NOT NULL,
    max_uses integer NOT NULL,
    max_sum numeric,
    uses integer DEFAULT 0 NOT NULL,
    used_sum numeric DEFAULT 0 NOT NULL,
    created_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamptz,
    ended_by text,
    ended_because text,
    CONSTRAINT pk_approval_grant PRIMARY KEY (request_id),
    CONSTRAINT fk_approval_grant_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE,
    CONSTRAINT ck_approval_grant_uses_within CHECK (uses BETWEEN 0 AND max_uses),
    CONSTRAINT ck_approval_grant_sum_within CHECK (used_sum <= coalesce(max_sum, used_sum)),
    CONSTRAINT ck_approval_grant_ended_whole CHECK (num_nonnulls(ended_at, ended_by, ended_because) IN (0, 3))
);
CREATE INDEX ix_approval_grant_live ON approval_grant (agent, tool, checkpoint_id, until) WHERE ended_at IS NULL;

CREATE TABLE grant_use (
    key text NOT NULL,
    grant_id uuid NOT NULL,
    n integer NOT NULL,
    amount numeric NOT NULL,
    digest bytea NOT NULL,
    content bytea NOT NULL,
    used_at timestamptz DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_grant_use PRIMARY KEY (key),
    CONSTRAINT uq_grant_use_n UNIQUE (grant_id, n),
    CONSTRAINT fk_grant_use_grant_id FOREIGN KEY (grant_id) REFERENCES approval_grant (request_id) ON DELETE CASCADE,
    CONSTRAINT ck_grant_use_adds_up CHECK (amount >= 0 AND n >= 1)
);

CREATE FUNCTION grant_use_counts() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE approval_grant SET uses = uses + 1, used_sum = used_sum + NEW.amount
    WHERE request_id = NEW.grant_id AND ended_at IS NULL AND until > clock_timestamp()
    RETURNING uses INTO NEW.n;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the grant % is not live', NEW.grant_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER grant_use_counts
    BEFORE INSERT ON grant_use
    FOR EACH ROW EXECUTE FUNCTION grant_use_counts();
CREATE TRIGGER grant_use_is_final
    BEFORE UPDATE ON grant_use
    FOR EACH ROW EXECUTE FUNCTION refuse_change('a use is final');
CREATE TRIGGER grant_use_stays
    BEFORE DELETE ON grant_use
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its grant');
CREATE TRIGGER grant_use_not_emptied
    BEFORE TRUNCATE ON grant_use
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('uses are kept');

CREATE TRIGGER approval_grant_is_final
    BEFORE UPDATE ON approval_grant
    FOR EACH ROW WHEN (
        (NEW.request_id, NEW.agent, NEW.tool, NEW.checkpoint_id, NEW.agents, NEW.until, NEW.max_uses, NEW.max_sum)
            IS DISTINCT FROM
        (OLD.request_id, OLD.agent, OLD.tool, OLD.checkpoint_id, OLD.agents, OLD.until, OLD.max_uses, OLD.max_sum)
        OR ((NEW.uses, NEW.used_sum) IS DISTINCT FROM (OLD.uses, OLD.used_sum) AND pg_trigger_depth() = 0)
        OR OLD.ended_at IS NOT NULL)
    EXECUTE FUNCTION refuse_change('a grant only counts its uses, and ends');
CREATE TRIGGER approval_grant_stays
    BEFORE DELETE ON approval_grant
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change('it goes only with its request');
CREATE TRIGGER approval_grant_not_emptied
    BEFORE TRUNCATE ON approval_grant
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('grants are kept');
DO $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON approval_grant TO %I', current_setting('signoff.role'));
    EXECUTE format('GRANT SELECT, INSERT ON grant_use TO %I', current_setting('signoff.role'));
END;
$$;

CREATE OR REPLACE VIEW works_with AS SELECT '0018'::text AS version, '0002'::text AS oldest;
