DROP INDEX ix_delivery_pending;
CREATE INDEX ix_delivery_pending ON delivery (team_id, channel_id, priority, id) WHERE state = 'pending';

CREATE OR REPLACE VIEW works_with AS SELECT '0025'::text AS version, '0002'::text AS oldest;
