-- The row of a handoff keeps what a repeat answers: the derived rows are made again.
INSERT OR IGNORE INTO rebuilds SELECT 1 WHERE EXISTS (SELECT 1 FROM tasks);
