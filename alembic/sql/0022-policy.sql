-- The policies that were ever in force. The last row is the policy that every process judges and claims by.
CREATE TABLE policy (
    epoch integer CONSTRAINT pk_policy PRIMARY KEY,
    source text NOT NULL,
    digest bytea NOT NULL,
    by text NOT NULL,
    restores integer CONSTRAINT fk_policy_restores REFERENCES policy (epoch),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ck_policy_counts_from_one CHECK (epoch >= 1),
    CONSTRAINT ck_policy_digest_size CHECK (octet_length(digest) = 32),
    CONSTRAINT ck_policy_restores_an_earlier_one CHECK (restores < epoch)
);
CREATE TRIGGER policy_is_final
    BEFORE UPDATE OR DELETE OR TRUNCATE ON policy
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('what was in force is on record');
DO $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT ON policy TO %I', current_setting('signoff.role'));
END;
$$;

-- By which policy a request was judged, and an attempt claimed.
ALTER TABLE approval_request ADD COLUMN policy_epoch integer;
ALTER TABLE execution ADD COLUMN policy_epoch integer;

-- A worker of an earlier version names none: it judges by its file, which is the policy in force until one is applied.
CREATE FUNCTION refuse_unknown_policy() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM policy WHERE epoch > 1) THEN
        RAISE EXCEPTION 'a policy was applied that this version of Signoff cannot read: update this worker'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER approval_request_knows_policy
    BEFORE INSERT ON approval_request
    FOR EACH ROW WHEN (NEW.policy_epoch IS NULL) EXECUTE FUNCTION refuse_unknown_policy();
CREATE TRIGGER execution_knows_policy
    BEFORE INSERT ON execution
    FOR EACH ROW WHEN (NEW.policy_epoch IS NULL) EXECUTE FUNCTION refuse_unknown_policy();
CREATE TRIGGER audit_event_knows_policy
    BEFORE INSERT ON audit_event
    FOR EACH ROW WHEN (NEW.event = 'review.not_required' AND NOT jsonb_exists(NEW.detail, 'policy'))
    EXECUTE FUNCTION refuse_unknown_policy();

CREATE OR REPLACE VIEW works_with AS SELECT '0022'::text AS version, '0002'::text AS oldest;
