CREATE TABLE customer (id integer PRIMARY KEY, email text NOT NULL, credit integer NOT NULL);
CREATE TABLE orders (id serial PRIMARY KEY, customer_id integer NOT NULL REFERENCES customer (id), amount integer NOT NULL);
