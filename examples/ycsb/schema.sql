-- The table of the Yahoo! Cloud Serving Benchmark (B. F. Cooper et al.: Benchmarking Cloud Serving
-- Systems with YCSB, SoCC 2010), with numbers for keys and one small field. Consecutive keys lie on
-- different partitions.
CREATE TABLE usertable (
    ycsb_key integer NOT NULL,
    field0   bigint  NOT NULL,
    PRIMARY KEY (ycsb_key)
);
