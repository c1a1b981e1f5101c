-- TPC-W's transactions, from the benchmark's clauses 2.3 to 2.16: twenty, thirteen of them read-only, as
-- implementations commonly cut them. Times are parameters, so that the same call gives the same rows
-- everywhere; so are what a server would draw by chance.

-- Home (2.3): whom it greets.
CREATE FUNCTION get_name(p_c_id bigint) RETURNS TABLE (fname text, lname text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT c_fname, c_lname FROM customer WHERE c_id = p_c_id;
END;

-- Home (2.3) and Product Detail: what is shown beside a book.
CREATE FUNCTION get_related(p_i_id integer) RETURNS TABLE (id integer, thumbnail text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT j.i_id, j.i_thumbnail
    FROM item i, item j
    WHERE (i.i_related1 = j.i_id OR i.i_related2 = j.i_id OR i.i_related3 = j.i_id
           OR i.i_related4 = j.i_id OR i.i_related5 = j.i_id)
      AND i.i_id = p_i_id;
END;

-- New Products (2.12).
CREATE FUNCTION get_new_products(p_subject text)
RETURNS TABLE (id integer, title text, fname text, lname text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT i_id, i_title, a_fname, a_lname
    FROM item, author
    WHERE i_a_id = a_id AND i_subject = p_subject
    ORDER BY i_pub_date DESC, i_title
    LIMIT 50;
END;

-- Best Sellers (2.13): by what the last 3,333 orders contain.
CREATE FUNCTION get_best_sellers(p_subject text)
RETURNS TABLE (id integer, title text, fname text, lname text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT i_id, i_title, a_fname, a_lname
    FROM item, author, order_line
    WHERE i_id = ol_i_id AND i_a_id = a_id AND i_subject = p_subject
      AND ol_o_id > (SELECT max(o_id) - 3333 FROM orders)
    GROUP BY i_id, i_title, a_fname, a_lname
    ORDER BY sum(ol_qty) DESC
    LIMIT 50;
END;

-- Product Detail (2.14).
CREATE FUNCTION get_book(p_i_id integer)
RETURNS TABLE (title text, fname text, lname text, published date, publisher text, subject text,
               about text, image text, thumbnail text, srp numeric, cost numeric, available date,
               stock integer, isbn text, pages integer, backing text, dimensions text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT i_title, a_fname, a_lname, i_pub_date, i_publisher, i_subject, i_desc, i_image, i_thumbnail,
           i_srp, i_cost, i_avail, i_stock, i_isbn, i_page, i_backing, i_dimensions
    FROM item, author
    WHERE i_a_id = a_id AND i_id = p_i_id;
END;

-- Search Result (2.11), by subject, by title, by author.
CREATE FUNCTION do_subject_search(p_subject text)
RETURNS TABLE (id integer, title text, fname text, lname text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT i_id, i_title, a_fname, a_lname
    FROM item, author
    WHERE i_a_id = a_id AND i_subject = p_subject
    ORDER BY i_title
    LIMIT 50;
END;

CREATE FUNCTION do_title_search(p_title text)
RETURNS TABLE (id integer, title text, fname text, lname text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT i_id, i_title, a_fname, a_lname
    FROM item, author
    WHERE i_a_id = a_id AND i_title LIKE p_title || '%'
    ORDER BY i_title
    LIMIT 50;
END;

CREATE FUNCTION do_author_search(p_lname text)
RETURNS TABLE (id integer, title text, fname text, lname text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT i_id, i_title, a_fname, a_lname
    FROM item, author
    WHERE i_a_id = a_id AND a_lname LIKE p_lname || '%'
    ORDER BY i_title
    LIMIT 50;
END;

-- Shopping Cart (2.4): a customer's first book.
CREATE FUNCTION create_empty_cart(p_now timestamp, OUT cart bigint)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO shopping_cart (sc_time) VALUES (p_now) RETURNING sc_id INTO cart;
END;
$$;

-- Shopping Cart (2.4): adds a book, if one is given, sets quantities, and never leaves the cart empty: then
-- it gets what is related to some book (2.4.3.1).
CREATE PROCEDURE do_cart(p_sc_id bigint, p_i_id integer, p_i_ids integer[], p_quantities integer[],
                         p_some_i_id integer, p_now timestamp)
LANGUAGE plpgsql AS $$
DECLARE
    quantity integer;
    lines    bigint;
    related  integer;
BEGIN
    IF p_i_id IS NOT NULL THEN
        SELECT scl_qty INTO quantity
        FROM shopping_cart_line WHERE scl_sc_id = p_sc_id AND scl_i_id = p_i_id;
        IF FOUND THEN
            UPDATE shopping_cart_line SET scl_qty = quantity + 1
            WHERE scl_sc_id = p_sc_id AND scl_i_id = p_i_id;
        ELSE
            INSERT INTO shopping_cart_line (scl_sc_id, scl_i_id, scl_qty)
            VALUES (p_sc_id, p_i_id, 1);
        END IF;
    END IF;

    UPDATE shopping_cart_line SET scl_qty = l.quantity
    FROM unnest(p_i_ids, p_quantities) AS l (i_id, quantity)
    WHERE scl_sc_id = p_sc_id AND scl_i_id = l.i_id;
    DELETE FROM shopping_cart_line WHERE scl_sc_id = p_sc_id AND scl_qty = 0;

    SELECT count(*) INTO lines FROM shopping_cart_line WHERE scl_sc_id = p_sc_id;
    IF lines = 0 THEN
        SELECT i_related1 INTO related FROM item WHERE i_id = p_some_i_id;
        IF FOUND THEN
            INSERT INTO shopping_cart_line (scl_sc_id, scl_i_id, scl_qty)
            VALUES (p_sc_id, related, 1);
        END IF;
    END IF;

    UPDATE shopping_cart SET sc_time = p_now WHERE sc_id = p_sc_id;
END;
$$;

-- Shopping Cart (2.4), Buy Request (2.6): what is in it.
CREATE FUNCTION get_cart(p_sc_id bigint)
RETURNS TABLE (id integer, title text, cost numeric, srp numeric, backing text, quantity integer)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT i_id, i_title, i_cost, i_srp, i_backing, scl_qty
    FROM shopping_cart_line, item
    WHERE scl_i_id = i_id AND scl_sc_id = p_sc_id;
END;

-- Buy Request (2.6): a customer who is known.
CREATE FUNCTION get_customer(p_uname text)
RETURNS TABLE (id bigint, passwd text, fname text, lname text, phone text, email text,
               since date, last_visit date, login timestamp, expiration timestamp,
               discount numeric, balance numeric, ytd_pmt numeric, birthdate date, data text,
               street1 text, street2 text, city text, state text, zip text, country text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT c_id, c_passwd, c_fname, c_lname, c_phone, c_email, c_since, c_last_visit, c_login,
           c_expiration, c_discount, c_balance, c_ytd_pmt, c_birthdate, c_data,
           addr_street1, addr_street2, addr_city, addr_state, addr_zip, co_name
    FROM customer, address, country
    WHERE c_addr_id = addr_id AND addr_co_id = co_id AND c_uname = p_uname;
END;

-- Buy Request (2.6): the session of a customer who is known goes on for two hours.
CREATE PROCEDURE refresh_session(p_c_id bigint, p_now timestamp)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE customer
    SET c_login = p_now, c_expiration = p_now + interval '2 hours'
    WHERE c_id = p_c_id;
END;

-- Buy Request (2.6): a new customer. An address that is known is not entered again; the name is made from
-- the number, digit by digit.
CREATE FUNCTION create_new_customer(
    p_fname text, p_lname text, p_street1 text, p_street2 text, p_city text, p_state text, p_zip text,
    p_country text, p_phone text, p_email text, p_birthdate date, p_data text, p_discount numeric,
    p_today date, p_now timestamp, OUT customer_id bigint
) LANGUAGE plpgsql AS $$
DECLARE
    country_id integer;
    address_id bigint;
    uname      text;
BEGIN
    SELECT co_id INTO STRICT country_id FROM country WHERE co_name = p_country;
    SELECT addr_id INTO address_id
    FROM address
    WHERE addr_street1 = p_street1 AND addr_street2 = p_street2 AND addr_city = p_city
      AND addr_state = p_state AND addr_zip = p_zip AND addr_co_id = country_id
    ORDER BY addr_id
    LIMIT 1;
    IF NOT FOUND THEN
        INSERT INTO address (addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id)
        VALUES (p_street1, p_street2, p_city, p_state, p_zip, country_id)
        RETURNING addr_id INTO address_id;
    END IF;

    INSERT INTO customer (c_uname, c_passwd, c_fname, c_lname, c_addr_id, c_phone, c_email, c_since,
                          c_last_visit, c_login, c_expiration, c_discount, c_balance, c_ytd_pmt,
                          c_birthdate, c_data)
    VALUES ('', '', p_fname, p_lname, address_id, p_phone, p_email, p_today, p_today, p_now,
            p_now + interval '2 hours', p_discount, 0, 0, p_birthdate, p_data)
    RETURNING c_id INTO customer_id;
    uname := replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
        CAST(customer_id AS text),
        '0', 'BA'), '1', 'OG'), '2', 'AL'), '3', 'RI'), '4', 'RE'),
        '5', 'SE'), '6', 'AT'), '7', 'UL'), '8', 'IN'), '9', 'NG');
    UPDATE customer SET c_uname = uname, c_passwd = lower(uname) WHERE c_id = customer_id;
