-- What the gateway itself keeps for a workspace: files, batches. Their bytes are blobs; here is what is told of them.
CREATE TABLE owned_object (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT NOT NULL,
    workspace TEXT NOT NULL,
    kind TEXT NOT NULL,
    document TEXT NOT NULL,
    -- Grows with each change, so that of two changes of one state the second is told.
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX owned_object_list ON owned_object (workspace, kind, id);
CREATE INDEX owned_object_expires ON owned_object (expires_at);
