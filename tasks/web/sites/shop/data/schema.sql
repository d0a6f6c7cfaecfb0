CREATE TABLE customer (name TEXT NOT NULL, email TEXT NOT NULL, newsletter INTEGER NOT NULL);
CREATE TABLE category (id INTEGER PRIMARY KEY, slug TEXT UNIQUE NOT NULL, name TEXT NOT NULL);
CREATE TABLE product (
    id INTEGER PRIMARY KEY, category_id INTEGER NOT NULL REFERENCES category, name TEXT UNIQUE NOT NULL,
    brand TEXT NOT NULL, price INTEGER NOT NULL, material TEXT NOT NULL, weight INTEGER NOT NULL,
    warranty INTEGER NOT NULL, description TEXT NOT NULL, added_on TEXT NOT NULL);
CREATE TABLE variant (
    id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL REFERENCES product, size TEXT NOT NULL, colour TEXT NOT NULL,
    stock INTEGER NOT NULL, UNIQUE (product_id, size, colour));
CREATE TABLE review (
    id INTEGER PRIMARY KEY, product_id INTEGER NOT NULL REFERENCES product, author TEXT NOT NULL,
    stars INTEGER NOT NULL, title TEXT NOT NULL, body TEXT NOT NULL, written_at TEXT NOT NULL,
    UNIQUE (product_id, author));
CREATE TABLE coupon (
    code TEXT PRIMARY KEY, percent INTEGER NOT NULL, minimum INTEGER NOT NULL, expires_on TEXT NOT NULL);
CREATE TABLE cart_line (variant_id INTEGER PRIMARY KEY REFERENCES variant, quantity INTEGER NOT NULL);
CREATE TABLE cart_coupon (code TEXT PRIMARY KEY REFERENCES coupon);
CREATE TABLE address (
    id INTEGER PRIMARY KEY, label TEXT UNIQUE NOT NULL, name TEXT NOT NULL, street TEXT NOT NULL, city TEXT NOT NULL,
    postcode TEXT NOT NULL, is_default INTEGER NOT NULL);
CREATE TABLE delivery (one INTEGER PRIMARY KEY CHECK (one = 1), address_id INTEGER NOT NULL, shipping TEXT NOT NULL);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, placed_at TEXT NOT NULL, status TEXT NOT NULL, recipient TEXT NOT NULL,
    street TEXT NOT NULL, city TEXT NOT NULL, postcode TEXT NOT NULL, shipping TEXT NOT NULL, payment TEXT NOT NULL,
    gift_message TEXT NOT NULL, coupon TEXT, subtotal INTEGER NOT NULL, discount INTEGER NOT NULL,
    shipping_cost INTEGER NOT NULL, total INTEGER NOT NULL);
CREATE TABLE order_line (
    order_id INTEGER NOT NULL REFERENCES orders, variant_id INTEGER NOT NULL REFERENCES variant,
    quantity INTEGER NOT NULL, price INTEGER NOT NULL, PRIMARY KEY (order_id, variant_id));
CREATE TABLE return_request (
    order_id INTEGER NOT NULL, variant_id INTEGER NOT NULL, quantity INTEGER NOT NULL, reason TEXT NOT NULL,
    comment TEXT NOT NULL, requested_at TEXT NOT NULL, PRIMARY KEY (order_id, variant_id));
CREATE TABLE wishlist (product_id INTEGER PRIMARY KEY REFERENCES product, added_at TEXT NOT NULL);
