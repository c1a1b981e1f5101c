-- AuctionMark: an auction house. After the benchmark of that name in OLTP-Bench, reduced to what its
-- purchases touch.

CREATE TABLE useracct (
    u_id      bigint         NOT NULL,
    u_balance numeric(12, 2) NOT NULL,
    PRIMARY KEY (u_id)
);

-- i_status: 0 open, 1 waiting for the purchase, 2 closed.
CREATE TABLE item (
    i_u_id          bigint         NOT NULL,
    i_id            bigint         NOT NULL,
    i_current_price numeric(12, 2) NOT NULL,
    i_num_bids      bigint         NOT NULL CHECK (i_num_bids >= 0),
    i_status        smallint       NOT NULL CHECK (i_status IN (0, 1, 2)),
    PRIMARY KEY (i_u_id, i_id),
    FOREIGN KEY (i_u_id) REFERENCES useracct (u_id)
);

CREATE TABLE item_bid (
    ib_id       uuid           NOT NULL DEFAULT gen_random_uuid(),
    ib_u_id     bigint         NOT NULL,
    ib_i_id     bigint         NOT NULL,
    ib_buyer_id bigint         NOT NULL,
    ib_bid      numeric(12, 2) NOT NULL,
    PRIMARY KEY (ib_id),
    FOREIGN KEY (ib_u_id, ib_i_id) REFERENCES item (i_u_id, i_id),
    FOREIGN KEY (ib_buyer_id) REFERENCES useracct (u_id)
);

CREATE INDEX item_bid_by_item ON item_bid (ib_u_id, ib_i_id);

-- An item is purchased once: its purchases are numbered from 1 in the order in which they come.
CREATE TABLE item_purchase (
    ip_u_id bigint    NOT NULL,
    ip_i_id bigint    NOT NULL,
    ip_id   bigint    NOT NULL,
    ip_ib_id uuid     NOT NULL,
    ip_date timestamp NOT NULL,
    PRIMARY KEY (ip_u_id, ip_i_id, ip_id),
    FOREIGN KEY (ip_u_id, ip_i_id) REFERENCES item (i_u_id, i_id),
    FOREIGN KEY (ip_ib_id) REFERENCES item_bid (ib_id)
);
