-- When keys were last used: a use is no change of its key, so it has no revision.
CREATE TABLE key_use (
    id TEXT NOT NULL PRIMARY KEY,
    used_at BIGINT NOT NULL
);
