DROP TRIGGER decision_search_due ON decision;
DROP TRIGGER vote_search_due ON vote;
DROP TRIGGER request_revision_search_due ON request_revision;
DROP FUNCTION search_is_due();
DROP TABLE search_due;
DROP TABLE request_search;

CREATE OR REPLACE VIEW works_with AS SELECT '0011'::text AS version, '0002'::text AS oldest;
