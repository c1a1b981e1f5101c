-- Registers, written and read several at a time: the smallest application in which a reader can see
-- half of what a writer wrote (P. Bailis et al.: Scalable Atomic Visibility with RAMP Transactions,
-- section 1). Consecutive ids lie on different partitions.
CREATE TABLE registers (
    id    integer NOT NULL,
    value bigint  NOT NULL,
    PRIMARY KEY (id)
);
