--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: delivery(integer, integer, timestamp without time zone); Type: FUNCTION; Schema: public; Owner: postgres
--

CREATE FUNCTION public.delivery(p_w_id integer, p_carrier_id integer, p_delivery_d timestamp without time zone, OUT delivered integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
DECLARE
    order_id    integer;
    customer_id integer;
    amount      numeric;
BEGIN
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


ALTER FUNCTION public.delivery(p_w_id integer, p_carrier_id integer, p_delivery_d timestamp without time zone, OUT delivered integer) OWNER TO postgres;

--
-- Name: new_order(integer, integer, integer, timestamp without time zone, integer[], integer[], integer[]); Type: FUNCTION; Schema: public; Owner: postgres
--

CREATE FUNCTION public.new_order(p_w_id integer, p_d_id integer, p_c_id integer, p_entry_d timestamp without time zone, p_item_ids integer[], p_supply_w_ids integer[], p_quantities integer[], OUT order_id integer, OUT total_amount numeric, OUT warehouse_tax numeric, OUT district_tax numeric, OUT discount numeric, OUT last_name character varying, OUT credit character) RETURNS record
    LANGUAGE plpgsql
    AS $$
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


ALTER FUNCTION public.new_order(p_w_id integer, p_d_id integer, p_c_id integer, p_entry_d timestamp without time zone, p_item_ids integer[], p_supply_w_ids integer[], p_quantities integer[], OUT order_id integer, OUT total_amount numeric, OUT warehouse_tax numeric, OUT district_tax numeric, OUT discount numeric, OUT last_name character varying, OUT credit character) OWNER TO postgres;

--
-- Name: order_status(integer, integer, integer, character varying); Type: FUNCTION; Schema: public; Owner: postgres
--

CREATE FUNCTION public.order_status(p_w_id integer, p_d_id integer, p_c_id integer, p_c_last character varying) RETURNS TABLE(customer_id integer, first_name character varying, middle_name character, last_name character varying, balance numeric, order_id integer, entry_date timestamp without time zone, carrier_id integer, item_id integer, supply_warehouse_id integer, quantity integer, amount numeric, delivery_date timestamp without time zone)
    LANGUAGE plpgsql STABLE
    AS $$
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


ALTER FUNCTION public.order_status(p_w_id integer, p_d_id integer, p_c_id integer, p_c_last character varying) OWNER TO postgres;

--
-- Name: payment(integer, integer, integer, integer, integer, character varying, numeric, timestamp without time zone); Type: FUNCTION; Schema: public; Owner: postgres
--

CREATE FUNCTION public.payment(p_w_id integer, p_d_id integer, p_c_w_id integer, p_c_d_id integer, p_c_id integer, p_c_last character varying, p_amount numeric, p_date timestamp without time zone, OUT warehouse_name character varying, OUT warehouse_street_1 character varying, OUT warehouse_street_2 character varying, OUT warehouse_city character varying, OUT warehouse_state character, OUT warehouse_zip character, OUT district_name character varying, OUT district_street_1 character varying, OUT district_street_2 character varying, OUT district_city character varying, OUT district_state character, OUT district_zip character, OUT customer_id integer, OUT first_name character varying, OUT middle_name character, OUT last_name character varying, OUT street_1 character varying, OUT street_2 character varying, OUT city character varying, OUT state character, OUT zip character, OUT phone character, OUT since timestamp without time zone, OUT credit character, OUT credit_limit numeric, OUT discount numeric, OUT balance numeric, OUT data character varying) RETURNS record
    LANGUAGE plpgsql
    AS $$
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


ALTER FUNCTION public.payment(p_w_id integer, p_d_id integer, p_c_w_id integer, p_c_d_id integer, p_c_id integer, p_c_last character varying, p_amount numeric, p_date timestamp without time zone, OUT warehouse_name character varying, OUT warehouse_street_1 character varying, OUT warehouse_street_2 character varying, OUT warehouse_city character varying, OUT warehouse_state character, OUT warehouse_zip character, OUT district_name character varying, OUT district_street_1 character varying, OUT district_street_2 character varying, OUT district_city character varying, OUT district_state character, OUT district_zip character, OUT customer_id integer, OUT first_name character varying, OUT middle_name character, OUT last_name character varying, OUT street_1 character varying, OUT street_2 character varying, OUT city character varying, OUT state character, OUT zip character, OUT phone character, OUT since timestamp without time zone, OUT credit character, OUT credit_limit numeric, OUT discount numeric, OUT balance numeric, OUT data character varying) OWNER TO postgres;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: district; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.district (
    d_w_id integer NOT NULL,
    d_id integer NOT NULL,
    d_name character varying(10) NOT NULL,
    d_street_1 character varying(20) NOT NULL,
    d_street_2 character varying(20) NOT NULL,
    d_city character varying(20) NOT NULL,
    d_state character(2) NOT NULL,
    d_zip character(9) NOT NULL,
    d_tax numeric(4,4) NOT NULL,
    d_ytd numeric(12,2) NOT NULL,
    d_next_o_id integer NOT NULL,
    CONSTRAINT district_d_id_check CHECK (((d_id >= 1) AND (d_id <= 10))),
    CONSTRAINT district_d_tax_check CHECK ((d_tax >= (0)::numeric))
);


ALTER TABLE public.district OWNER TO postgres;

--
-- Name: order_line; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.order_line (
    ol_w_id integer NOT NULL,
    ol_d_id integer NOT NULL,
    ol_o_id integer NOT NULL,
    ol_number integer NOT NULL,
    ol_i_id integer NOT NULL,
    ol_supply_w_id integer NOT NULL,
    ol_delivery_d timestamp without time zone,
    ol_quantity integer NOT NULL,
    ol_amount numeric(6,2) NOT NULL,
    ol_dist_info character(24) NOT NULL,
    CONSTRAINT order_line_ol_amount_check CHECK ((ol_amount >= (0)::numeric)),
    CONSTRAINT order_line_ol_quantity_check CHECK ((ol_quantity > 0))
);


ALTER TABLE public.order_line OWNER TO postgres;

--
-- Name: stock; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.stock (
    s_w_id integer NOT NULL,
    s_i_id integer NOT NULL,
    s_quantity integer NOT NULL,
    s_dist_01 character(24) NOT NULL,
    s_dist_02 character(24) NOT NULL,
    s_dist_03 character(24) NOT NULL,
    s_dist_04 character(24) NOT NULL,
    s_dist_05 character(24) NOT NULL,
    s_dist_06 character(24) NOT NULL,
    s_dist_07 character(24) NOT NULL,
    s_dist_08 character(24) NOT NULL,
    s_dist_09 character(24) NOT NULL,
    s_dist_10 character(24) NOT NULL,
    s_ytd integer NOT NULL,
    s_order_cnt integer NOT NULL,
    s_remote_cnt integer NOT NULL,
    s_data character varying(50) NOT NULL
);


ALTER TABLE public.stock OWNER TO postgres;

--
-- Name: stock_level(integer, integer, integer); Type: FUNCTION; Schema: public; Owner: postgres
--

CREATE FUNCTION public.stock_level(p_w_id integer, p_d_id integer, p_threshold integer) RETURNS bigint
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT count(DISTINCT stock.s_i_id) AS count
    FROM ((public.district
      JOIN public.order_line ON (((order_line.ol_w_id = district.d_w_id) AND (order_line.ol_d_id = district.d_id) AND ((order_line.ol_o_id >= (district.d_next_o_id - 20)) AND (order_line.ol_o_id <= (district.d_next_o_id - 1))))))
      JOIN public.stock ON (((stock.s_w_id = order_line.ol_w_id) AND (stock.s_i_id = order_line.ol_i_id))))
   WHERE ((district.d_w_id = stock_level.p_w_id) AND (district.d_id = stock_level.p_d_id) AND (stock.s_quantity < stock_level.p_threshold));
END;


ALTER FUNCTION public.stock_level(p_w_id integer, p_d_id integer, p_threshold integer) OWNER TO postgres;

--
-- Name: customer; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.customer (
    c_w_id integer NOT NULL,
    c_d_id integer NOT NULL,
    c_id integer NOT NULL,
    c_first character varying(16) NOT NULL,
    c_middle character(2) NOT NULL,
    c_last character varying(16) NOT NULL,
    c_street_1 character varying(20) NOT NULL,
    c_street_2 character varying(20) NOT NULL,
    c_city character varying(20) NOT NULL,
    c_state character(2) NOT NULL,
    c_zip character(9) NOT NULL,
    c_phone character(16) NOT NULL,
    c_since timestamp without time zone NOT NULL,
    c_credit character(2) NOT NULL,
    c_credit_lim numeric(12,2) NOT NULL,
    c_discount numeric(4,4) NOT NULL,
    c_balance numeric(12,2) NOT NULL,
    c_ytd_payment numeric(12,2) NOT NULL,
    c_payment_cnt integer NOT NULL,
    c_delivery_cnt integer NOT NULL,
    c_data character varying(500) NOT NULL,
    CONSTRAINT customer_c_credit_check CHECK ((c_credit = ANY (ARRAY['GC'::bpchar, 'BC'::bpchar]))),
    CONSTRAINT customer_c_discount_check CHECK ((c_discount >= (0)::numeric))
);


ALTER TABLE public.customer OWNER TO postgres;

--
-- Name: history; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.history (
    h_c_w_id integer NOT NULL,
    h_c_d_id integer NOT NULL,
    h_c_id integer NOT NULL,
    h_w_id integer NOT NULL,
    h_d_id integer NOT NULL,
    h_date timestamp without time zone NOT NULL,
    h_amount numeric(6,2) NOT NULL,
    h_data character varying(24) NOT NULL
);


ALTER TABLE public.history OWNER TO postgres;

--
-- Name: item; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.item (
    i_id integer NOT NULL,
    i_im_id integer NOT NULL,
    i_name character varying(24) NOT NULL,
    i_price numeric(5,2) NOT NULL,
    i_data character varying(50) NOT NULL,
    CONSTRAINT item_i_price_check CHECK ((i_price > (0)::numeric))
);


ALTER TABLE public.item OWNER TO postgres;

--
-- Name: new_order; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.new_order (
    no_w_id integer NOT NULL,
    no_d_id integer NOT NULL,
    no_o_id integer NOT NULL
);


ALTER TABLE public.new_order OWNER TO postgres;

--
-- Name: orders; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders (
    o_w_id integer NOT NULL,
    o_d_id integer NOT NULL,
    o_id integer NOT NULL,
    o_c_id integer NOT NULL,
    o_entry_d timestamp without time zone NOT NULL,
    o_carrier_id integer,
    o_ol_cnt integer NOT NULL,
    o_all_local integer NOT NULL,
    CONSTRAINT orders_o_all_local_check CHECK ((o_all_local = ANY (ARRAY[0, 1]))),
    CONSTRAINT orders_o_carrier_id_check CHECK (((o_carrier_id >= 1) AND (o_carrier_id <= 10))),
    CONSTRAINT orders_o_ol_cnt_check CHECK (((o_ol_cnt >= 5) AND (o_ol_cnt <= 15)))
);


ALTER TABLE public.orders OWNER TO postgres;

--
-- Name: warehouse; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.warehouse (
    w_id integer NOT NULL,
    w_name character varying(10) NOT NULL,
    w_street_1 character varying(20) NOT NULL,
    w_street_2 character varying(20) NOT NULL,
    w_city character varying(20) NOT NULL,
    w_state character(2) NOT NULL,
    w_zip character(9) NOT NULL,
    w_tax numeric(4,4) NOT NULL,
    w_ytd numeric(12,2) NOT NULL,
    CONSTRAINT warehouse_w_tax_check CHECK ((w_tax >= (0)::numeric))
);


ALTER TABLE public.warehouse OWNER TO postgres;

--
-- Data for Name: customer; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.customer (c_w_id, c_d_id, c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data) FROM stdin;
\.


--
-- Data for Name: district; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.district (d_w_id, d_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, d_tax, d_ytd, d_next_o_id) FROM stdin;
\.


--
-- Data for Name: history; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount, h_data) FROM stdin;
\.


