CREATE TABLE book (isbn varchar(20) PRIMARY KEY, copies integer NOT NULL);
CREATE TABLE loan (isbn varchar(20) NOT NULL, reader integer NOT NULL, PRIMARY KEY (isbn, reader));
