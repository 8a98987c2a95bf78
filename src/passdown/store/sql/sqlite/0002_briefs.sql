-- What a brief needs to know of an item without reading its record: how long its texts are, and
-- the tags and paths that it is filed under.

ALTER TABLE items ADD COLUMN sizes TEXT NOT NULL DEFAULT '';

CREATE TABLE labels (
    task TEXT NOT NULL,
    label TEXT NOT NULL,
    letter TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    PRIMARY KEY (task, label, letter, ordinal)
) STRICT, WITHOUT ROWID;

-- Rows that an earlier release derived lack what this one adds; they are made again at the next
-- opening.
CREATE TABLE rebuilds (
    due INTEGER PRIMARY KEY
) STRICT;

INSERT INTO rebuilds SELECT 1 WHERE EXISTS (SELECT 1 FROM tasks);
