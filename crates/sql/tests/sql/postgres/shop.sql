CREATE SCHEMA shop;
CREATE TYPE shop.order_status AS ENUM ('cart', 'placed', 'paid', 'shipped');
CREATE TABLE shop.customers (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  email text NOT NULL,
  profile jsonb NOT NULL DEFAULT '{}',
  credit numeric(12,2) NOT NULL DEFAULT 0 CHECK (credit >= 0),
  tags text[] NOT NULL DEFAULT ARRAY[]::text[],
  created_at timestamptz NOT NULL DEFAULT now(),
  deleted_at timestamptz
);
CREATE UNIQUE INDEX customers_email ON shop.customers (lower(email)) WHERE deleted_at IS NULL;
CREATE TABLE shop.products (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  sku varchar(40) NOT NULL UNIQUE,
  title text NOT NULL,
  price numeric(10,2) NOT NULL CHECK (price > 0),
  stock integer NOT NULL DEFAULT 0 CONSTRAINT stock_not_negative CHECK (stock >= 0),
  search tsvector GENERATED ALWAYS AS (to_tsvector('simple', title)) STORED,
  attributes hstore
);
CREATE INDEX ON shop.products USING gin (search);
CREATE TABLE shop.orders (
  id bigserial PRIMARY KEY,
  customer_id uuid NOT NULL REFERENCES shop.customers (id) ON DELETE RESTRICT,
  status shop.order_status NOT NULL DEFAULT 'cart',
  total numeric(12,2) NOT NULL DEFAULT 0,
  placed_at timestamptz,
  CONSTRAINT placed CHECK (status = 'cart' OR placed_at IS NOT NULL)
);
CREATE TABLE shop.lines (
  order_id bigint NOT NULL REFERENCES shop.orders (id) ON DELETE CASCADE,
  product_id bigint NOT NULL REFERENCES shop.products (id),
  quantity integer NOT NULL CHECK (quantity > 0),
  price numeric(10,2) NOT NULL,
  PRIMARY KEY (order_id, product_id)
);
CREATE TABLE shop.jobs (
  id bigserial PRIMARY KEY, queue text NOT NULL, payload jsonb NOT NULL, run_at timestamptz NOT NULL DEFAULT now(),
  attempts smallint NOT NULL DEFAULT 0, locked_by text
);
CREATE VIEW shop.recent AS SELECT id, customer_id, total FROM shop.orders WHERE placed_at > now() - interval '7 days';

-- name: Register :one
INSERT INTO shop.customers (email, profile) VALUES ($1, $2::jsonb) RETURNING *;
-- name: PatchProfile :exec
UPDATE shop.customers SET profile = jsonb_set(profile, '{theme}', to_jsonb($2::text)) WHERE id = $1;
-- name: Tag :exec
UPDATE shop.customers SET tags = array_append(tags, $2) WHERE id = $1 AND NOT ($2 = ANY(tags));
-- name: FindByTheme :many
SELECT id, profile->>'theme' AS theme FROM shop.customers WHERE profile @> '{"active": true}' AND email ILIKE $1 ORDER BY created_at DESC LIMIT 20;
-- name: SoftDelete :exec
UPDATE shop.customers SET deleted_at = now() WHERE id = $1;
-- name: AddLine :exec
INSERT INTO shop.lines (order_id, product_id, quantity, price)
SELECT $1, p.id, $3, p.price FROM shop.products p WHERE p.sku = $2
ON CONFLICT (order_id, product_id) DO UPDATE SET quantity = lines.quantity + excluded.quantity;
-- name: Place :exec
UPDATE shop.orders o SET status = 'placed', placed_at = now(),
  total = (SELECT coalesce(sum(l.quantity * l.price), 0) FROM shop.lines l WHERE l.order_id = o.id)
WHERE o.id = $1 AND o.status = 'cart';
-- name: Reserve :exec
UPDATE shop.products SET stock = stock - $2 WHERE id = $1 AND stock >= $2;
-- name: Restock :exec
UPDATE shop.products p SET stock = p.stock + v.n FROM unnest($1::bigint[], $2::integer[]) AS v(id, n) WHERE p.id = v.id;
-- name: Pay :exec
WITH paid AS (UPDATE shop.orders SET status = 'paid' WHERE id = $1 AND status = 'placed' RETURNING customer_id, total)
UPDATE shop.customers c SET credit = credit - paid.total FROM paid WHERE c.id = paid.customer_id;
-- name: TakeJob :one
UPDATE shop.jobs SET locked_by = $1, attempts = attempts + 1
WHERE id = (SELECT id FROM shop.jobs WHERE queue = $2 AND locked_by IS NULL AND run_at <= now() ORDER BY run_at FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING id, payload;
-- name: Enqueue :exec
INSERT INTO shop.jobs (queue, payload, run_at) VALUES ($1, $2, now() + make_interval(secs => $3));
-- name: Finish :exec
DELETE FROM shop.jobs WHERE id = $1;
-- name: Search :many
SELECT id, ts_rank(search, plainto_tsquery($1)) AS rank FROM shop.products WHERE search @@ plainto_tsquery($1) ORDER BY rank DESC;
-- name: Sales :many
SELECT date_trunc('day', placed_at) AS day, count(*), sum(total), percentile_cont(0.5) WITHIN GROUP (ORDER BY total) FROM shop.orders GROUP BY 1 ORDER BY 1;
-- name: Ranked :many
SELECT customer_id, total, rank() OVER (PARTITION BY customer_id ORDER BY total DESC) FROM shop.orders;
-- name: LastOrders :many
SELECT DISTINCT ON (customer_id) customer_id, id, total FROM shop.orders ORDER BY customer_id, placed_at DESC;
-- name: ByIds :many
SELECT * FROM shop.products WHERE id = ANY($1::bigint[]);
-- name: Recent :many
SELECT r.id, c.email FROM shop.recent r JOIN shop.customers c ON c.id = r.customer_id;
-- name: Purge :execrows
DELETE FROM shop.orders o USING shop.customers c WHERE c.id = o.customer_id AND c.deleted_at < now() - interval '30 days';
-- name: Doc :one
SELECT json_build_object('id', o.id, 'lines', (SELECT json_agg(l) FROM shop.lines l WHERE l.order_id = o.id)) FROM shop.orders o WHERE o.id = $1;
-- name: Expand :many
SELECT c.id, e.key FROM shop.customers c, jsonb_each(c.profile) e WHERE c.id = $1;
CREATE DOMAIN shop.percent AS integer DEFAULT 0 CHECK (VALUE BETWEEN 0 AND 100) NOT NULL;
ALTER TYPE shop.order_status ADD VALUE IF NOT EXISTS 'returned' AFTER 'shipped';
ALTER TABLE shop.products ADD COLUMN discount shop.percent, ADD CONSTRAINT cheap CHECK (price < 100000) NOT VALID;
ALTER TABLE ONLY shop.jobs ALTER COLUMN attempts SET DATA TYPE shop.percent USING attempts::integer, DROP CONSTRAINT IF EXISTS nothing;
CREATE FUNCTION shop.discounted(p_id bigint, p_by shop.percent) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
  before shop.percent := 0;
BEGIN
  SELECT discount INTO before FROM shop.products WHERE id = p_id FOR NO KEY UPDATE;
  IF before + p_by > 100 THEN RAISE EXCEPTION 'too much'; END IF;
  UPDATE shop.products SET discount = before + p_by::shop.percent WHERE id = p_id;
  RETURN before;
END $$;
-- migrate:down
DROP TABLE shop.jobs;
