-- NewReservation: a customer reserves a seat of a flight, while there are any.
CREATE PROCEDURE new_reservation(p_r_id bigint, p_c_id bigint, p_f_id bigint, p_seat integer,
                                 p_price numeric)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO reservation (r_id, r_c_id, r_f_id, r_seat, r_price)
    VALUES (p_r_id, p_c_id, p_f_id, p_seat, p_price);

    UPDATE flight SET f_seats_left = f_seats_left - 1 WHERE f_id = p_f_id;

    UPDATE customer SET c_balance = c_balance - p_price WHERE c_id = p_c_id;
END;

-- UpdateReservation: another seat on the same flight.
CREATE PROCEDURE update_reservation(p_r_id bigint, p_f_id bigint, p_seat integer)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE reservation SET r_seat = p_seat WHERE r_f_id = p_f_id AND r_id = p_r_id;
END;

-- FindOpenSeats: which seats of a flight are taken, and what it costs.
CREATE FUNCTION find_open_seats(p_f_id bigint) RETURNS TABLE (taken integer)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT r_seat FROM reservation WHERE r_f_id = p_f_id;
END;

-- UpdateCustomer: what a customer pays in.
CREATE PROCEDURE pay_in(p_c_id bigint, p_amount numeric)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE customer SET c_balance = c_balance + p_amount WHERE c_id = p_c_id;
END;