--
-- Data for Name: item; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.item (i_id, i_im_id, i_name, i_price, i_data) FROM stdin;
\.


--
-- Data for Name: new_order; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.new_order (no_w_id, no_d_id, no_o_id) FROM stdin;
\.


--
-- Data for Name: order_line; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) FROM stdin;
\.


--
-- Data for Name: orders; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) FROM stdin;
\.


--
-- Data for Name: stock; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.stock (s_w_id, s_i_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, s_data) FROM stdin;
\.


--
-- Data for Name: warehouse; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.warehouse (w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, w_ytd) FROM stdin;
\.


--
-- Name: customer customer_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.customer
    ADD CONSTRAINT customer_pkey PRIMARY KEY (c_w_id, c_d_id, c_id);


--
-- Name: district district_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.district
    ADD CONSTRAINT district_pkey PRIMARY KEY (d_w_id, d_id);


--
-- Name: item item_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.item
    ADD CONSTRAINT item_pkey PRIMARY KEY (i_id);


--
-- Name: new_order new_order_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.new_order
    ADD CONSTRAINT new_order_pkey PRIMARY KEY (no_w_id, no_d_id, no_o_id);


--
-- Name: order_line order_line_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.order_line
    ADD CONSTRAINT order_line_pkey PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number);


--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (o_w_id, o_d_id, o_id);


