CREATE TABLE customers (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, contact TEXT NOT NULL, email TEXT NOT NULL, phone TEXT NOT NULL,
    city TEXT NOT NULL, segment TEXT NOT NULL, status TEXT NOT NULL, terms INTEGER NOT NULL,
    credit_limit INTEGER NOT NULL, since TEXT NOT NULL, newsletter INTEGER NOT NULL, notes TEXT NOT NULL
);
CREATE TABLE customer_tags (
    customer INTEGER NOT NULL REFERENCES customers(id) ON DELETE CASCADE, tag TEXT NOT NULL,
    PRIMARY KEY (customer, tag)
);
CREATE TABLE invoices (
    id INTEGER PRIMARY KEY, number TEXT NOT NULL UNIQUE, customer INTEGER NOT NULL REFERENCES customers(id),
    issued TEXT NOT NULL, due TEXT NOT NULL, amount INTEGER NOT NULL, status TEXT NOT NULL, method TEXT NOT NULL,
    note TEXT NOT NULL
);
CREATE TABLE roles (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE role_permissions (
    role INTEGER NOT NULL REFERENCES roles(id), permission TEXT NOT NULL, PRIMARY KEY (role, permission)
);
CREATE TABLE staff (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, department TEXT NOT NULL,
    role INTEGER NOT NULL REFERENCES roles(id), manager INTEGER REFERENCES staff(id), started TEXT NOT NULL,
    hours INTEGER NOT NULL, active INTEGER NOT NULL
);
CREATE TABLE audit (id INTEGER PRIMARY KEY, at TEXT NOT NULL, entry TEXT NOT NULL);
