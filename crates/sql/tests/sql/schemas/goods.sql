CREATE TABLE goods (
    id integer PRIMARY KEY, name varchar(40) NOT NULL, net numeric(10, 2), live boolean NOT NULL DEFAULT true,
    gross numeric(12, 2) GENERATED ALWAYS AS (net * 1.2) STORED, label text GENERATED ALWAYS AS (lower(name) || '!') STORED UNIQUE
);
CREATE UNIQUE INDEX goods_name ON goods (lower(name));
CREATE INDEX goods_sum ON goods ((id + 1), (net IS NULL), coalesce(net, 0)) WHERE live;
CREATE UNIQUE INDEX goods_live ON goods (name, gross) WHERE live AND name <> 'x';
