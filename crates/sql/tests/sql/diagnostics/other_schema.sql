CREATE TABLE sales.orders (id integer);
