-- The five transactions of TPC-C (clause 2), each one function call.
--
-- Parameters begin with p_. What a terminal displays comes back in OUT parameters. Times are
-- parameters, so that the same call gives the same rows everywhere.

-- 2.4 New-Order: a customer orders 5 to 15 items, each from a warehouse of its own choice.
--
-- The three arrays give one line of the order each: item, supplying warehouse, quantity. The
-- items are distinct and in ascending order: so no two rows of stock are the same, and concurrent
-- orders lock them in one order.
--
-- 1% of the orders name an item that does not exist (2.4.1.4) and roll back (2.4.2.3): SQLSTATE
-- TPCC1.
--
-- anabranch: keeps condition_2, condition_3, condition_4, condition_5, condition_6, condition_7
CREATE FUNCTION new_order(
    p_w_id         integer,
    p_d_id         integer,
    p_c_id         integer,
    p_entry_d      timestamp,
    p_item_ids     integer[],
    p_supply_w_ids integer[],
    p_quantities   integer[],
    OUT order_id      integer,
    OUT total_amount  numeric,
    OUT warehouse_tax numeric,
    OUT district_tax  numeric,
    OUT discount      numeric,
    OUT last_name     varchar(16),
    OUT credit        char(2)
) LANGUAGE plpgsql AS $$
DECLARE
    lines_found bigint;
    prices      numeric[];
BEGIN
    SELECT w_tax INTO STRICT warehouse_tax
    FROM warehouse
    WHERE w_id = p_w_id;

    SELECT d_tax INTO STRICT district_tax
    FROM district
    WHERE d_w_id = p_w_id AND d_id = p_d_id;

    SELECT c_discount, c_last, c_credit INTO STRICT discount, last_name, credit
    FROM customer
    WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;

    SELECT count(*), sum(i_price * l.quantity), array_agg(i_price ORDER BY l.number)
    INTO lines_found, total_amount, prices
    FROM unnest(p_item_ids, p_quantities) WITH ORDINALITY AS l (item_id, quantity, number)
    JOIN item ON i_id = l.item_id;

    IF lines_found < cardinality(p_item_ids) THEN
        RAISE EXCEPTION 'Item number is not valid' USING ERRCODE = 'TPCC1';
    END IF;

    total_amount := total_amount * (1 - discount) * (1 + warehouse_tax + district_tax);

    UPDATE district
    SET d_next_o_id = d_next_o_id + 1
    WHERE d_w_id = p_w_id AND d_id = p_d_id
    RETURNING d_next_o_id - 1 INTO order_id;

    INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (p_w_id, p_d_id, order_id, p_c_id, p_entry_d, cardinality(p_item_ids),
            CASE WHEN p_w_id = ALL (p_supply_w_ids) THEN 1 ELSE 0 END);

    INSERT INTO new_order (no_w_id, no_d_id, no_o_id)
    VALUES (p_w_id, p_d_id, order_id);

    INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id,
                            ol_quantity, ol_amount, ol_dist_info)
    SELECT p_w_id, p_d_id, order_id, l.number, l.item_id, l.supply_w_id,
           l.quantity, l.price * l.quantity,
           CASE p_d_id
               WHEN 1 THEN s_dist_01
               WHEN 2 THEN s_dist_02
               WHEN 3 THEN s_dist_03
               WHEN 4 THEN s_dist_04
               WHEN 5 THEN s_dist_05
               WHEN 6 THEN s_dist_06
               WHEN 7 THEN s_dist_07
               WHEN 8 THEN s_dist_08
               WHEN 9 THEN s_dist_09
               WHEN 10 THEN s_dist_10
           END
    FROM unnest(p_item_ids, p_supply_w_ids, p_quantities, prices) WITH ORDINALITY
        AS l (item_id, supply_w_id, quantity, price, number)
    JOIN stock ON s_w_id = l.supply_w_id AND s_i_id = l.item_id;

    UPDATE stock
    SET s_quantity = CASE
            WHEN s_quantity >= l.quantity + 10 THEN s_quantity - l.quantity
            ELSE s_quantity - l.quantity + 91
        END,
        s_ytd = s_ytd + l.quantity,
        s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + CASE WHEN l.supply_w_id = p_w_id THEN 0 ELSE 1 END
    FROM unnest(p_item_ids, p_supply_w_ids, p_quantities) AS l (item_id, supply_w_id, quantity)
    WHERE s_w_id = l.supply_w_id AND s_i_id = l.item_id;
