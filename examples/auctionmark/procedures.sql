-- NewBid: a user bids for an item. The highest bid stays the item's price.
CREATE FUNCTION new_bid(p_seller bigint, p_item bigint, p_buyer bigint, p_bid numeric, OUT bid_id uuid)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO item_bid (ib_u_id, ib_i_id, ib_buyer_id, ib_bid)
    VALUES (p_seller, p_item, p_buyer, p_bid)
    RETURNING ib_id INTO bid_id;

    UPDATE item
    SET i_num_bids = i_num_bids + 1, i_current_price = greatest(i_current_price, p_bid)
    WHERE i_u_id = p_seller AND i_id = p_item;
END;
$$;

-- NewPurchase: the purchase of an item by the bid that has won. It gets the next number.
CREATE PROCEDURE new_purchase(p_seller bigint, p_item bigint, p_bid uuid, p_buyer bigint,
                              p_price numeric, p_date timestamp)
LANGUAGE plpgsql AS $$
DECLARE
    last_id bigint;
BEGIN
    SELECT coalesce(max(ip_id), 0) INTO last_id
    FROM item_purchase
    WHERE ip_u_id = p_seller AND ip_i_id = p_item;

    INSERT INTO item_purchase (ip_u_id, ip_i_id, ip_id, ip_ib_id, ip_date)
    VALUES (p_seller, p_item, last_id + 1, p_bid, p_date);

    UPDATE item SET i_status = 2 WHERE i_u_id = p_seller AND i_id = p_item;
    UPDATE useracct SET u_balance = u_balance - p_price WHERE u_id = p_buyer;
    UPDATE useracct SET u_balance = u_balance + p_price WHERE u_id = p_seller;
END;
$$;

-- GetItem.
CREATE FUNCTION get_item(p_seller bigint, p_item bigint)
RETURNS TABLE (price numeric, bids bigint, status smallint)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT i_current_price, i_num_bids, i_status
    FROM item
    WHERE i_u_id = p_seller AND i_id = p_item;
END;
