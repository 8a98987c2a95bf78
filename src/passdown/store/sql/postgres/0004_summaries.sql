-- A task keeps its sender's summary until another is given: the derived rows are made again.
INSERT INTO rebuilds (due) SELECT 1 WHERE EXISTS (SELECT 1 FROM tasks) ON CONFLICT (due) DO NOTHING;
