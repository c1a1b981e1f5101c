-- name: Register
INSERT INTO customers (email, name) VALUES ($1, $2);

-- name: Rename
UPDATE customers SET name = $1 WHERE id = $2;

-- name: Pay
UPDATE customers SET credit = credit - $1 WHERE id = $2;

-- name: Place
INSERT INTO orders (customer_id) VALUES ($1);

-- name: AddLine
INSERT INTO order_lines (order_id, product_id, quantity) VALUES ($1, $2, $3)
ON CONFLICT (order_id, product_id) DO UPDATE SET quantity = order_lines.quantity + excluded.quantity;

-- name: Ship
UPDATE products SET stock = stock - $1, sold = sold + $2 WHERE id = $3;

-- name: Restock
UPDATE products SET stock = stock + 10 WHERE id = $1;

-- name: Offer
INSERT INTO products (id, title) VALUES ($1, 'it''s new') ON CONFLICT DO NOTHING;

-- name: Page
SELECT id, sold FROM sellers ORDER BY id LIMIT 20 OFFSET $1;

-- name: Cancel
DELETE FROM orders WHERE id = $1;

-- name: Locked
SELECT coalesce(seen, now()) FROM customers WHERE id = $1 FOR SHARE;
