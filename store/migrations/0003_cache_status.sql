-- What the response cache did for the call.

ALTER TABLE log_record ADD COLUMN cache_status TEXT NOT NULL DEFAULT 'DISABLED';
