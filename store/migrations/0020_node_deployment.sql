-- Slug of the deployment that a node is of; empty for none.
ALTER TABLE node ADD COLUMN deployment TEXT NOT NULL DEFAULT '';
