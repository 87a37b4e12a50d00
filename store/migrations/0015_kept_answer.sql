-- Writes that a client may send again, and what the first was answered: sealed, since answers show new keys.
CREATE TABLE kept_answer (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT NOT NULL,
    request TEXT NOT NULL,
    answer TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX kept_answer_org ON kept_answer (org);
CREATE INDEX kept_answer_age ON kept_answer (created_at);