END;
$$;

-- 2.5 Payment: a customer, who may belong to another warehouse, pays at a district.
--
-- The customer is given by number, or by last name where p_c_id is NULL (60% of the calls): of n
-- customers of that name the one at place ceil(n / 2), in the order of first names (2.5.2.2).
--
-- anabranch: keeps condition_1, condition_8, condition_9, condition_10, condition_12
CREATE FUNCTION payment(
    p_w_id   integer,
    p_d_id   integer,
    p_c_w_id integer,
    p_c_d_id integer,
    p_c_id   integer,
    p_c_last varchar(16),
    p_amount numeric,
    p_date   timestamp,
    OUT warehouse_name     varchar(10),
    OUT warehouse_street_1 varchar(20),
    OUT warehouse_street_2 varchar(20),
    OUT warehouse_city     varchar(20),
    OUT warehouse_state    char(2),
    OUT warehouse_zip      char(9),
    OUT district_name      varchar(10),
    OUT district_street_1  varchar(20),
    OUT district_street_2  varchar(20),
    OUT district_city      varchar(20),
    OUT district_state     char(2),
    OUT district_zip       char(9),
    OUT customer_id        integer,
    OUT first_name         varchar(16),
    OUT middle_name        char(2),
    OUT last_name          varchar(16),
    OUT street_1           varchar(20),
    OUT street_2           varchar(20),
    OUT city               varchar(20),
    OUT state              char(2),
    OUT zip                char(9),
    OUT phone              char(16),
    OUT since              timestamp,
    OUT credit             char(2),
    OUT credit_limit       numeric,
    OUT discount           numeric,
    OUT balance            numeric,
    OUT data               varchar(200)
) LANGUAGE plpgsql AS $$
DECLARE
    namesakes bigint;
BEGIN
    SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip
    INTO STRICT warehouse_name, warehouse_street_1, warehouse_street_2, warehouse_city,
        warehouse_state, warehouse_zip
    FROM warehouse
    WHERE w_id = p_w_id;

    SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip
    INTO STRICT district_name, district_street_1, district_street_2, district_city,
        district_state, district_zip
    FROM district
    WHERE d_w_id = p_w_id AND d_id = p_d_id;

    customer_id := p_c_id;
    IF customer_id IS NULL THEN
        SELECT count(*) INTO namesakes
        FROM customer
        WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last;

        SELECT c_id INTO STRICT customer_id
        FROM customer
        WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last
        ORDER BY c_first, c_id
        LIMIT 1 OFFSET (namesakes - 1) / 2;
    END IF;

    SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone,
           c_since, c_credit, c_credit_lim, c_discount
    INTO STRICT first_name, middle_name, last_name, street_1, street_2, city, state, zip, phone,
        since, credit, credit_limit, discount
    FROM customer
    WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = customer_id;

    UPDATE warehouse
    SET w_ytd = w_ytd + p_amount
    WHERE w_id = p_w_id;

    UPDATE district
    SET d_ytd = d_ytd + p_amount
    WHERE d_w_id = p_w_id AND d_id = p_d_id;

    -- 2.5.2.2: for bad credit, the payment is written at the left end of c_data.
    UPDATE customer
    SET c_balance = c_balance - p_amount,
        c_ytd_payment = c_ytd_payment + p_amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE c_credit
            WHEN 'BC' THEN left(c_id || ' ' || c_d_id || ' ' || c_w_id || ' ' || p_d_id || ' '
                                || p_w_id || ' ' || p_amount || '|' || c_data, 500)
            ELSE c_data
        END
    WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = customer_id
    RETURNING c_balance, CASE c_credit WHEN 'BC' THEN left(c_data, 200) END
    INTO balance, data;

    INSERT INTO history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount, h_data)
    VALUES (p_c_w_id, p_c_d_id, customer_id, p_w_id, p_d_id, p_date, p_amount,
            warehouse_name || '    ' || district_name);
END;
$$;

