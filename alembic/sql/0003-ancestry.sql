-- The ancestors of a run never change, so they are stored with it: ids and agents of the runs that handed the task
-- down, the root first and the parent last. A root has none. The defaults are constants, so PostgreSQL does not rewrite
-- the table, and the rows of all roots are right at once.
ALTER TABLE agent_run
    ADD COLUMN ancestor_ids uuid[] DEFAULT '{}' NOT NULL,
    ADD COLUMN ancestor_agents text[] DEFAULT '{}' NOT NULL,
    -- No foreign key: keys are revoked and never deleted, and its check would lock the key's row at every insert.
    ADD COLUMN api_key_id uuid;
ALTER TABLE approval_request ADD COLUMN api_key_id uuid;

WITH RECURSIVE child AS (
    SELECT r.id, r.agent, ARRAY[p.id] AS ids, ARRAY[p.agent] AS agents
    FROM agent_run AS r JOIN agent_run AS p ON p.id = r.parent_run_id WHERE p.parent_run_id IS NULL
    UNION ALL
    SELECT r.id, r.agent, p.ids || p.id, p.agents || p.agent
    FROM child AS p JOIN agent_run AS r ON r.parent_run_id = p.id
)
UPDATE agent_run SET ancestor_ids = child.ids, ancestor_agents = child.agents FROM child WHERE child.id = agent_run.id;
UPDATE agent_run SET api_key_id = k.id FROM api_key AS k WHERE principal = 'key:' || k.name;
UPDATE approval_request SET api_key_id = k.id FROM api_key AS k WHERE principal = 'key:' || k.name;

ALTER TABLE agent_run
    ADD CONSTRAINT ck_agent_run_last_ancestor_is_parent
        CHECK (ancestor_ids[cardinality(ancestor_ids)] IS NOT DISTINCT FROM parent_run_id),
    ADD CONSTRAINT ck_agent_run_every_ancestor_named
        CHECK (cardinality(ancestor_ids) = cardinality(ancestor_agents));

-- Workers of version 0002 keep working during the rollout and do not write these columns: the triggers do it for them.
-- Rows of this version arrive complete and pass them by. The first version that no longer works with 0002 drops them.
CREATE FUNCTION fill_ancestors() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    SELECT ancestor_ids || id, ancestor_agents || agent INTO NEW.ancestor_ids, NEW.ancestor_agents
        FROM agent_run WHERE id = NEW.parent_run_id;
    RETURN NEW;
END;
$$;
CREATE FUNCTION fill_api_key() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.api_key_id := (SELECT id FROM api_key WHERE NEW.principal = 'key:' || name);
    RETURN NEW;
END;
$$;
CREATE TRIGGER agent_run_fill_ancestors
    BEFORE INSERT ON agent_run
    FOR EACH ROW WHEN (NEW.parent_run_id IS NOT NULL AND NEW.ancestor_ids = '{}') EXECUTE FUNCTION fill_ancestors();
CREATE TRIGGER agent_run_fill_api_key
    BEFORE INSERT ON agent_run
    FOR EACH ROW WHEN (NEW.principal LIKE 'key:%' AND NEW.api_key_id IS NULL) EXECUTE FUNCTION fill_api_key();
CREATE TRIGGER approval_request_fill_api_key
    BEFORE INSERT ON approval_request
    FOR EACH ROW WHEN (NEW.principal LIKE 'key:%' AND NEW.api_key_id IS NULL) EXECUTE FUNCTION fill_api_key();

CREATE TRIGGER agent_run_origin_stays
    BEFORE UPDATE OF parent_run_id, parent_call_id, ancestor_ids, ancestor_agents, api_key_id ON agent_run
    FOR EACH ROW EXECUTE FUNCTION refuse_change('where a run comes from never changes');
CREATE TRIGGER approval_request_key_stays
    BEFORE UPDATE OF api_key_id ON approval_request
    FOR EACH ROW EXECUTE FUNCTION refuse_change('the key that opened a request never changes');

CREATE OR REPLACE VIEW works_with AS SELECT '0003'::text AS version, '0002'::text AS oldest;
