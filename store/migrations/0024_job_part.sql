-- The part of an organisation that a job is of, like a workspace; empty for none.
ALTER TABLE job ADD COLUMN part TEXT NOT NULL DEFAULT '';
CREATE INDEX job_part ON job (part, kind) WHERE ended_at IS NULL AND part <> '';
