-- What people and guardrails think of calls, by trace. Values in thousandths, weights in millionths.
CREATE TABLE feedback (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT NOT NULL,
    workspace TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    value BIGINT NOT NULL,
    weight BIGINT NOT NULL,
    metadata TEXT NOT NULL,
    model TEXT NOT NULL,
    source TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX feedback_place ON feedback (org, workspace, created_at);
CREATE INDEX feedback_trace ON feedback (trace_id, workspace);
CREATE INDEX feedback_age ON feedback (created_at);
