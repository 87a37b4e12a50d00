-- The gateway's own authorisation server: clients that registered by themselves, codes that are on their way or were spent, and
-- of each grant the number of its newest refresh token. No token and no code stands here, only digests of codes.
CREATE TABLE oauth_client (
    id TEXT NOT NULL PRIMARY KEY,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- When it was made or last used.
    touched_at BIGINT NOT NULL,
    -- 1 once somebody has signed in with it.
    is_used BIGINT NOT NULL
);
CREATE INDEX oauth_client_age ON oauth_client (is_used, touched_at);
CREATE INDEX oauth_client_touched ON oauth_client (touched_at);
CREATE TABLE oauth_code (
    id TEXT NOT NULL PRIMARY KEY,
    grant_id TEXT NOT NULL,
    org TEXT NOT NULL,
    asked TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    uses BIGINT NOT NULL
);
CREATE INDEX oauth_code_expires ON oauth_code (expires_at);
CREATE TABLE oauth_grant (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT NOT NULL,
    number BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX oauth_grant_expires ON oauth_grant (expires_at);
