-- The twelve consistency conditions of TPC-C, clauses 3.3.2.1 to 3.3.2.12: they hold in the
-- initial database and after every committed transaction.
--
-- CREATE ASSERTION is SQL-92's; PostgreSQL has not got it. There each CHECK can be evaluated by
-- hand: SELECT (...).

-- 3.3.2.1: W_YTD = sum(D_YTD), for each warehouse.
CREATE ASSERTION condition_1 CHECK (
    NOT EXISTS (
        SELECT *
        FROM warehouse
        WHERE w_ytd <> (SELECT coalesce(sum(d_ytd), 0) FROM district WHERE d_w_id = w_id)
    )
);

-- 3.3.2.2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID), for each district; max(NO_O_ID) is left
-- out where no order awaits delivery: it is NULL there, and so is the comparison.
CREATE ASSERTION condition_2 CHECK (
    NOT EXISTS (
        SELECT *
        FROM district
        WHERE d_next_o_id - 1 <> (SELECT coalesce(max(o_id), 0) FROM orders
                                  WHERE o_w_id = d_w_id AND o_d_id = d_id)
           OR d_next_o_id - 1 <> (SELECT max(no_o_id) FROM new_order
                                  WHERE no_w_id = d_w_id AND no_d_id = d_id)
    )
);

-- 3.3.2.3: max(NO_O_ID) - min(NO_O_ID) + 1 = the rows of NEW-ORDER, for each district where
-- there are any.
CREATE ASSERTION condition_3 CHECK (
    NOT EXISTS (
        SELECT *
        FROM district
        WHERE (SELECT max(no_o_id) - min(no_o_id) + 1 FROM new_order
               WHERE no_w_id = d_w_id AND no_d_id = d_id)
           <> (SELECT count(*) FROM new_order
               WHERE no_w_id = d_w_id AND no_d_id = d_id)
    )
);

-- 3.3.2.4: sum(O_OL_CNT) = the rows of ORDER-LINE, for each district.
CREATE ASSERTION condition_4 CHECK (
    NOT EXISTS (
        SELECT *
        FROM district
        WHERE (SELECT coalesce(sum(o_ol_cnt), 0) FROM orders
               WHERE o_w_id = d_w_id AND o_d_id = d_id)
           <> (SELECT count(*) FROM order_line
               WHERE ol_w_id = d_w_id AND ol_d_id = d_id)
    )
);

-- 3.3.2.5: O_CARRIER_ID is NULL if and only if the order has a row in NEW-ORDER.
CREATE ASSERTION condition_5 CHECK (
    NOT EXISTS (
        SELECT *
        FROM orders
        WHERE (o_carrier_id IS NULL)
           <> EXISTS (SELECT * FROM new_order
                      WHERE no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id)
    )
);

-- 3.3.2.6: O_OL_CNT = the rows of ORDER-LINE, for each order.
CREATE ASSERTION condition_6 CHECK (
    NOT EXISTS (
        SELECT *
        FROM orders
        WHERE o_ol_cnt <> (SELECT count(*) FROM order_line
                           WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id)
    )
);

-- 3.3.2.7: OL_DELIVERY_D is NULL if and only if O_CARRIER_ID is, for each line of each order.
CREATE ASSERTION condition_7 CHECK (
    NOT EXISTS (
        SELECT *
        FROM orders
        JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
        WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)
    )
);

-- 3.3.2.8: W_YTD = sum(H_AMOUNT), for each warehouse.
CREATE ASSERTION condition_8 CHECK (
    NOT EXISTS (
        SELECT *
        FROM warehouse
        WHERE w_ytd <> (SELECT coalesce(sum(h_amount), 0) FROM history WHERE h_w_id = w_id)
    )
);

-- 3.3.2.9: D_YTD = sum(H_AMOUNT), for each district.
CREATE ASSERTION condition_9 CHECK (
    NOT EXISTS (
        SELECT *
        FROM district
        WHERE d_ytd <> (SELECT coalesce(sum(h_amount), 0) FROM history
                        WHERE h_w_id = d_w_id AND h_d_id = d_id)
    )
);

-- 3.3.2.10: C_BALANCE = sum(OL_AMOUNT) of the lines delivered - sum(H_AMOUNT), for each customer.
CREATE ASSERTION condition_10 CHECK (
    NOT EXISTS (
        SELECT *
        FROM customer
        WHERE c_balance
           <> (SELECT coalesce(sum(ol_amount), 0)
               FROM orders
               JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
               WHERE o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
                 AND ol_delivery_d IS NOT NULL)
            - (SELECT coalesce(sum(h_amount), 0)
               FROM history
               WHERE h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id)
    )
);

-- 3.3.2.11: the rows of ORDER - the rows of NEW-ORDER = the orders delivered, for each district.
-- The specification states it for the initial database alone, where 2100 orders of each district
-- are delivered; those delivered have a carrier, then and ever after.
CREATE ASSERTION condition_11 CHECK (
    NOT EXISTS (
        SELECT *
        FROM district
        WHERE (SELECT count(*) FROM orders
               WHERE o_w_id = d_w_id AND o_d_id = d_id)
            - (SELECT count(*) FROM new_order
               WHERE no_w_id = d_w_id AND no_d_id = d_id)
           <> (SELECT count(*) FROM orders
               WHERE o_w_id = d_w_id AND o_d_id = d_id AND o_carrier_id IS NOT NULL)
    )
);

-- 3.3.2.12: C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) of the lines delivered, for each customer.
CREATE ASSERTION condition_12 CHECK (
    NOT EXISTS (
        SELECT *
        FROM customer
        WHERE c_balance + c_ytd_payment
           <> (SELECT coalesce(sum(ol_amount), 0)
               FROM orders
               JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
               WHERE o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
                 AND ol_delivery_d IS NOT NULL)
    )
);
