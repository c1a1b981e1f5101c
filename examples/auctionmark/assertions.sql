-- An item's count of bids is that of its bids.
CREATE ASSERTION bids_are_counted CHECK (
    NOT EXISTS (
        SELECT *
        FROM item
        WHERE i_num_bids <> (SELECT count(*) FROM item_bid
                             WHERE ib_u_id = i_u_id AND ib_i_id = i_id)
    )
);
