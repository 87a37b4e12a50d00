-- How alert rules stand: when each was looked at, what was found, and when it was last told.
CREATE TABLE alert_standing (
    rule TEXT NOT NULL PRIMARY KEY,
    checked_at BIGINT NOT NULL,
    value TEXT,
    fired_at BIGINT
);
CREATE INDEX alert_standing_age ON alert_standing (checked_at);
