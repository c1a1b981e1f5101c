CREATE TABLE product (sku text PRIMARY KEY, price integer NOT NULL, stock integer NOT NULL);
CREATE TABLE basket (id integer PRIMARY KEY, customer text NOT NULL, total integer NOT NULL);
CREATE TABLE item (basket_id integer NOT NULL, sku text NOT NULL, quantity integer NOT NULL, PRIMARY KEY (basket_id, sku));
