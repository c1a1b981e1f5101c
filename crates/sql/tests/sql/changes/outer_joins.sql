CREATE TABLE wa (id int primary key, n text, t text);
CREATE TABLE

CREATE TABLE wb (id int primary key, n text, rel int);
CREATE TABLE

CREATE TABLE wc (oid int primary key, t text);
CREATE TABLE

INSERT INTO wa VALUES (1,'x','T1'),(2,'y','T1'),(3,'z','T2');
#3

INSERT INTO wb VALUES (1,'x',10),(2,'y',10),(3,'z',20);
#3

INSERT INTO wc VALUES (10,'T1'),(20,'T2');
#2

SELECT a.n, b.n FROM wa a LEFT JOIN wb b ON b.n=a.n AND b.rel=(SELECT oid FROM wc WHERE wc.t=a.t) ORDER BY 1;
x|x; y|y; z|z

SELECT a.n, b.n FROM wa a LEFT JOIN wb b ON b.rel=(SELECT oid FROM wc WHERE wc.t=a.t) ORDER BY 1,2;
x|x; x|y; y|x; y|y; z|z

SELECT a.n, b.n FROM wa a LEFT JOIN wb b ON b.n=a.n AND b.rel=(SELECT oid FROM wc WHERE wc.t='T1') ORDER BY 1;
x|x; y|y; z|-

SELECT a.n, b.n FROM wa a JOIN wb b ON b.n=a.n AND b.rel=(SELECT oid FROM wc WHERE wc.t=a.t) ORDER BY 1;
x|x; y|y; z|z

SELECT a.n, b.n FROM wa a LEFT JOIN wb b ON b.n=a.n AND EXISTS(SELECT 1 FROM wc WHERE wc.t=a.t and wc.oid=b.rel) ORDER BY 1;
x|x; y|y; z|z

CREATE VIEW va AS SELECT n, t FROM wa;
CREATE VIEW

SELECT a.n, b.n FROM va a LEFT JOIN wb b ON b.n=a.n AND b.rel=(SELECT oid FROM wc WHERE wc.t=a.t) ORDER BY 1;
x|x; y|y; z|z

SELECT a.n, b.n FROM (select n, max(t) t from wa group by n) a LEFT JOIN wb b ON b.n=a.n AND b.rel=(SELECT oid FROM wc WHERE wc.t=a.t) ORDER BY 1;
x|x; y|y; z|z

SELECT a.n, b.n FROM wa a LEFT JOIN wb b ON b.n=a.n AND b.rel=(SELECT oid FROM wc WHERE wc.t=a.t) WHERE a.t='T1' ORDER BY 1;
x|x; y|y

SELECT a.n, b.n FROM va a LEFT JOIN wb b ON b.n=a.n AND b.rel=(SELECT oid FROM wc WHERE wc.t=a.t) WHERE a.t='T1' ORDER BY 1;
x|x; y|y

SELECT a.n, b.n FROM wb b RIGHT JOIN wa a ON b.n=a.n AND b.rel=(SELECT oid FROM wc WHERE wc.t=a.t) ORDER BY 1;
x|x; y|y; z|z

SELECT a.n, b.n FROM wa a LEFT JOIN wb b ON b.n=a.n AND a.t=(SELECT t FROM wc WHERE wc.oid=b.rel) ORDER BY 1;
x|x; y|y; z|z

SELECT a.n, b.n FROM wa a LEFT JOIN wb b ON b.n=a.n AND b.rel IN (SELECT oid FROM wc WHERE wc.t=a.t) ORDER BY 1;
x|x; y|y; z|z

SELECT a.n, b.n FROM wa a LEFT JOIN wb b ON b.n=a.n AND NOT EXISTS (SELECT 1 FROM wc WHERE wc.t=a.t and wc.oid>10) ORDER BY 1;
x|x; y|y; z|-

SELECT a.n, b.n FROM wa a LEFT JOIN wb b ON b.id=(SELECT max(id) FROM wb x WHERE x.n=a.n) ORDER BY 1;
x|x; y|y; z|z

SELECT a.n, b.n, c.t FROM wa a LEFT JOIN wc c ON c.t=a.t LEFT JOIN wb b ON b.id=(SELECT max(id) FROM wb x WHERE x.rel=c.oid) ORDER BY 1;
x|y|T1; y|y|T1; z|z|T2

SELECT a.n, b.n FROM wa a LEFT JOIN LATERAL (SELECT n FROM wb WHERE wb.rel=(SELECT oid FROM wc WHERE wc.t=a.t) AND wb.n=a.n) b ON true ORDER BY 1;
x|x; y|y; z|z

SELECT a.n, b.n FROM wa a FULL JOIN wb b ON b.n=a.n AND b.rel=(SELECT oid FROM wc WHERE wc.t=a.t) ORDER BY 1;
0A000 a subquery in the condition of a FULL JOIN is not supported

SELECT n FROM wa a WHERE EXISTS (SELECT 1 FROM wa a2 LEFT JOIN wb b ON b.n=a2.n AND b.rel=(SELECT oid FROM wc WHERE wc.t=a2.t) WHERE a2.id=a.id AND b.id IS NULL) ORDER BY 1;


SELECT a.n, b.n FROM wa a LEFT JOIN wb b ON b.n = a.n AND b.rel IN (SELECT oid FROM wc) ORDER BY 1;
x|x; y|y; z|z

SELECT a.n, b.n FROM wa a LEFT JOIN (SELECT id, n, rel FROM wb) AS b ON b.n = a.n AND b.rel > (SELECT min(oid) FROM wc WHERE wc.oid <= b.rel) ORDER BY 1;
x|-; y|-; z|z

SELECT a.n, b.n, c.oid FROM wa a LEFT JOIN wb AS b (k, n, rel) ON b.k = (SELECT max(x.id) FROM wb x WHERE x.n = a.n AND x.rel = b.rel) LEFT JOIN wc c ON c.oid = b.rel ORDER BY 1;
x|x|10; y|y|10; z|z|20

SELECT a.n, count(b.id) FROM wa a LEFT JOIN wb b ON EXISTS (SELECT 1 FROM wc WHERE wc.oid = b.rel AND wc.t = a.t) GROUP BY 1 ORDER BY 1;
x|2; y|2; z|1

SELECT wa.n, wb.n FROM wa LEFT JOIN wb ON wb.n = wa.n AND wb.rel = ANY (SELECT oid FROM wc WHERE wc.t = wa.t) ORDER BY 1;
x|x; y|y; z|z

UPDATE wa SET t = coalesce(s.n, 'none') FROM (SELECT a.id, b.n FROM wa a LEFT JOIN wb b ON b.id = (SELECT max(id) FROM wb x WHERE x.rel = 10 AND x.id >= a.id)) AS s WHERE s.id = wa.id RETURNING wa.id, wa.t;
1|y; 2|y; 3|none
