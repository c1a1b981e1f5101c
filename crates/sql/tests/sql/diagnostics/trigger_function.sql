CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.a < 0 THEN
        RAISE EXCEPTION 'a is negative';
    END IF;
    RETURN NEW;
END;
$$;
