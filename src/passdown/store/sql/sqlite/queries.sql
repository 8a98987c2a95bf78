-- The statements of the embedded store that PostgreSQL takes in another form, or not at all.

-- name: heads
SELECT name, position, digest FROM streams
WHERE substr(name, 1, length(:prefix)) = :prefix AND name > :after
ORDER BY name LIMIT :limit;

-- name: records_before
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = :stream AND r.position < :before
    AND (:author = '' OR r.author = :author)
    AND (:kinds = '' OR r.kind IN (SELECT value FROM json_each(:kinds)))
ORDER BY r.position DESC LIMIT :limit;

-- name: latest
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE r.seq < :before AND substr(s.name, 1, length(:prefix)) = :prefix
    AND (:kinds = '' OR r.kind IN (SELECT value FROM json_each(:kinds)))
ORDER BY r.seq DESC LIMIT :limit;

-- name: task
SELECT task, version, digest,
    CASE WHEN base_status IN ('completed', 'cancelled') THEN base_status
         WHEN EXISTS (SELECT 1 FROM links l INDEXED BY links_open WHERE l.target = t.task AND l.relation = 'blocks'
                      AND l.closed_seq = 0) THEN 'blocked'
         ELSE base_status END,
    phase, holder, created_seq, updated_seq, header,
    (SELECT details FROM details d WHERE d.task = t.task)
FROM tasks t WHERE task = :task;

-- name: tasks
SELECT * FROM (
    SELECT task, version, digest,
        CASE WHEN base_status IN ('completed', 'cancelled') THEN base_status
             WHEN EXISTS (SELECT 1 FROM links l INDEXED BY links_open WHERE l.target = t.task AND l.relation = 'blocks'
                          AND l.closed_seq = 0) THEN 'blocked'
             ELSE base_status END AS status,
        phase, holder, created_seq, updated_seq, header,
        (SELECT details FROM details d WHERE d.task = t.task)
    FROM tasks t
) WHERE (:status = '' OR status = :status) AND (:phase = '' OR phase = :phase)
    AND (:agent = '' OR holder = :agent) AND created_seq > :after
ORDER BY created_seq LIMIT :limit;

-- name: open_questions
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items INDEXED BY items_open WHERE is_open = 1 AND letter = 'q'
ORDER BY task, ordinal LIMIT :limit;

-- name: open_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items INDEXED BY items_open
WHERE task = :task AND letter IN (SELECT value FROM json_each(:letters)) AND is_open = 1
ORDER BY letter, ordinal;

-- name: all_open_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items INDEXED BY items_open
WHERE task = :task AND is_open = 1 ORDER BY position, letter, ordinal;

-- name: items_at
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items INDEXED BY items_by_position
WHERE task = :task AND position IN (SELECT value FROM json_each(:positions))
ORDER BY letter, ordinal;

-- name: records_at
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = :stream
    AND r.position IN (SELECT value FROM json_each(:positions));

-- name: positions_by
SELECT r.position FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = :stream AND r.position IN (SELECT value FROM json_each(:positions))
    AND r.author = :author;

-- name: known_labels
SELECT wanted.value FROM json_each(:labels) wanted
WHERE EXISTS (SELECT 1 FROM labels l WHERE l.task = :task AND l.label = wanted.value);

-- name: labelled_items
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM items i WHERE i.task = :task AND (i.letter, i.ordinal) IN (
    SELECT l.letter, l.ordinal FROM labels l WHERE l.task = :task AND l.label = :label
    ORDER BY l.letter, l.ordinal DESC LIMIT :limit);

-- name: artifact_at
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = :task AND letter = 'a' AND ordinal = coalesce(
    (SELECT i.ordinal FROM items i INDEXED BY items_by_path
     WHERE i.task = :task AND i.path = :path AND i.path <> '' AND i.position <= :position
     ORDER BY i.ordinal DESC LIMIT 1),
    (SELECT i.ordinal FROM items i INDEXED BY items_by_path
     WHERE i.task = :task AND i.path = :path AND i.path <> '' ORDER BY i.ordinal LIMIT 1));

-- name: known_paths
SELECT p.value, (
    SELECT i.grade FROM items i INDEXED BY items_by_path
    WHERE i.task = :task AND i.path = p.value AND i.path <> '' ORDER BY i.ordinal DESC LIMIT 1)
