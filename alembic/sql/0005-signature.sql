-- SHA-256 over the names, types and defaults of the parameters that the tool had when people were asked. It stands beside
-- the action, so that the digest of an action depends on the action alone. NULL is not compared: a program's request,
-- or a row of a version before this one.
ALTER TABLE request_revision
    ADD COLUMN signature_digest bytea,
    ADD CONSTRAINT ck_request_revision_signature_digest_size CHECK (octet_length(signature_digest) = 32);

CREATE OR REPLACE VIEW works_with AS SELECT '0005'::text AS version, '0002'::text AS oldest;
