-- Whose the objects are that a provider keeps, where workspaces share a credential.
CREATE TABLE kept_object (
    workspace TEXT NOT NULL,
    -- Made of what keeps the object and of what that calls it.
    mark TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (workspace, mark)
);
CREATE INDEX kept_object_newest ON kept_object (workspace, created_at, mark);
CREATE INDEX kept_object_expires ON kept_object (expires_at);
