-- The row of a handoff keeps only what its record doesn't say, and marks of near-duplicates are
-- shorter: the derived rows are made again.
INSERT INTO rebuilds (due) SELECT 1 WHERE EXISTS (SELECT 1 FROM tasks) ON CONFLICT (due) DO NOTHING;
