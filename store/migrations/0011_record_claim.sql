-- Names of records that clients sent, so that one which is sent again is the same record.
CREATE TABLE record_claim (
    id TEXT NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL
);
CREATE INDEX record_claim_age ON record_claim (created_at);