--
-- Name: stock stock_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.stock
    ADD CONSTRAINT stock_pkey PRIMARY KEY (s_w_id, s_i_id);


--
-- Name: warehouse warehouse_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.warehouse
    ADD CONSTRAINT warehouse_pkey PRIMARY KEY (w_id);


--
-- Name: customer_by_name; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX customer_by_name ON public.customer USING btree (c_w_id, c_d_id, c_last, c_first);


--
-- Name: history_by_customer; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX history_by_customer ON public.history USING btree (h_c_w_id, h_c_d_id, h_c_id);


--
-- Name: history_by_district; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX history_by_district ON public.history USING btree (h_w_id, h_d_id);


--
-- Name: orders_by_customer; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX orders_by_customer ON public.orders USING btree (o_w_id, o_d_id, o_c_id, o_id);


--
-- Name: customer customer_c_w_id_c_d_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.customer
    ADD CONSTRAINT customer_c_w_id_c_d_id_fkey FOREIGN KEY (c_w_id, c_d_id) REFERENCES public.district(d_w_id, d_id);


--
-- Name: district district_d_w_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.district
    ADD CONSTRAINT district_d_w_id_fkey FOREIGN KEY (d_w_id) REFERENCES public.warehouse(w_id);


--
-- Name: history history_h_c_w_id_h_c_d_id_h_c_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.history
    ADD CONSTRAINT history_h_c_w_id_h_c_d_id_h_c_id_fkey FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES public.customer(c_w_id, c_d_id, c_id);


