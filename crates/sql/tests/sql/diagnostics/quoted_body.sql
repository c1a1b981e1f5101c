CREATE FUNCTION f() RETURNS text AS 'BEGIN
    RETURN ''it''''s'' || ;
END;' LANGUAGE plpgsql;
