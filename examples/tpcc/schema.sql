-- TPC-C: a wholesale supplier with warehouses, ten districts to a warehouse and three thousand
-- customers to a district. Clause numbers are those of the TPC Benchmark C specification,
-- revision 5.11; clause 1.3 gives the tables and their columns.
--
-- Every key begins with the warehouse, so a table split by its first key column puts a warehouse,
-- and nearly every transaction, on one partition. Only `item` belongs to no warehouse: it is
-- never written after loading.
--
-- Columns are NOT NULL but for the two that the specification leaves empty until an order is
-- delivered: o_carrier_id and ol_delivery_d.

-- 1.3.1 WAREHOUSE. w_ytd is what its customers have paid (conditions 1 and 8).
CREATE TABLE warehouse (
    w_id        integer        NOT NULL,
    w_name      varchar(10)    NOT NULL,
    w_street_1  varchar(20)    NOT NULL,
    w_street_2  varchar(20)    NOT NULL,
    w_city      varchar(20)    NOT NULL,
    w_state     char(2)        NOT NULL,
    w_zip       char(9)        NOT NULL,
    w_tax       numeric(4, 4)  NOT NULL CHECK (w_tax >= 0),
    w_ytd       numeric(12, 2) NOT NULL,
    PRIMARY KEY (w_id)
);

-- 1.3.1 DISTRICT. d_next_o_id is the number of its next order (conditions 2 and 3).
CREATE TABLE district (
    d_w_id      integer        NOT NULL,
    d_id        integer        NOT NULL CHECK (d_id BETWEEN 1 AND 10),
    d_name      varchar(10)    NOT NULL,
    d_street_1  varchar(20)    NOT NULL,
    d_street_2  varchar(20)    NOT NULL,
    d_city      varchar(20)    NOT NULL,
    d_state     char(2)        NOT NULL,
    d_zip       char(9)        NOT NULL,
    d_tax       numeric(4, 4)  NOT NULL CHECK (d_tax >= 0),
    d_ytd       numeric(12, 2) NOT NULL,
    d_next_o_id integer        NOT NULL,
    PRIMARY KEY (d_w_id, d_id),
    FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id)
);

-- 1.3.1 CUSTOMER. c_credit is good or bad; Payment keeps a log in c_data of those whose is bad.
CREATE TABLE customer (
    c_w_id         integer        NOT NULL,
    c_d_id         integer        NOT NULL,
    c_id           integer        NOT NULL,
    c_first        varchar(16)    NOT NULL,
    c_middle       char(2)        NOT NULL,
    c_last         varchar(16)    NOT NULL,
    c_street_1     varchar(20)    NOT NULL,
    c_street_2     varchar(20)    NOT NULL,
    c_city         varchar(20)    NOT NULL,
    c_state        char(2)        NOT NULL,
    c_zip          char(9)        NOT NULL,
    c_phone        char(16)       NOT NULL,
    c_since        timestamp      NOT NULL,
    c_credit       char(2)        NOT NULL CHECK (c_credit IN ('GC', 'BC')),
    c_credit_lim   numeric(12, 2) NOT NULL,
    c_discount     numeric(4, 4)  NOT NULL CHECK (c_discount >= 0),
    c_balance      numeric(12, 2) NOT NULL,
    c_ytd_payment  numeric(12, 2) NOT NULL,
    c_payment_cnt  integer        NOT NULL,
    c_delivery_cnt integer        NOT NULL,
    c_data         varchar(500)   NOT NULL,
    PRIMARY KEY (c_w_id, c_d_id, c_id),
    FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)
);

-- 2.5.2.2 and 2.6.2.2 look customers up by last name, in the order of their first names.
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);

-- 1.3.1 HISTORY: one row a payment, never read by a transaction; the specification gives it no
-- primary key. The first three columns name the customer, the next two where the payment was
-- made, which for 15% of the payments is another warehouse (2.5.1.2).
CREATE TABLE history (
    h_c_w_id integer       NOT NULL,
    h_c_d_id integer       NOT NULL,
    h_c_id   integer       NOT NULL,
    h_w_id   integer       NOT NULL,
    h_d_id   integer       NOT NULL,
    h_date   timestamp     NOT NULL,
    h_amount numeric(6, 2) NOT NULL,
    h_data   varchar(24)   NOT NULL,
    FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id),
    FOREIGN KEY (h_w_id, h_d_id) REFERENCES district (d_w_id, d_id)
);

