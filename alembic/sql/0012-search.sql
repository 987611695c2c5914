-- What can be found by its words: of each request the masked ones, as people may read them. The service writes them a
-- moment later, in batches; search_due says for which requests. An erased request is found by its old words no more.
CREATE TABLE request_search (
    request_id uuid NOT NULL,
    recorded bigint NOT NULL,
    words tsvector NOT NULL,
    CONSTRAINT pk_request_search PRIMARY KEY (request_id),
    CONSTRAINT fk_request_search_request_id
        FOREIGN KEY (request_id) REFERENCES approval_request (id) ON DELETE CASCADE
);
CREATE INDEX ix_request_search_words ON request_search USING gin (words);
CREATE TABLE search_due (
    id bigint GENERATED ALWAYS AS IDENTITY,
    request_id uuid NOT NULL,
    CONSTRAINT pk_search_due PRIMARY KEY (id)
);

CREATE FUNCTION search_is_due() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM request_search WHERE request_id = NEW.request_id;
    END IF;
    INSERT INTO search_due (request_id) VALUES (NEW.request_id);
    RETURN NULL;
END;
$$;
CREATE TRIGGER request_revision_search_due
    AFTER INSERT OR UPDATE ON request_revision
    FOR EACH ROW EXECUTE FUNCTION search_is_due();
CREATE TRIGGER vote_search_due
    AFTER INSERT ON vote
    FOR EACH ROW WHEN (NEW.reason IS NOT NULL) EXECUTE FUNCTION search_is_due();
CREATE TRIGGER decision_search_due
    AFTER INSERT ON decision
    FOR EACH ROW WHEN (NEW.reason IS NOT NULL) EXECUTE FUNCTION search_is_due();

INSERT INTO search_due (request_id) SELECT id FROM approval_request ORDER BY id DESC;

DO $$
DECLARE
    app text := current_setting('signoff.role');
BEGIN
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON request_search, search_due TO %I', app);
END;
$$;

CREATE OR REPLACE VIEW works_with AS SELECT '0012'::text AS version, '0002'::text AS oldest;
