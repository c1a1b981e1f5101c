'use strict';
const express = require('express');
const { Pool } = require('pg');
const { creditOf } = require('./queries');

const pool = new Pool();
const app = express();

app.post('/orders', async (req, res) => {
  const { customer, amount } = req.body;
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const { rows } = await client.query(creditOf, [customer]);
    if (rows[0].credit < amount) {
      await client.query('ROLLBACK');
      return res.status(409).end();
    }
    await client.query('UPDATE customer SET credit = credit - $1 WHERE id = $2', [amount, customer]);
    await client.query({
      text: 'INSERT INTO orders (customer_id, amount) VALUES ($1, $2)',
      values: [customer, amount],
    });
    await client.query('COMMIT');
    res.status(201).end();
  } catch (e) {
    await client.query('ROLLBACK');
    throw e;
  } finally {
    client.release();
  }
});

async function register(db, id, email) {
  const found = await db.query('SELECT id FROM customer WHERE email = $1', [email]);
  if (found.rows.length > 0) {
    throw new Error('taken');
  }
  await db.query('INSERT INTO customer (id, email, credit) VALUES ($1, $2, 0)', [id, email]);
}

const orders = async (knex, filter) => knex.raw('SELECT id FROM orders WHERE ' + filter);

module.exports = { app, register, orders };
