-- A task keeps its sender's summary until another is given: the derived rows are made again.
INSERT OR IGNORE INTO rebuilds SELECT 1 WHERE EXISTS (SELECT 1 FROM tasks);
