-- Processes that share this configuration: written every few seconds, bumps no revision.
CREATE TABLE node (
    id TEXT NOT NULL PRIMARY KEY,
    role TEXT NOT NULL,
    version TEXT NOT NULL,
    revision BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);
