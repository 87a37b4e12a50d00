-- What the request was answered with: changes that were refused are told too.

ALTER TABLE audit ADD COLUMN status BIGINT NOT NULL DEFAULT 200;
