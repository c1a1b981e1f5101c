"""Statements that several modules run."""

PRODUCT = "product"
STOCK_OF = f"SELECT price, stock FROM {PRODUCT} WHERE sku = %s FOR UPDATE"
TAKE = "UPDATE {} SET stock = stock - %s WHERE sku = %s".format(PRODUCT)
