-- The seven transactions of TATP.

CREATE FUNCTION get_subscriber_data(p_s_id integer)
RETURNS TABLE (sub_nbr varchar(15), bit_1 smallint, hex_1 smallint, byte2_1 smallint,
               msc_location integer, vlr_location integer)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT s.sub_nbr, s.bit_1, s.hex_1, s.byte2_1, s.msc_location, s.vlr_location
    FROM subscriber AS s
    WHERE s.s_id = p_s_id;
END;

CREATE FUNCTION get_new_destination(p_s_id integer, p_sf_type smallint, p_start_time smallint,
                                    p_end_time smallint)
RETURNS TABLE (numberx varchar(15))
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT cf.numberx
    FROM special_facility AS sf
    JOIN call_forwarding AS cf ON cf.s_id = sf.s_id AND cf.sf_type = sf.sf_type
    WHERE sf.s_id = p_s_id AND sf.sf_type = p_sf_type AND sf.is_active = 1
      AND cf.start_time <= p_start_time AND p_end_time < cf.end_time;
END;

CREATE FUNCTION get_access_data(p_s_id integer, p_ai_type smallint)
RETURNS TABLE (data1 smallint, data2 smallint, data3 varchar(3), data4 varchar(5))
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT a.data1, a.data2, a.data3, a.data4
    FROM access_info AS a
    WHERE a.s_id = p_s_id AND a.ai_type = p_ai_type;
END;

CREATE PROCEDURE update_subscriber_data(p_s_id integer, p_bit smallint, p_sf_type smallint,
                                        p_data_a smallint)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE subscriber SET bit_1 = p_bit WHERE s_id = p_s_id;
    UPDATE special_facility SET data_a = p_data_a WHERE s_id = p_s_id AND sf_type = p_sf_type;
END;

CREATE PROCEDURE update_location(p_sub_nbr varchar(15), p_location integer)
LANGUAGE SQL
BEGIN ATOMIC
    UPDATE subscriber SET vlr_location = p_location WHERE sub_nbr = p_sub_nbr;
END;

CREATE PROCEDURE insert_call_forwarding(p_sub_nbr varchar(15), p_sf_type smallint,
                                        p_start_time smallint, p_end_time smallint,
                                        p_numberx varchar(15))
LANGUAGE plpgsql AS $$
DECLARE
    subscriber_id integer;
BEGIN
    SELECT s_id INTO STRICT subscriber_id FROM subscriber WHERE sub_nbr = p_sub_nbr;

    INSERT INTO call_forwarding (s_id, sf_type, start_time, end_time, numberx)
    VALUES (subscriber_id, p_sf_type, p_start_time, p_end_time, p_numberx);
END;
$$;

CREATE PROCEDURE delete_call_forwarding(p_sub_nbr varchar(15), p_sf_type smallint,
                                        p_start_time smallint)
LANGUAGE plpgsql AS $$
DECLARE
    subscriber_id integer;
BEGIN
    SELECT s_id INTO STRICT subscriber_id FROM subscriber WHERE sub_nbr = p_sub_nbr;

    DELETE FROM call_forwarding
    WHERE s_id = subscriber_id AND sf_type = p_sf_type AND start_time = p_start_time;
END;
$$;
