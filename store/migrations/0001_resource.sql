-- The configuration: documents, their history, who changed them. The same text runs on SQLite and Postgres.

CREATE TABLE meta (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    revision BIGINT NOT NULL,
    key_check TEXT NOT NULL
);

INSERT INTO meta (id, revision, key_check) VALUES (1, 0, '');

CREATE TABLE resource (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    org TEXT NOT NULL,
    workspace TEXT NOT NULL,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    owner TEXT,
    schema BIGINT NOT NULL,
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    doc TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    PRIMARY KEY (kind, id)
);

-- What has no slug (an empty one) is not held to be unique by it.
CREATE UNIQUE INDEX resource_slug ON resource (kind, org, workspace, slug) WHERE deleted_at IS NULL AND slug <> '';
CREATE INDEX resource_revision ON resource (revision);
CREATE INDEX resource_listing ON resource (kind, org, created_at) WHERE deleted_at IS NULL;

CREATE TABLE resource_version (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    version BIGINT NOT NULL,
    version_id TEXT NOT NULL,
    author TEXT,
    doc TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (kind, id, version)
);

CREATE TABLE audit (
    id TEXT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    org TEXT NOT NULL,
    workspace TEXT NOT NULL,
    actor TEXT NOT NULL,
    actor_kind TEXT NOT NULL,
    action TEXT NOT NULL,
    resource_kind TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    method TEXT NOT NULL,
    uri TEXT NOT NULL,
    client_ip TEXT NOT NULL,
    details TEXT NOT NULL
);

CREATE INDEX audit_org ON audit (org, at);
