-- The tamper-evident log, and the function that refuses changes wherever the record is final. Every name in these files
-- is unqualified: the search_path says which schema.

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'restrict_violation';
END;
$$;

-- The hash covers the event and the hash of the one before it in its chain.
CREATE TABLE audit_event (
    subject text NOT NULL,
    seq integer NOT NULL,
    at timestamptz NOT NULL,
    actor text NOT NULL,
    event text NOT NULL,
    detail jsonb NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT pk_audit_event PRIMARY KEY (subject, seq),
    CONSTRAINT ck_audit_event_seq_from_one CHECK (seq >= 1),
    CONSTRAINT ck_audit_event_hash_size CHECK (octet_length(hash) = 32)
);
CREATE INDEX ix_audit_event_at ON audit_event (at);

-- Audit rows are final for everybody, their owner included. ALWAYS: also for a session that calls itself a replica.
CREATE TRIGGER audit_event_is_final
    BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('audit rows are final');
ALTER TABLE audit_event ENABLE ALWAYS TRIGGER audit_event_is_final;

CREATE TABLE audit_head (
    subject text NOT NULL,
    seq integer NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT pk_audit_head PRIMARY KEY (subject)
);