FROM json_each(:paths) p;

-- name: gates
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items i INDEXED BY items_gates
WHERE letter = 'k' AND (:task = '' OR task = :task) AND (:open_only = 0 OR is_open = 1
    OR (status = 'failed' AND NOT EXISTS (
        SELECT 1 FROM items later INDEXED BY items_gates
        WHERE later.letter = 'k' AND later.task = i.task AND later.ordinal > i.ordinal
            AND later.field = 'gates' AND later.title = i.title)))
ORDER BY task, ordinal;

-- name: open_links_to
SELECT source, relation, target, opened_seq, closed_seq FROM links INDEXED BY links_open
WHERE target = :target AND closed_seq = 0 ORDER BY opened_seq, source;

-- name: superseders
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE relation = 'supersedes' AND target > :task || '#' AND target < :task || '$'
ORDER BY opened_seq, source;

-- name: links_of_task
SELECT source, relation, target, opened_seq, closed_seq FROM links INDEXED BY links_by_source
WHERE source > :task || '#' AND source < :task || '$';

-- name: add_stream
INSERT INTO streams (name, position, digest) VALUES (:stream, :position, :digest);

-- name: append
INSERT INTO records (stream, position, at, author, kind, key, previous, digest, body)
SELECT id, :position, :at, :author, :kind, :key, :previous, :digest, :body
FROM streams WHERE name = :stream
RETURNING seq;

-- name: last_digest
SELECT seq, digest FROM records ORDER BY seq DESC LIMIT 1;

-- name: digest_at
SELECT digest FROM records WHERE seq = :seq;

