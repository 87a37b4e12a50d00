-- Pieces of blobs may lie in object storage: the row then holds the name of the object, and no bytes.
ALTER TABLE blob_piece ADD COLUMN object TEXT;
-- Objects that no piece names: about to be written until `due`, or doomed, which none can be named after.
CREATE TABLE blob_unnamed (
    object TEXT NOT NULL PRIMARY KEY,
    due BIGINT NOT NULL,
    doomed BIGINT NOT NULL
);
CREATE INDEX blob_unnamed_due ON blob_unnamed (due);
