-- Place in a trace that spans services, and what is kept of messages; both JSON, both mostly absent.

ALTER TABLE log_record ADD COLUMN trace TEXT;
ALTER TABLE log_record ADD COLUMN bodies TEXT;
