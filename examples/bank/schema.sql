-- A bank: accounts, and transfers between them that neither make money nor lose it.
CREATE TABLE branches (
    id    integer NOT NULL,
    funds bigint  NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE accounts (
    branch_id integer NOT NULL,
    id        integer NOT NULL,
    balance   bigint  NOT NULL,
    PRIMARY KEY (branch_id, id),
    FOREIGN KEY (branch_id) REFERENCES branches (id),
    CONSTRAINT solvent CHECK (balance >= 0)
);
