-- Advisory locks, as one connection sees them.
\set VERBOSITY verbose
SELECT pg_advisory_lock(1);
SELECT pg_advisory_lock(1), pg_advisory_lock_shared(1), pg_advisory_lock(1, 2) AS two;
SELECT pg_try_advisory_lock(1), pg_try_advisory_lock_shared(1), pg_try_advisory_xact_lock(1, 2);
SELECT pg_advisory_unlock(1), pg_advisory_unlock(1), pg_advisory_unlock(1), pg_advisory_unlock(1);
SELECT pg_advisory_unlock_shared(1), pg_advisory_unlock_shared(1), pg_advisory_unlock_shared(1);
SELECT pg_advisory_unlock(1, 2), pg_advisory_unlock(1, 2);
SELECT pg_advisory_unlock(-9223372036854775808), pg_advisory_unlock_shared(2147483647, -1);
SELECT pg_advisory_lock(NULL), pg_try_advisory_lock(NULL::bigint);
SELECT pg_advisory_lock('5'), pg_catalog.pg_advisory_unlock('5'::bigint), pg_advisory_unlock(5);
SELECT pg_advisory_lock('a');
SELECT pg_advisory_lock(9);
SELECT pg_advisory_unlock_all();
SELECT pg_advisory_unlock(9);
BEGIN;
SELECT pg_advisory_xact_lock(1), pg_advisory_xact_lock_shared(2, 3);
SELECT pg_advisory_unlock(1);
COMMIT;
PREPARE locks AS SELECT pg_try_advisory_lock($1) AS got;
EXECUTE locks(4);
SELECT pg_advisory_unlock(4);
\gdesc
DEALLOCATE locks;
