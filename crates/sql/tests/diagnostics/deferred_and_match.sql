CREATE TABLE parent (id integer PRIMARY KEY);
CREATE TABLE child (parent integer REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE other (parent integer REFERENCES parent (id) MATCH FULL);
