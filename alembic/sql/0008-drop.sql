DROP TABLE retry_vote;
CREATE OR REPLACE TRIGGER execution_absorbs
    BEFORE UPDATE ON execution
    FOR EACH ROW WHEN (OLD.status <> 'claimed' AND NEW.status <> OLD.status)
    EXECUTE FUNCTION refuse_change('an execution that has ended keeps its outcome');
DROP FUNCTION execution_keeps_its_outcome();

CREATE OR REPLACE VIEW works_with AS SELECT '0007'::text AS version, '0002'::text AS oldest;
