-- Counters and the entries that they count, on different partitions: the sum of a counter's entries
-- is its total, in every read. Increments commute, so a total may include an increment and not
-- the one before it; a protocol that decides by timestamps alone what a total includes is wrong.
CREATE TABLE counters (
    id    integer NOT NULL,
    total bigint  NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE entries (
    site       integer NOT NULL,
    number     bigint  NOT NULL,
    counter_id integer NOT NULL,
    amount     bigint  NOT NULL,
    PRIMARY KEY (site, number),
    FOREIGN KEY (counter_id) REFERENCES counters (id)
);

CREATE INDEX entries_by_counter ON entries (counter_id);
