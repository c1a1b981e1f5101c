CREATE TABLE t (a bigint PRIMARY KEY, b bigint);
CREATE FUNCTION first_of_them() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE found bigint;
BEGIN
  SELECT a INTO found FROM t ORDER BY a LIMIT (SELECT b FROM t WHERE a = 1);
  RETURN found;
END $$;
CREATE FUNCTION later() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE found bigint;
BEGIN
  SELECT a INTO found FROM t ORDER BY a LIMIT 1 OFFSET (SELECT count(*) FROM t);
  RETURN found;
END $$;
CREATE FUNCTION by_a_column() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE found bigint;
BEGIN
  SELECT a INTO found FROM t ORDER BY a LIMIT b;
  RETURN found;
END $$;
