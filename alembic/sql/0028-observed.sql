-- What checkpoints that are only observed would have made of a judgement; and the weeks that were told to operators.
ALTER TABLE judgement ADD COLUMN observed jsonb,
    ADD CONSTRAINT ck_judgement_observed_is_list CHECK (jsonb_typeof(observed) = 'array');
CREATE INDEX ix_judgement_observed ON judgement (id) WHERE observed IS NOT NULL;
CREATE TABLE observed_week (
    starts timestamptz CONSTRAINT pk_observed_week PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
DO $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT ON observed_week TO %I', current_setting('signoff.role'));
END;
$$;

-- Words to operators may be about no request and no run.
ALTER TABLE delivery DROP CONSTRAINT ck_delivery_about_something,
    ADD CONSTRAINT ck_delivery_about_something
        CHECK (num_nonnulls(request_id, run_id, agent) > 0 OR kind = 'direct');

CREATE OR REPLACE VIEW works_with AS SELECT '0028'::text AS version, '0002'::text AS oldest;
