-- The ledger and the rows derived from it. Records are only ever added; every other table can be
-- made again from them.

CREATE TABLE migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at TEXT NOT NULL
) STRICT;

CREATE TABLE streams (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    position INTEGER NOT NULL,
    digest TEXT NOT NULL
) STRICT;

CREATE TABLE records (
    seq INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL REFERENCES streams (id),
    position INTEGER NOT NULL,
    at TEXT NOT NULL,
    author TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    previous TEXT NOT NULL,
    digest TEXT NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (stream, position),
    UNIQUE (stream, key)
) STRICT;

CREATE TRIGGER records_stay_as_written BEFORE UPDATE ON records
BEGIN
    SELECT RAISE(ABORT, 'records are only ever added');
END;

CREATE TRIGGER records_stay BEFORE DELETE ON records
BEGIN
    SELECT RAISE(ABORT, 'records are only ever added');
END;

CREATE TABLE tasks (
    task TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    base_status TEXT NOT NULL,
    phase TEXT NOT NULL,
    holder TEXT NOT NULL,
    created_seq INTEGER NOT NULL,
    updated_seq INTEGER NOT NULL,
    header TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Apart from tasks, so that a long description isn't written again with every record.
CREATE TABLE details (
    task TEXT PRIMARY KEY,
    details TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE items (
    task TEXT NOT NULL,
    letter TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    position INTEGER NOT NULL,
    field TEXT NOT NULL,
    idx INTEGER NOT NULL,
    status TEXT NOT NULL,
    is_open INTEGER NOT NULL,
    title TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    path TEXT NOT NULL,
    closed_at INTEGER NOT NULL,
    note TEXT NOT NULL,
    grade TEXT NOT NULL,
    PRIMARY KEY (task, letter, ordinal)
) STRICT, WITHOUT ROWID;

CREATE INDEX items_by_position ON items (task, position);

CREATE INDEX items_open ON items (task, letter) WHERE is_open = 1;

CREATE INDEX items_gates ON items (task, ordinal) WHERE letter = 'k';

CREATE INDEX items_by_path ON items (task, path, ordinal) WHERE path <> '';

CREATE TABLE links (
    source TEXT NOT NULL,
    relation TEXT NOT NULL,
    target TEXT NOT NULL,
    opened_seq INTEGER NOT NULL,
    closed_seq INTEGER NOT NULL,
    PRIMARY KEY (target, relation, source)
) STRICT, WITHOUT ROWID;

CREATE INDEX links_by_source ON links (source);

CREATE INDEX links_open ON links (target, relation) WHERE closed_seq = 0;

CREATE TABLE dependencies (
    task TEXT NOT NULL,
    needs TEXT NOT NULL,
    PRIMARY KEY (task, needs)
) STRICT, WITHOUT ROWID;

CREATE INDEX dependencies_by_need ON dependencies (needs, task);

CREATE TABLE inbox (
    agent TEXT NOT NULL,
    task TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    held INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX inbox_by_agent ON inbox (agent, task);
