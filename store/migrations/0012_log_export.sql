-- Exports of records as they were asked for. What becomes of one stands with its job.
CREATE TABLE log_export (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT NOT NULL,
    workspace TEXT NOT NULL,
    created_by TEXT NOT NULL,
    description TEXT NOT NULL,
    filters TEXT NOT NULL,
    fields TEXT NOT NULL,
    format TEXT NOT NULL,
    total BIGINT NOT NULL,
    job TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX log_export_org ON log_export (org, workspace, created_at);
CREATE INDEX log_export_age ON log_export (updated_at);
