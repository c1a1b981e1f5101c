-- Voter: viewers of a show vote by telephone for its contestants. After the benchmark of that name in
-- OLTP-Bench (D. E. Difallah et al., VLDB 2013).

CREATE TABLE contestants (
    contestant_number integer     NOT NULL,
    contestant_name   varchar(50) NOT NULL,
    PRIMARY KEY (contestant_number)
);

CREATE TABLE area_code_state (
    area_code smallint   NOT NULL,
    state     varchar(2) NOT NULL,
    PRIMARY KEY (area_code)
);

-- One row a vote. The benchmark numbers votes at the client; here the database does.
CREATE TABLE votes (
    vote_id           uuid       NOT NULL DEFAULT gen_random_uuid(),
    phone_number      bigint     NOT NULL,
    state             varchar(2) NOT NULL,
    contestant_number integer    NOT NULL,
    created           timestamp  NOT NULL,
    PRIMARY KEY (vote_id),
    FOREIGN KEY (contestant_number) REFERENCES contestants (contestant_number)
);

CREATE INDEX votes_by_phone ON votes (phone_number);
