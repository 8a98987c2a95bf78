-- What search, the knowledge graph and the journal need. All of it is derived from records but for
-- vectors, which are made from passages by whoever has time, and can be made again.

-- One row for everything that can be searched for; `id` grows with time and is never used twice.
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL,
    kind TEXT NOT NULL,
    agent TEXT NOT NULL,
    at TEXT NOT NULL,
    status TEXT NOT NULL,
    position INTEGER NOT NULL,
    length INTEGER NOT NULL,
    traits INTEGER NOT NULL,
    heads TEXT NOT NULL,
    passage BLOB NOT NULL
) STRICT;

CREATE INDEX entries_by_task ON entries (task, id);

CREATE INDEX entries_by_agent ON entries (agent, id);

CREATE INDEX entries_by_status ON entries (status, id);

CREATE INDEX entries_by_time ON entries (at);

-- The words of each entry as they are compared, and the marks that filters ask for.
CREATE VIRTUAL TABLE texts USING fts5 (words, marks, tokenize = 'ascii', detail = 'full');

CREATE TABLE knowledge (
    id TEXT PRIMARY KEY,
    type TEXT NOT NULL,
    summary TEXT NOT NULL,
    tags TEXT NOT NULL,
    attributes TEXT NOT NULL,
    task TEXT NOT NULL,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE edges (
    source TEXT NOT NULL,
    relation TEXT NOT NULL,
    target TEXT NOT NULL,
    attributes TEXT NOT NULL,
    task TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (source, relation, target)
) STRICT, WITHOUT ROWID;

CREATE INDEX edges_by_target ON edges (target, relation);

CREATE TABLE tags (
    tag TEXT NOT NULL,
    node TEXT NOT NULL,
    PRIMARY KEY (tag, node)
) STRICT, WITHOUT ROWID;

CREATE INDEX tags_by_node ON tags (node);

-- Who made vectors, and up to which entry all of them are there.
CREATE TABLE embedders (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL,
    done INTEGER NOT NULL
) STRICT;

CREATE TABLE vectors (
    embedder INTEGER NOT NULL,
    id INTEGER NOT NULL,
    passage BLOB NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (embedder, id)
) STRICT, WITHOUT ROWID;

INSERT OR IGNORE INTO rebuilds SELECT 1 WHERE EXISTS (SELECT 1 FROM tasks);
