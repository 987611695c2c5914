DROP VIEW works_with;
ALTER TABLE outlet DROP COLUMN next_update_at;
