"""A shop on psycopg, with a report through SQLAlchemy."""
from sqlalchemy import text

import statements
from statements import STOCK_OF


class OutOfStock(Exception):
    pass


class Shop:
    def __init__(self, conn):
        self.conn = conn

    def add_item(self, basket, sku, quantity):
        with self.conn.cursor() as cur:
            cur.execute(STOCK_OF, (sku,))
            row = cur.fetchone()
            if row is None:
                raise KeyError(sku)
            price, stock = row
            if stock < quantity:
                raise OutOfStock(sku)
            cur.execute(statements.TAKE, (quantity, sku))
            cur.execute(
                "INSERT INTO item (basket_id, sku, quantity) "
                "VALUES (%(basket)s, %(sku)s, %(quantity)s)",
                {"basket": basket, "sku": sku, "quantity": quantity},
            )
            self._charge(cur, basket, price * quantity)
        self.conn.commit()

    def _charge(self, cur, basket, amount):
        cur.execute("UPDATE basket SET total = total + %s WHERE id = %s", (amount, basket))

    def open_basket(self, customer):
        cur = self.conn.cursor()
        cur.execute("SELECT max(id) FROM basket")
        last = cur.fetchone()[0]
        cur.execute("INSERT INTO basket (id, customer, total) VALUES (%s, %s, 0)", (last + 1, customer))
        self.conn.commit()

    def remove_all(self, baskets):
        cur = self.conn.cursor()
        for basket in baskets:
            cur.execute("DELETE FROM item WHERE basket_id = %s", [basket])
            cur.execute("DELETE FROM basket WHERE id = %s", [basket])

    def search(self, order, descending):
        direction = "DESC" if descending else "ASC"
        with self.conn.cursor() as cur:
            cur.execute("SELECT sku FROM product ORDER BY price " + direction)
            cheap = cur.fetchall()
            cur.execute(f"SELECT sku FROM product ORDER BY {order}")
            return cheap, cur.fetchall()


def totals(session, customer):
    statement = text("SELECT sum(total) FROM basket WHERE customer = :who")
    return session.execute(statement, {"who": customer}).scalar()
