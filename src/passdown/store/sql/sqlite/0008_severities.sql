-- A gotcha is found by its severity: the derived rows are made again.
INSERT OR IGNORE INTO rebuilds SELECT 1 WHERE EXISTS (SELECT 1 FROM tasks);
