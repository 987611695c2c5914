-- What waits in a channel is read kind by kind: while no message may be changed, none of the cards that stand is looked at.
DROP INDEX ix_delivery_pending;
CREATE INDEX ix_delivery_pending ON delivery (team_id, channel_id, kind, priority, id) WHERE state = 'pending';

CREATE OR REPLACE VIEW works_with AS SELECT '0026'::text AS version, '0002'::text AS oldest;
