-- Derived rows so laid out that a handoff writes fewer pages, and asks fewer parts of the index.

-- Items are added at the end of their table; only a narrow index has to keep them in order.
CREATE TABLE laid_out (
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
    sizes TEXT NOT NULL,
    PRIMARY KEY (task, letter, ordinal)
) STRICT;

INSERT INTO laid_out SELECT * FROM items ORDER BY task, position, letter, ordinal;

DROP TABLE items;

ALTER TABLE laid_out RENAME TO items;

CREATE INDEX items_by_position ON items (task, position);

CREATE INDEX items_open ON items (task, letter) WHERE is_open = 1;

CREATE INDEX items_gates ON items (task, ordinal) WHERE letter = 'k';

CREATE INDEX items_by_path ON items (task, path, ordinal) WHERE path <> '';

-- Numbers of entries are never used twice. The last one is noted when the newest entry goes, and not
-- with every entry that is added.
CREATE TABLE numbers (
    last INTEGER NOT NULL
) STRICT;

INSERT INTO numbers SELECT seq FROM sqlite_sequence WHERE name = 'entries';

-- Whoever wrote any of them: a name stands once, and nothing is written when it is there.
CREATE TABLE authors (
    agent TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE laid_out (
    id INTEGER PRIMARY KEY,
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

INSERT INTO laid_out SELECT * FROM entries ORDER BY id;

INSERT INTO authors SELECT DISTINCT agent FROM entries;

DROP TABLE entries;

ALTER TABLE laid_out RENAME TO entries;

CREATE INDEX entries_by_task ON entries (task, id);

CREATE INDEX entries_by_status ON entries (status, id);

CREATE INDEX entries_by_time ON entries (at);

CREATE TRIGGER entries_name_authors AFTER INSERT ON entries
BEGIN
    INSERT OR IGNORE INTO authors (agent) VALUES (new.agent);
END;

CREATE TRIGGER entries_leave_numbers BEFORE DELETE ON entries
WHEN old.id = (SELECT max(id) FROM entries)
BEGIN
    INSERT INTO numbers (last) VALUES (old.id);
END;

-- How long a text is stands in its entry, so the index needn't keep it too.
CREATE VIRTUAL TABLE indexed USING fts5 (
    words, marks, tokenize = 'ascii', detail = 'full', columnsize = 0
);

-- Every commit leaves a part of the index behind, and a question asks them all. Left to themselves
-- there are a dozen or two; merged early, half as many, for a page more in each commit.
INSERT INTO indexed (indexed, rank) VALUES ('automerge', 2);

INSERT INTO indexed (indexed, rank) VALUES ('crisismerge', 4);

INSERT INTO indexed (rowid, words, marks) SELECT rowid, words, marks FROM texts ORDER BY rowid;

DROP TABLE texts;

ALTER TABLE indexed RENAME TO texts;
