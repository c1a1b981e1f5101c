-- Twitter: users, whom they follow, and what they say. After the benchmark of that name in OLTP-Bench.

CREATE TABLE user_profiles (
    uid       integer      NOT NULL,
    name      varchar(255) NOT NULL,
    followers integer      NOT NULL,
    PRIMARY KEY (uid)
);

CREATE TABLE follows (
    f1 integer NOT NULL,
    f2 integer NOT NULL,
    PRIMARY KEY (f1, f2),
    FOREIGN KEY (f1) REFERENCES user_profiles (uid),
    FOREIGN KEY (f2) REFERENCES user_profiles (uid)
);

CREATE TABLE tweets (
    id         bigint       GENERATED ALWAYS AS IDENTITY,
    uid        integer      NOT NULL,
    text       varchar(140) NOT NULL,
    createdate timestamp    NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY (uid) REFERENCES user_profiles (uid)
);

CREATE INDEX tweets_by_user ON tweets (uid);
