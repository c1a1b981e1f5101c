-- Comments and what is replied to them: the smallest application in which somebody can see a reply and
-- not the comment that it answers (P. Bailis et al.: Scalable Atomic Visibility with RAMP Transactions,
-- section 4.7). Consecutive ids lie on different partitions.
CREATE TABLE posts (
    id   integer NOT NULL,
    body bigint  NOT NULL,
    PRIMARY KEY (id)
);
