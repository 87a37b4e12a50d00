-- By which key a person acted.
ALTER TABLE audit ADD COLUMN api_key TEXT NOT NULL DEFAULT '';
