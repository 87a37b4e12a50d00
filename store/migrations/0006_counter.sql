-- What limits have counted that outlives a process: written every second while something is counted.
CREATE TABLE counter (
    id TEXT NOT NULL,
    began BIGINT NOT NULL,
    -- Empty: one count for all nodes.
    node TEXT NOT NULL,
    ends BIGINT NOT NULL,
    measured TEXT NOT NULL,
    used BIGINT NOT NULL,
    holder TEXT NOT NULL,
    value_key TEXT NOT NULL,
    -- Which alert was sent: 1 of the threshold, 2 of the limit.
    told BIGINT NOT NULL,
    reset_at BIGINT,
    -- Grows with every writing transaction, so that nodes hear of what others wrote.
    tick BIGINT NOT NULL,
    PRIMARY KEY (id, began, node)
);
CREATE INDEX counter_holder ON counter (holder, value_key);
CREATE INDEX counter_tick ON counter (tick);
CREATE INDEX counter_ends ON counter (ends);
CREATE TABLE counter_clock (id BIGINT NOT NULL PRIMARY KEY, tick BIGINT NOT NULL);
INSERT INTO counter_clock (id, tick) VALUES (1, 0);
-- How far each segment of a node's journal is in the counts.
CREATE TABLE counter_place (
    node TEXT NOT NULL,
    segment BIGINT NOT NULL,
    place BIGINT NOT NULL,
    PRIMARY KEY (node, segment)
);
