-- When it was told that an alert is over.
ALTER TABLE alert_standing ADD COLUMN over_at BIGINT;
