\dt orders
\d customers
\d orders
\d every_type
\d orders_pkey
\d nothing
\di customers*
\df add
\df divide
\df notes_from
\df write_note
\dv
\ds
\dt *.nothing
SELECT 'orders'::regclass, 'pg_class'::regclass::oid, to_regclass('nothing');
SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' AND table_name LIKE '%s' ORDER BY 1;
SELECT 'nothing'::regclass;
