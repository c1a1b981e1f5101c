CREATE TABLE parent (a integer, b integer, c text UNIQUE);
CREATE TABLE one (a integer REFERENCES parent);
CREATE TABLE two (a integer REFERENCES parent (a));
CREATE TABLE three (a integer, FOREIGN KEY (a) REFERENCES parent (a, b));
CREATE TABLE four (a integer REFERENCES parent (c));
