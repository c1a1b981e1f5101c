-- The table of the Yahoo! Cloud Serving Benchmark (B. F. Cooper et al.: Benchmarking Cloud Serving
-- Systems with YCSB, SoCC 2010). Keys are numbers, without YCSB's prefix "user"; a record's ten fields
-- of a hundred bytes are one field, of whatever size. Consecutive keys lie on different partitions.
CREATE TABLE usertable (
    ycsb_key bigint NOT NULL,
    field0   text   NOT NULL,
    PRIMARY KEY (ycsb_key)
);
