-- RUBiS: what the pages ask of the database. A page is not atomic: it runs several of these, twenty-six in all,
-- seventeen of them read-only. Times are parameters.

-- Every page of a registered user.
CREATE FUNCTION authenticate(p_nickname text, p_password text) RETURNS TABLE (user_id bigint)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT id FROM users WHERE nickname = p_nickname AND password = p_password;
END;

-- Browse.
CREATE FUNCTION browse_categories() RETURNS TABLE (category_id integer, category text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT id, name FROM categories;
END;

CREATE FUNCTION browse_regions() RETURNS TABLE (region_id integer, region text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT id, name FROM regions;
END;

CREATE FUNCTION search_items_by_category(p_category integer, p_now timestamp, p_page integer)
RETURNS TABLE (item bigint, title text, price numeric, highest numeric, bids integer, until timestamp)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT id, name, initial_price, max_bid, nb_of_bids, end_date
    FROM items
    WHERE category = p_category AND end_date >= p_now
    ORDER BY end_date, id
    LIMIT 25 OFFSET p_page * 25;
END;

CREATE FUNCTION search_items_by_region(p_category integer, p_region integer, p_now timestamp,
                                       p_page integer)
RETURNS TABLE (item bigint, title text, price numeric, highest numeric, bids integer, until timestamp)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT items.id, items.name, initial_price, max_bid, nb_of_bids, end_date
    FROM items, users
    WHERE category = p_category AND seller = users.id AND region = p_region AND end_date >= p_now
    ORDER BY end_date, items.id
    LIMIT 25 OFFSET p_page * 25;
END;

-- View Item.
CREATE FUNCTION view_item(p_item bigint)
RETURNS TABLE (title text, about text, price numeric, quantity integer, reserve numeric,
               buy_now numeric, bids integer, highest numeric, since timestamp, until timestamp,
               seller_name text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT items.name, description, initial_price, items.quantity, reserve_price, items.buy_now, nb_of_bids,
           items.max_bid, start_date, end_date, nickname
    FROM items, users
    WHERE items.id = p_item AND seller = users.id;
END;

-- View Bid History.
CREATE FUNCTION view_bid_history(p_item bigint)
RETURNS TABLE (offered numeric, at timestamp, bidder bigint, bidder_name text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT bid, date, users.id, nickname
    FROM bids, users
    WHERE item_id = p_item AND user_id = users.id
    ORDER BY date DESC;
END;

-- View User Information, and the head of About Me.
CREATE FUNCTION view_user(p_user bigint)
RETURNS TABLE (first text, last text, nick text, mail text, since timestamp, rated integer)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT firstname, lastname, nickname, email, creation_date, rating FROM users WHERE id = p_user;
END;

CREATE FUNCTION list_comments(p_user bigint)
RETURNS TABLE (from_name text, about bigint, rated integer, at timestamp, said text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT nickname, item_id, comments.rating, date, comment
    FROM comments, users
    WHERE to_user_id = p_user AND from_user_id = users.id;
END;

-- About Me: what the user sells and has sold, bids for, has won, has bought.
CREATE FUNCTION list_items(p_user bigint)
RETURNS TABLE (item bigint, title text, highest numeric, bids integer, until timestamp)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT id, name, max_bid, nb_of_bids, end_date FROM items WHERE seller = p_user;
    RETURN QUERY SELECT id, name, max_bid, nb_of_bids, end_date FROM old_items WHERE seller = p_user;
END;
$$;

CREATE FUNCTION list_bids(p_user bigint, p_now timestamp)
RETURNS TABLE (item bigint, title text, mine numeric, highest numeric, until timestamp)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT items.id, items.name, bids.max_bid, items.max_bid, end_date
    FROM bids, items
    WHERE user_id = p_user AND item_id = items.id AND end_date >= p_now;
END;

CREATE FUNCTION list_won_items(p_user bigint, p_now timestamp)
RETURNS TABLE (item bigint, title text, paid numeric, seller_name text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT items.id, items.name, items.max_bid, nickname
    FROM bids, items, users
    WHERE user_id = p_user AND item_id = items.id AND end_date < p_now
      AND bids.bid = items.max_bid AND seller = users.id;
END;

CREATE FUNCTION list_bought_items(p_user bigint)
RETURNS TABLE (item bigint, title text, quantity integer, price numeric, at timestamp,
               seller_name text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT items.id, items.name, qty, items.buy_now, buy_now.date, nickname
    FROM buy_now, items, users
    WHERE buyer_id = p_user AND item_id = items.id AND seller = users.id;
END;

-- Register User.
CREATE FUNCTION find_region(p_name text) RETURNS TABLE (region_id integer)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT id FROM regions WHERE name = p_name;
END;

CREATE FUNCTION register_user(p_firstname text, p_lastname text, p_nickname text, p_password text,
                              p_email text, p_region integer, p_now timestamp, OUT user_id bigint)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO users (firstname, lastname, nickname, password, email, rating, balance, creation_date,
                       region)
    VALUES (p_firstname, p_lastname, p_nickname, p_password, p_email, 0, 0, p_now, p_region)
    RETURNING id INTO user_id;
END;
$$;

-- Sell: a new auction.
CREATE FUNCTION register_item(p_user bigint, p_name text, p_description text, p_initial_price numeric,
                              p_quantity integer, p_reserve_price numeric, p_buy_now numeric,
                              p_start timestamp, p_end timestamp, p_category integer, OUT item bigint)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO items (name, description, initial_price, quantity, reserve_price, buy_now, nb_of_bids,
                       max_bid, start_date, end_date, seller, category)
    VALUES (p_name, p_description, p_initial_price, p_quantity, p_reserve_price, p_buy_now, 0, 0,
            p_start, p_end, p_user, p_category)
    RETURNING id INTO item;
END;
$$;

-- Put Bid: the page on which a user bids, then what storing the bid comes to.
CREATE FUNCTION put_bid(p_item bigint)
RETURNS TABLE (title text, price numeric, quantity integer, highest numeric, offers bigint,
               until timestamp, seller_name text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT items.name, initial_price, items.quantity, items.max_bid,
           (SELECT count(*) FROM bids WHERE bids.item_id = p_item), end_date, nickname
    FROM items, users
    WHERE items.id = p_item AND seller = users.id;
END;

CREATE PROCEDURE store_bid(p_user bigint, p_item bigint, p_quantity integer, p_bid numeric,
                           p_max_bid numeric, p_now timestamp)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO bids (user_id, item_id, qty, bid, max_bid, date)
    VALUES (p_user, p_item, p_quantity, p_bid, p_max_bid, p_now);
END;

CREATE PROCEDURE raise_max_bid(p_item bigint, p_bid numeric)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE items SET max_bid = p_bid WHERE id = p_item AND max_bid < p_bid;
END;

CREATE PROCEDURE count_bid(p_item bigint)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE items SET nb_of_bids = nb_of_bids + 1 WHERE id = p_item;
END;

-- Buy Now: the page, then what buying comes to.
CREATE FUNCTION buy_now_page(p_item bigint)
RETURNS TABLE (title text, about text, price numeric, quantity integer, until timestamp,
               seller_name text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT items.name, description, items.buy_now, items.quantity, end_date, nickname
    FROM items, users
    WHERE items.id = p_item AND seller = users.id;
END;

CREATE PROCEDURE store_buy_now(p_user bigint, p_item bigint, p_quantity integer, p_now timestamp)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO buy_now (buyer_id, item_id, qty, date) VALUES (p_user, p_item, p_quantity, p_now);
END;

CREATE PROCEDURE take_from_stock(p_item bigint, p_quantity integer, p_now timestamp)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE items
    SET quantity = quantity - p_quantity,
        end_date = CASE WHEN quantity <= p_quantity THEN p_now ELSE end_date END
    WHERE id = p_item;
END;

-- Put Comment: the page, then what storing the comment comes to.
CREATE FUNCTION put_comment(p_to bigint, p_item bigint) RETURNS TABLE (to_name text, title text)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT nickname, items.name FROM users, items WHERE users.id = p_to AND items.id = p_item;
END;

CREATE PROCEDURE store_comment(p_from bigint, p_to bigint, p_item bigint, p_rating integer,
                               p_now timestamp, p_comment text)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO comments (from_user_id, to_user_id, item_id, rating, date, comment)
    VALUES (p_from, p_to, p_item, p_rating, p_now, p_comment);
END;

CREATE PROCEDURE rate_user(p_user bigint, p_rating integer)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE users SET rating = rating + p_rating WHERE id = p_user;
END;