--
-- Name: history history_h_w_id_h_d_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.history
    ADD CONSTRAINT history_h_w_id_h_d_id_fkey FOREIGN KEY (h_w_id, h_d_id) REFERENCES public.district(d_w_id, d_id);


--
-- Name: new_order new_order_no_w_id_no_d_id_no_o_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.new_order
    ADD CONSTRAINT new_order_no_w_id_no_d_id_no_o_id_fkey FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES public.orders(o_w_id, o_d_id, o_id);


--
-- Name: order_line order_line_ol_supply_w_id_ol_i_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.order_line
    ADD CONSTRAINT order_line_ol_supply_w_id_ol_i_id_fkey FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES public.stock(s_w_id, s_i_id);


--
-- Name: order_line order_line_ol_w_id_ol_d_id_ol_o_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.order_line
    ADD CONSTRAINT order_line_ol_w_id_ol_d_id_ol_o_id_fkey FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES public.orders(o_w_id, o_d_id, o_id);


--
-- Name: orders orders_o_w_id_o_d_id_o_c_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_o_w_id_o_d_id_o_c_id_fkey FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES public.customer(c_w_id, c_d_id, c_id);


--
-- Name: stock stock_s_i_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.stock
    ADD CONSTRAINT stock_s_i_id_fkey FOREIGN KEY (s_i_id) REFERENCES public.item(i_id);


--
-- Name: stock stock_s_w_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.stock
    ADD CONSTRAINT stock_s_w_id_fkey FOREIGN KEY (s_w_id) REFERENCES public.warehouse(w_id);


--
-- PostgreSQL database dump complete
--


