DELETE FROM delivery WHERE num_nonnulls(request_id, run_id, agent) = 0;
ALTER TABLE delivery DROP CONSTRAINT ck_delivery_about_something,
    ADD CONSTRAINT ck_delivery_about_something CHECK (num_nonnulls(request_id, run_id, agent) > 0);
DROP TABLE observed_week;
ALTER TABLE judgement DROP COLUMN observed;

CREATE OR REPLACE VIEW works_with AS SELECT '0027'::text AS version, '0002'::text AS oldest;
