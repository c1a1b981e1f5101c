CREATE TABLE account (id integer PRIMARY KEY, balance numeric(12, 2));
CREATE FUNCTION f(p account.balnce%TYPE) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END; $$;
CREATE FUNCTION g() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    a acount%ROWTYPE;
BEGIN
END;
$$;