-- Conditions 8 to 10 add up the payments made at a district and those of a customer.
CREATE INDEX history_by_district ON history (h_w_id, h_d_id);
CREATE INDEX history_by_customer ON history (h_c_w_id, h_c_d_id, h_c_id);

-- 1.3.1 ORDER (a reserved word, hence the plural). o_carrier_id is NULL until delivery.
CREATE TABLE orders (
    o_w_id       integer   NOT NULL,
    o_d_id       integer   NOT NULL,
    o_id         integer   NOT NULL,
    o_c_id       integer   NOT NULL,
    o_entry_d    timestamp NOT NULL,
    o_carrier_id integer   CHECK (o_carrier_id BETWEEN 1 AND 10),
    o_ol_cnt     integer   NOT NULL CHECK (o_ol_cnt BETWEEN 5 AND 15),
    o_all_local  integer   NOT NULL CHECK (o_all_local IN (0, 1)),
    PRIMARY KEY (o_w_id, o_d_id, o_id),
    FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)
);

-- 2.6.2.2 looks up a customer's latest order.
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);

-- 1.3.1 NEW-ORDER: the orders that await delivery.
CREATE TABLE new_order (
    no_w_id integer NOT NULL,
    no_d_id integer NOT NULL,
    no_o_id integer NOT NULL,
    PRIMARY KEY (no_w_id, no_d_id, no_o_id),
    FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)
);

-- 1.3.1 ITEM: the catalogue, the same for every warehouse, one hundred thousand rows.
CREATE TABLE item (
    i_id    integer       NOT NULL,
    i_im_id integer       NOT NULL,
    i_name  varchar(24)   NOT NULL,
    i_price numeric(5, 2) NOT NULL CHECK (i_price > 0),
    i_data  varchar(50)   NOT NULL,
    PRIMARY KEY (i_id)
);

-- 1.3.1 STOCK: what a warehouse has of each item. s_dist_NN is printed on the order lines of
-- district NN.
CREATE TABLE stock (
    s_w_id       integer     NOT NULL,
    s_i_id       integer     NOT NULL,
    s_quantity   integer     NOT NULL,
    s_dist_01    char(24)    NOT NULL,
    s_dist_02    char(24)    NOT NULL,
    s_dist_03    char(24)    NOT NULL,
    s_dist_04    char(24)    NOT NULL,
    s_dist_05    char(24)    NOT NULL,
    s_dist_06    char(24)    NOT NULL,
    s_dist_07    char(24)    NOT NULL,
    s_dist_08    char(24)    NOT NULL,
    s_dist_09    char(24)    NOT NULL,
    s_dist_10    char(24)    NOT NULL,
    s_ytd        integer     NOT NULL,
    s_order_cnt  integer     NOT NULL,
    s_remote_cnt integer     NOT NULL,
    s_data       varchar(50) NOT NULL,
    PRIMARY KEY (s_w_id, s_i_id),
    FOREIGN KEY (s_w_id) REFERENCES warehouse (w_id),
    FOREIGN KEY (s_i_id) REFERENCES item (i_id)
);

-- 1.3.1 ORDER-LINE. ol_supply_w_id is the warehouse that supplies the line, for 1% of the lines
-- another than the order's (2.4.1.5). ol_delivery_d is NULL until delivery.
CREATE TABLE order_line (
    ol_w_id        integer       NOT NULL,
    ol_d_id        integer       NOT NULL,
    ol_o_id        integer       NOT NULL,
    ol_number      integer       NOT NULL,
    ol_i_id        integer       NOT NULL,
    ol_supply_w_id integer       NOT NULL,
    ol_delivery_d  timestamp,
    ol_quantity    integer       NOT NULL CHECK (ol_quantity > 0),
    ol_amount      numeric(6, 2) NOT NULL CHECK (ol_amount >= 0),
    ol_dist_info   char(24)      NOT NULL,
    PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number),
    FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id),
    FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES stock (s_w_id, s_i_id)
);
