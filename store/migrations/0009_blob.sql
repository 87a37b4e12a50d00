-- Large bytes as pieces, each sealed with the key of its blob, which is sealed with the master key.
CREATE TABLE blob (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT NOT NULL,
    kind TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    whole BIGINT NOT NULL,
    sealed_key TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT
);
CREATE INDEX blob_org ON blob (org, kind, created_at, id);
CREATE INDEX blob_expires ON blob (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX blob_begun ON blob (created_at) WHERE whole = 0;
CREATE TABLE blob_piece (
    blob TEXT NOT NULL,
    place BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    sealed TEXT NOT NULL,
    PRIMARY KEY (blob, place)
);
-- What each organisation keeps, so that its bound needs no sum over all of it.
CREATE TABLE blob_use (
    org TEXT NOT NULL PRIMARY KEY,
    blobs BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);
