-- Work that outlives its request. An open job has one time: when it is due, or when the lease of its run ends.
CREATE TABLE job (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    org TEXT NOT NULL,
    state TEXT NOT NULL,
    payload TEXT NOT NULL,
    progress TEXT NOT NULL,
    note TEXT NOT NULL,
    tries BIGINT NOT NULL,
    most_tries BIGINT NOT NULL,
    -- Of the run that holds it; another run has another.
    token TEXT,
    cancelled BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX job_due ON job (due_at) WHERE ended_at IS NULL;
CREATE INDEX job_open ON job (org, kind) WHERE ended_at IS NULL;
CREATE INDEX job_ended ON job (ended_at) WHERE ended_at IS NOT NULL;