-- 2.6 Order-Status: a customer's latest order, one row a line, the customer's and the order's
-- columns repeated in each. The customer is given as to payment.
--
-- STABLE: all of its statements see one snapshot.
CREATE FUNCTION order_status(
    p_w_id   integer,
    p_d_id   integer,
    p_c_id   integer,
    p_c_last varchar(16)
) RETURNS TABLE (
    customer_id         integer,
    first_name          varchar(16),
    middle_name         char(2),
    last_name           varchar(16),
    balance             numeric,
    order_id            integer,
    entry_date          timestamp,
    carrier_id          integer,
    item_id             integer,
    supply_warehouse_id integer,
    quantity            integer,
    amount              numeric,
    delivery_date       timestamp
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    namesakes bigint;
BEGIN
    customer_id := p_c_id;
    IF customer_id IS NULL THEN
        SELECT count(*) INTO namesakes
        FROM customer
        WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last;

        SELECT c_id INTO STRICT customer_id
        FROM customer
        WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last
        ORDER BY c_first, c_id
        LIMIT 1 OFFSET (namesakes - 1) / 2;
    END IF;

    SELECT max(o_id) INTO order_id
    FROM orders
    WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_c_id = customer_id;

    RETURN QUERY
    SELECT c_id, c_first, c_middle, c_last, c_balance,
           o_id, o_entry_d, o_carrier_id,
           ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
    FROM customer
    JOIN orders ON o_w_id = c_w_id AND o_d_id = c_d_id
    JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = customer_id AND o_id = order_id
    ORDER BY ol_number;
END;
$$;

-- 2.7 Delivery: in each of a warehouse's districts, delivers the oldest order that awaits it and
-- charges its customer. A district without such an order is skipped (2.7.4.2).
--
-- anabranch: keeps condition_2, condition_3, condition_5, condition_7, condition_10, condition_11
-- anabranch: keeps condition_12
CREATE FUNCTION delivery(
    p_w_id       integer,
    p_carrier_id integer,
    p_delivery_d timestamp,
    OUT delivered integer
) LANGUAGE plpgsql AS $$
DECLARE
    order_id    integer;
    customer_id integer;
    amount      numeric;
BEGIN
    -- An order without a carrier would count as not delivered (3.3.2.5, 3.3.2.7).
    IF p_carrier_id IS NULL OR p_delivery_d IS NULL THEN
        RAISE EXCEPTION 'A delivery has a carrier and a time' USING ERRCODE = '22004';
    END IF;
    delivered := 0;
    FOR district_id IN 1..10 LOOP
        SELECT min(no_o_id) INTO order_id
        FROM new_order
        WHERE no_w_id = p_w_id AND no_d_id = district_id;

        DELETE FROM new_order
        WHERE no_w_id = p_w_id AND no_d_id = district_id AND no_o_id = order_id;

        -- Not found: none awaits delivery, or another delivery has just taken it.
        IF FOUND THEN
            UPDATE orders
            SET o_carrier_id = p_carrier_id
            WHERE o_w_id = p_w_id AND o_d_id = district_id AND o_id = order_id
            RETURNING o_c_id INTO customer_id;

            UPDATE order_line
            SET ol_delivery_d = p_delivery_d
            WHERE ol_w_id = p_w_id AND ol_d_id = district_id AND ol_o_id = order_id;

            SELECT sum(ol_amount) INTO amount
            FROM order_line
            WHERE ol_w_id = p_w_id AND ol_d_id = district_id AND ol_o_id = order_id;

            UPDATE customer
            SET c_balance = c_balance + amount,
                c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = p_w_id AND c_d_id = district_id AND c_id = customer_id;

            delivered := delivered + 1;
        END IF;
    END LOOP;
END;
$$;

-- 2.8 Stock-Level: of the items in a district's last twenty orders, how many its warehouse has
-- fewer of than a threshold.
CREATE FUNCTION stock_level(
    p_w_id      integer,
    p_d_id      integer,
    p_threshold integer
) RETURNS bigint
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT count(DISTINCT s_i_id)
    FROM district
    JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id
                   AND ol_o_id BETWEEN d_next_o_id - 20 AND d_next_o_id - 1
    JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
    WHERE d_w_id = p_w_id AND d_id = p_d_id AND s_quantity < p_threshold;
END;
