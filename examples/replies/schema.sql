-- Comments and what is replied to them: the smallest application in which a read can return a reply
-- and miss the comment that it answers (P. Bailis et al.: Scalable Atomic Visibility with RAMP Transactions,
-- section 4.7). Consecutive ids lie on different partitions.
CREATE TABLE posts (
    id   integer NOT NULL,
    body bigint  NOT NULL,
    PRIMARY KEY (id)
);
