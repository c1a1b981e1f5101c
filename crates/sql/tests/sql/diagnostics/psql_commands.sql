CREATE TABLE t (a integer);
\copy t FROM 'rows.csv'
