# name: Register
INSERT INTO customers (email, name) VALUES (?, ?);

-- name: Rename
UPDATE `customers` SET `name` = ? WHERE id = ?;

-- name: Pay
UPDATE customers SET credit = credit - ? WHERE id = ?;

-- name: Place
INSERT INTO orders (customer_id) VALUES (?);

-- name: AddLine
INSERT INTO order_lines (order_id, product_id, quantity) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE quantity = quantity + VALUES(quantity);

-- name: Ship
UPDATE products SET stock = stock - ?, sold = sold + ? WHERE id = ?;

-- name: Restock
UPDATE products SET stock = stock + 10 WHERE id = ?;

-- name: Offer
INSERT IGNORE INTO products (id, title) VALUES (?, 'it\'s new');

-- name: Page
SELECT id, sold FROM sellers ORDER BY id LIMIT ?, 20;

-- name: Cancel
DELETE FROM orders WHERE id = ?;

-- name: Locked
SELECT IFNULL(seen, now()) FROM customers WHERE id = ? LOCK IN SHARE MODE;