-- name: add_items
INSERT INTO items (task, letter, ordinal, position, field, idx, status, is_open, title,
    fingerprint, path, closed_at, note, grade, sizes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_labels
INSERT INTO labels (task, label, letter, ordinal) VALUES (?, ?, ?, ?);

-- name: mark_item
UPDATE items SET status = :status, is_open = :is_open, closed_at = :closed_at, note = :note
WHERE task = :task AND letter = :letter AND ordinal = :ordinal;

-- name: add_dependencies
INSERT INTO dependencies (task, needs) VALUES (?, ?);

-- name: put_inbox
INSERT INTO inbox (agent, task, position, held) VALUES (:agent, :task, :position, :held)
ON CONFLICT (task) DO UPDATE SET agent = excluded.agent, position = excluded.position,
    held = excluded.held;

-- name: look_at_texts
SELECT rowid FROM texts LIMIT 1;

-- name: check_pages
PRAGMA integrity_check(20);

-- SQLite's own count of numbers that no table uses any more: it goes when the file is vacuumed.

-- name: schema_rows
SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE name <> 'sqlite_sequence'
ORDER BY type, name, tbl_name;

-- name: next_entry
SELECT max(coalesce((SELECT max(id) FROM entries), 0), coalesce((SELECT max(last) FROM numbers), 0)) + 1;

-- name: add_entries
INSERT INTO entries (id, address, task, kind, agent, at, status, position, length, traits, heads,
    passage)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_texts
INSERT INTO texts (rowid, words, marks) VALUES (?, ?, ?);

-- name: mark_entries
UPDATE entries SET status = CASE WHEN EXISTS (
    SELECT 1 FROM edges g INDEXED BY edges_by_target
    WHERE g.target = entries.address AND g.relation = 'supersedes'
        AND substr(g.source, 1, length(entries.task) + 1) <> entries.task || '#'
) THEN 'superseded' ELSE ?1 END
WHERE address = ?2;

-- name: drop_text
DELETE FROM texts WHERE rowid = (SELECT id FROM entries WHERE address = :address);

-- name: drop_entry
DELETE FROM entries WHERE address = :address;

-- name: add_edges
INSERT INTO edges (source, relation, target, attributes, task, position)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (source, relation, target) DO UPDATE SET attributes = excluded.attributes,
    task = excluded.task, position = excluded.position
WHERE excluded.attributes <> attributes AND excluded.attributes <> '{}';

-- name: add_tags
INSERT INTO tags (tag, node) VALUES (?, ?) ON CONFLICT (tag, node) DO NOTHING;

-- name: matching_at
SELECT rowid FROM texts WHERE texts MATCH :query ORDER BY rowid LIMIT 1 OFFSET :before;

-- name: matching
SELECT json_group_array(rowid) FROM (
    SELECT rowid FROM texts WHERE texts MATCH :query AND rowid BETWEEN :first AND :last
    ORDER BY rowid DESC LIMIT :limit);

-- name: entries_with_status
SELECT id FROM entries INDEXED BY entries_by_status
WHERE status IN (SELECT value FROM json_each(:statuses)) AND at >= :since AND at <= :until
LIMIT :limit;

-- name: entries_at_times
SELECT id FROM entries INDEXED BY entries_by_time
WHERE at >= :since AND at <= :until LIMIT :limit;

-- name: mark_superseded
UPDATE entries SET status = 'superseded'
WHERE id >= :first AND kind = 'decision' AND EXISTS (
    SELECT 1 FROM edges g INDEXED BY edges_by_target
    WHERE g.target = entries.address AND g.relation = 'supersedes');

-- name: entries
SELECT e.id, e.address, e.task, e.kind, e.agent, e.at,
    e.status, e.position, e.length, e.traits
FROM json_each(:ids) j CROSS JOIN entries e ON e.id = j.value;

-- What the index keeps of a text lies in a table of its own, whose columns are numbered; read there
-- it takes half the time.

-- name: words_of
SELECT t.id, t.c0 FROM json_each(:ids) j CROSS JOIN texts_content t ON t.id = j.value;

-- The kind is looked for in the entries that have a mark: nearly always there are none, and asked for
-- in the index it would be one more mark to look up in each of its parts, that of most entries.

-- name: sharing_marks
SELECT e.address, e.kind, e.agent, e.status, t.c0
FROM texts m
CROSS JOIN entries e ON e.id = m.rowid AND e.kind = :kind
CROSS JOIN texts_content t ON t.id = e.id
WHERE m.texts MATCH :query ORDER BY m.rowid DESC LIMIT :limit;

-- name: looked_at
SELECT e.id, e.address, e.task, e.kind, e.agent, e.at,
    e.status, e.position, e.length, e.traits, e.heads, t.c0, t.c1
FROM json_each(:ids) j CROSS JOIN entries e ON e.id = j.value
CROSS JOIN texts_content t ON t.id = e.id;

-- name: marks_of
SELECT t.id, t.c1 FROM json_each(:ids) j CROSS JOIN texts_content t ON t.id = j.value;

-- name: around
SELECT c.id,
    (SELECT p.id FROM entries p INDEXED BY entries_by_task
     WHERE p.task = c.task AND p.id < c.id ORDER BY p.id DESC LIMIT 1),
    (SELECT p.id FROM entries p INDEXED BY entries_by_task
     WHERE p.task = c.task AND p.id < c.id ORDER BY p.id DESC LIMIT 1 OFFSET 1),
    (SELECT n.id FROM entries n INDEXED BY entries_by_task
     WHERE n.task = c.task AND n.id > c.id ORDER BY n.id LIMIT 1),
    (SELECT n.id FROM entries n INDEXED BY entries_by_task
     WHERE n.task = c.task AND n.id > c.id ORDER BY n.id LIMIT 1 OFFSET 1)
FROM json_each(:ids) j CROSS JOIN entries c ON c.id = j.value;

-- name: authors
SELECT agent FROM authors ORDER BY agent LIMIT 1000;

-- name: entries_of_task
SELECT e.address, e.task, e.kind, e.agent, e.at, e.status, e.position, e.length, e.traits,
    e.heads, e.passage, t.c0, t.c1
FROM entries e INDEXED BY entries_by_task CROSS JOIN texts_content t ON t.id = e.id
WHERE e.task = :task ORDER BY e.id;

-- name: edges_to
SELECT source, relation, target, attributes, task, position FROM edges INDEXED BY edges_by_target
WHERE target = :target AND (:relation = '' OR relation = :relation)
ORDER BY source, relation, target LIMIT :limit;

-- What supersedes some decisions, what supersedes that, and so on: each place once, so that a circle
-- ends. With each comes what it supersedes.

-- name: superseding
WITH RECURSIVE later (address) AS (
    SELECT value FROM json_each(:addresses)
    UNION
    SELECT g.source FROM later l CROSS JOIN edges g INDEXED BY edges_by_target
        ON g.target = l.address AND g.relation = 'supersedes'
    LIMIT :most
)
SELECT l.address, e.id, e.address, e.task, e.kind, e.agent, e.at,
    e.status, e.position, e.length, e.traits
FROM later l
CROSS JOIN edges g INDEXED BY edges_by_target ON g.target = l.address AND g.relation = 'supersedes'
CROSS JOIN entries e ON e.address = g.source;

-- name: tagged
SELECT node, count(*) FROM tags WHERE tag IN (SELECT value FROM json_each(:tags))
GROUP BY node ORDER BY count(*) DESC, node LIMIT :limit;

-- name: context_map
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes, max(r.seq)
FROM items i
JOIN streams s ON s.name = 'task/' || i.task
JOIN records r ON r.stream = s.id AND r.position = i.position
WHERE i.path <> '' AND (:task = '' OR i.task = :task)
GROUP BY i.path HAVING i.grade <> '' ORDER BY max(r.seq) DESC LIMIT :limit;

-- name: open_everywhere
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM items i INDEXED BY items_open
WHERE i.letter = :letter AND i.is_open = 1 AND (:task = '' OR i.task = :task)
ORDER BY i.task, i.ordinal LIMIT :limit;

-- name: entries_of_kind
SELECT e.id, e.address, e.task, e.kind, e.agent, e.at, e.status, e.position, e.length, e.traits
FROM (
    SELECT rowid AS id FROM texts WHERE texts MATCH :query AND rowid < :before
    ORDER BY rowid DESC LIMIT :limit) t
CROSS JOIN entries e ON e.id = t.id
WHERE e.kind = :kind ORDER BY e.id DESC;

-- name: latest_gotchas
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM (
    SELECT rowid AS id FROM texts WHERE texts MATCH :query) t
CROSS JOIN entries e ON e.id = t.id
CROSS JOIN items i ON i.task = e.task AND i.letter = 'g'
    AND i.ordinal = CAST(substr(e.address, length(e.task) + 3) AS INTEGER)
WHERE i.grade = :grade AND i.status IN ('active', 'open') ORDER BY e.id DESC LIMIT :limit;

-- name: forget_entries
DELETE FROM entries;
DELETE FROM authors;

-- name: forget_numbers
DELETE FROM numbers;

-- name: add_embedder
INSERT INTO embedders (name, dimensions, done) VALUES (:name, :dimensions, 0)
ON CONFLICT (name) DO NOTHING;

-- name: embedded_up_to
UPDATE embedders SET done = max(done, :done) WHERE id = :id;

-- name: add_vectors
INSERT OR REPLACE INTO vectors (embedder, id, passage, vector) VALUES (?, ?, ?, ?);

-- name: drop_embedder
DELETE FROM embedders WHERE id = :id;

-- name: vectors_of
SELECT v.id, v.vector FROM json_each(:ids) j
CROSS JOIN vectors v ON v.embedder = :embedder AND v.id = j.value;

-- name: load_tasks
INSERT INTO tasks (task, version, digest, base_status, phase, holder, created_seq,
    updated_seq, header)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: load_links
INSERT INTO links (source, relation, target, opened_seq, closed_seq)
VALUES (?, ?, ?, ?, ?);

-- name: load_inbox
INSERT INTO inbox (agent, task, position, held)
VALUES (?, ?, ?, ?);

-- name: page_texts
SELECT rowid, words, marks
FROM texts WHERE rowid > :id
ORDER BY rowid LIMIT :limit;

-- name: load_embedders
INSERT INTO embedders (id, name, dimensions, done)
VALUES (?, ?, ?, ?);

-- name: load_heads
INSERT INTO streams (name, position, digest) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET position = excluded.position, digest = excluded.digest;

-- name: load_records
INSERT INTO records (seq, stream, position, at, author, kind, key, previous, digest, body)
SELECT ?2, id, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 FROM streams WHERE name = ?1;

-- name: load_number
INSERT INTO numbers (last) VALUES (:last);

-- name: note_rebuild
INSERT OR IGNORE INTO rebuilds (due) VALUES (1);
