-- A gotcha is found by its severity: the derived rows are made again.
INSERT INTO rebuilds (due) SELECT 1 WHERE EXISTS (SELECT 1 FROM tasks) ON CONFLICT (due) DO NOTHING;