END;
$$;

-- Order Inquiry (2.8).
CREATE FUNCTION get_user_name(p_c_id bigint) RETURNS TABLE (uname text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT c_uname FROM customer WHERE c_id = p_c_id;
END;

-- Order Display (2.9): the password is compared by the page.
CREATE FUNCTION get_password(p_uname text) RETURNS TABLE (passwd text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT c_passwd FROM customer WHERE c_uname = p_uname;
END;

-- Order Display (2.9): the last order of a customer.
CREATE FUNCTION get_most_recent_order(p_uname text)
RETURNS TABLE (id bigint, ordered timestamp, total numeric, status text, paid_by text,
               ship_street1 text, ship_city text, ship_country text,
               item integer, title text, quantity integer, discount numeric, comments text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    order_id bigint;
BEGIN
    SELECT o_id INTO order_id
    FROM customer, orders
    WHERE c_id = o_c_id AND c_uname = p_uname
    ORDER BY o_date DESC, o_id DESC
    LIMIT 1;
    RETURN QUERY
    SELECT o_id, o_date, o_total, o_status, cx_type, addr_street1, addr_city, co_name,
           ol_i_id, i_title, ol_qty, ol_discount, ol_comments
    FROM orders, cc_xacts, address, country, order_line, item
    WHERE o_id = order_id AND cx_o_id = o_id AND o_ship_addr_id = addr_id AND addr_co_id = co_id
      AND ol_o_id = o_id AND ol_i_id = i_id;
END;
$$;

-- Buy Confirm (2.7), shipped to the customer's own address: the cart becomes an order, which is paid for, and
-- stocks are filled up where they run low (2.7.3.3).
CREATE FUNCTION do_buy_confirm(
    p_sc_id bigint, p_c_id bigint, p_cc_type text, p_cc_number text, p_cc_name text, p_cc_expiry date,
    p_auth_id text, p_shipping text, p_now timestamp, p_ship_date timestamp, OUT order_id bigint
) LANGUAGE plpgsql AS $$
DECLARE
    discount   numeric;
    address_id bigint;
    country_id integer;
    sub_total  numeric;
    total      numeric;
    number     integer := 0;
    line       record;
BEGIN
    SELECT c_discount, c_addr_id INTO STRICT discount, address_id FROM customer WHERE c_id = p_c_id;
    SELECT addr_co_id INTO STRICT country_id FROM address WHERE addr_id = address_id;
    SELECT coalesce(sum(i_cost * scl_qty), 0) INTO sub_total
    FROM shopping_cart_line, item
    WHERE scl_i_id = i_id AND scl_sc_id = p_sc_id;
    sub_total := sub_total * (100 - discount) / 100;
    total := sub_total * 1.0825 + 3;

    INSERT INTO orders (o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date,
                        o_bill_addr_id, o_ship_addr_id, o_status)
    VALUES (p_c_id, p_now, sub_total, sub_total * 0.0825, total, p_shipping, p_ship_date,
            address_id, address_id, 'Pending')
    RETURNING o_id INTO order_id;

    FOR line IN
        SELECT scl_i_id, scl_qty FROM shopping_cart_line WHERE scl_sc_id = p_sc_id ORDER BY scl_i_id
    LOOP
        number := number + 1;
        INSERT INTO order_line (ol_o_id, ol_id, ol_i_id, ol_qty, ol_discount, ol_comments)
        VALUES (order_id, number, line.scl_i_id, line.scl_qty, discount, '');
        UPDATE item
        SET i_stock = CASE WHEN i_stock - line.scl_qty < 10 THEN i_stock - line.scl_qty + 21
                           ELSE i_stock - line.scl_qty END
        WHERE i_id = line.scl_i_id;
    END LOOP;

    INSERT INTO cc_xacts (cx_o_id, cx_type, cx_num, cx_name, cx_expire, cx_auth_id, cx_xact_amt,
                          cx_xact_date, cx_co_id)
    VALUES (order_id, p_cc_type, p_cc_number, p_cc_name, p_cc_expiry, p_auth_id, total, p_now,
            country_id);
    DELETE FROM shopping_cart_line WHERE scl_sc_id = p_sc_id;
END;
$$;

-- Buy Confirm (2.7), shipped to another address.
CREATE FUNCTION do_buy_confirm_to(
    p_sc_id bigint, p_c_id bigint, p_cc_type text, p_cc_number text, p_cc_name text, p_cc_expiry date,
    p_auth_id text, p_shipping text, p_now timestamp, p_ship_date timestamp, p_street1 text,
    p_street2 text, p_city text, p_state text, p_zip text, p_country text, OUT order_id bigint
) LANGUAGE plpgsql AS $$
DECLARE
    discount   numeric;
    billed_to  bigint;
    address_id bigint;
    country_id integer;
    sub_total  numeric;
    total      numeric;
    number     integer := 0;
    line       record;
BEGIN
    SELECT c_discount, c_addr_id INTO STRICT discount, billed_to FROM customer WHERE c_id = p_c_id;
    SELECT co_id INTO STRICT country_id FROM country WHERE co_name = p_country;
    SELECT addr_id INTO address_id
    FROM address
    WHERE addr_street1 = p_street1 AND addr_street2 = p_street2 AND addr_city = p_city
      AND addr_state = p_state AND addr_zip = p_zip AND addr_co_id = country_id
    ORDER BY addr_id
    LIMIT 1;
    IF NOT FOUND THEN
        INSERT INTO address (addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id)
        VALUES (p_street1, p_street2, p_city, p_state, p_zip, country_id)
        RETURNING addr_id INTO address_id;
    END IF;
    SELECT coalesce(sum(i_cost * scl_qty), 0) INTO sub_total
    FROM shopping_cart_line, item
    WHERE scl_i_id = i_id AND scl_sc_id = p_sc_id;
    sub_total := sub_total * (100 - discount) / 100;
    total := sub_total * 1.0825 + 3;

    INSERT INTO orders (o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date,
                        o_bill_addr_id, o_ship_addr_id, o_status)
    VALUES (p_c_id, p_now, sub_total, sub_total * 0.0825, total, p_shipping, p_ship_date,
            billed_to, address_id, 'Pending')
    RETURNING o_id INTO order_id;

    FOR line IN
        SELECT scl_i_id, scl_qty FROM shopping_cart_line WHERE scl_sc_id = p_sc_id ORDER BY scl_i_id
    LOOP
        number := number + 1;
        INSERT INTO order_line (ol_o_id, ol_id, ol_i_id, ol_qty, ol_discount, ol_comments)
        VALUES (order_id, number, line.scl_i_id, line.scl_qty, discount, '');
        UPDATE item
        SET i_stock = CASE WHEN i_stock - line.scl_qty < 10 THEN i_stock - line.scl_qty + 21
                           ELSE i_stock - line.scl_qty END
        WHERE i_id = line.scl_i_id;
    END LOOP;

    INSERT INTO cc_xacts (cx_o_id, cx_type, cx_num, cx_name, cx_expire, cx_auth_id, cx_xact_amt,
                          cx_xact_date, cx_co_id)
    VALUES (order_id, p_cc_type, p_cc_number, p_cc_name, p_cc_expiry, p_auth_id, total, p_now,
            country_id);
    DELETE FROM shopping_cart_line WHERE scl_sc_id = p_sc_id;
END;
$$;

-- Admin Confirm (2.16): a book gets another price and other images, and what is related to it is found
-- anew: what else the customers bought who bought it, in the last 10,000 orders.
CREATE PROCEDURE admin_update(p_i_id integer, p_cost numeric, p_image text, p_thumbnail text,
                              p_today date)
LANGUAGE plpgsql AS $$
DECLARE
    found_one record;
    place     integer := 0;
BEGIN
    UPDATE item
    SET i_cost = p_cost, i_image = p_image, i_thumbnail = p_thumbnail, i_pub_date = p_today
    WHERE i_id = p_i_id;
    FOR found_one IN
        SELECT ol_i_id, sum(ol_qty) AS sold
        FROM orders, order_line
        WHERE o_id = ol_o_id AND ol_i_id <> p_i_id
          AND o_c_id IN (SELECT bought.o_c_id
                         FROM orders bought, order_line its
                         WHERE bought.o_id = its.ol_o_id AND its.ol_i_id = p_i_id
                           AND bought.o_id > (SELECT max(o_id) - 10000 FROM orders))
        GROUP BY ol_i_id
        ORDER BY sold DESC, ol_i_id
        LIMIT 5
    LOOP
        place := place + 1;
        UPDATE item
        SET i_related1 = CASE WHEN place = 1 THEN found_one.ol_i_id ELSE i_related1 END,
            i_related2 = CASE WHEN place = 2 THEN found_one.ol_i_id ELSE i_related2 END,
            i_related3 = CASE WHEN place = 3 THEN found_one.ol_i_id ELSE i_related3 END,
            i_related4 = CASE WHEN place = 4 THEN found_one.ol_i_id ELSE i_related4 END,
            i_related5 = CASE WHEN place = 5 THEN found_one.ol_i_id ELSE i_related5 END
        WHERE i_id = p_i_id;
    END LOOP;
END;
$$;
