CREATE TABLE parent (id integer PRIMARY KEY);
CREATE TABLE child (parent integer UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE other (parent integer REFERENCES parent (id) MATCH FULL);
