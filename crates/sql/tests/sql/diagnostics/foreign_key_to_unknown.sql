CREATE TABLE department (id integer PRIMARY KEY, name text);
CREATE TABLE employee (
    id integer PRIMARY KEY,
    department integer REFERENCES departmnt (id),
    boss integer REFERENCES employee (number),
    FOREIGN KEY (room) REFERENCES department (id)
);
