-- When the program that asked first read that its request was approved: from then on it may act without a claim.
ALTER TABLE approval_request
    ADD COLUMN handed_over_at timestamptz,
    ADD CONSTRAINT ck_approval_request_only_approved_handed_over
        CHECK (handed_over_at IS NULL OR (status = 'approved' AND call_id IS NULL));

CREATE OR REPLACE VIEW works_with AS SELECT '0013'::text AS version, '0002'::text AS oldest;
