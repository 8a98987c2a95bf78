-- Every statement the store runs, by name. Values are bound; nothing here is put together from text.

-- name: head
SELECT name, position, digest FROM streams WHERE name = :stream;

-- name: heads
SELECT name, position, digest FROM streams
WHERE substr(name, 1, length(:prefix)) = :prefix AND name > :after
ORDER BY name LIMIT :limit;

-- name: records
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = :stream AND r.position > :after AND r.position <= :until
ORDER BY r.position LIMIT :limit;

-- name: tip
SELECT s.position, s.digest, k.position,
    s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM streams s
LEFT JOIN records r ON r.stream = s.id AND r.position = s.position
LEFT JOIN records k ON k.stream = s.id AND k.key = :key
WHERE s.name = :stream;

-- name: records_before
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = :stream AND r.position < :before
    AND (:author = '' OR r.author = :author)
    AND (:kinds = '' OR r.kind IN (SELECT value FROM json_each(:kinds)))
ORDER BY r.position DESC LIMIT :limit;

-- name: record_by_key
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = :stream AND r.key = :key;

-- name: tail
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE r.seq > :after ORDER BY r.seq LIMIT :limit;

-- name: latest
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE r.seq < :before AND substr(s.name, 1, length(:prefix)) = :prefix
    AND (:kinds = '' OR r.kind IN (SELECT value FROM json_each(:kinds)))
ORDER BY r.seq DESC LIMIT :limit;

-- name: totals
SELECT (SELECT count(*) FROM streams), (SELECT coalesce(max(seq), 0) FROM records);

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

-- name: items_since
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = :task AND position > :after ORDER BY position, letter, ordinal;

-- name: items_at
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items INDEXED BY items_by_position
WHERE task = :task AND position = :position ORDER BY letter, ordinal;

-- name: items_of_kind
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = :task AND letter = :letter AND ordinal > :after
ORDER BY ordinal LIMIT :limit;

-- name: items_before
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = :task AND letter = :letter AND ordinal < :before
ORDER BY ordinal DESC LIMIT :limit;

-- name: titles_before
SELECT ordinal, title FROM items
WHERE task = :task AND letter = :letter AND ordinal < :before
ORDER BY ordinal DESC LIMIT :limit;

-- name: known_labels
SELECT wanted.value FROM json_each(:labels) wanted
WHERE EXISTS (SELECT 1 FROM labels l WHERE l.task = :task AND l.label = wanted.value);

-- name: labelled_items
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM items i WHERE i.task = :task AND (i.letter, i.ordinal) IN (
    SELECT l.letter, l.ordinal FROM labels l WHERE l.task = :task AND l.label = :label
    ORDER BY l.letter, l.ordinal DESC LIMIT :limit);

-- name: item
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = :task AND letter = :letter AND ordinal = :ordinal;

-- name: path_history
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = :task AND path = :path AND path <> '' ORDER BY ordinal;

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

-- name: current_artifacts
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM items i WHERE i.task = :task AND i.path <> '' AND NOT EXISTS (
    SELECT 1 FROM items later WHERE later.task = i.task AND later.path = i.path
    AND later.path <> '' AND later.ordinal > i.ordinal)
ORDER BY i.ordinal;

-- name: gates
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items INDEXED BY items_gates
WHERE letter = 'k' AND (:task = '' OR task = :task) AND (:open_only = 0 OR is_open = 1)
ORDER BY task, ordinal;

-- name: links_to
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE target = :target ORDER BY opened_seq, source;

-- name: open_links_to
SELECT source, relation, target, opened_seq, closed_seq FROM links INDEXED BY links_open
WHERE target = :target AND closed_seq = 0 ORDER BY opened_seq, source;

-- name: superseders
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE relation = 'supersedes' AND target > :task || '#' AND target < :task || '$'
ORDER BY opened_seq, source;

-- name: links_from
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE source = :source ORDER BY opened_seq, target;

-- name: links_of_task
SELECT source, relation, target, opened_seq, closed_seq FROM links INDEXED BY links_by_source
WHERE source > :task || '#' AND source < :task || '$';

-- name: inbox_of_task
SELECT agent, task, position, held FROM inbox WHERE task = :task;

-- name: needs
SELECT needs FROM dependencies WHERE task = :task ORDER BY needs;

-- name: dependents
SELECT task FROM dependencies WHERE needs = :task ORDER BY task;

-- name: inbox
SELECT agent, task, position, held FROM inbox WHERE agent = :agent ORDER BY task;

-- name: add_stream
INSERT INTO streams (name, position, digest) VALUES (:stream, :position, :digest);

-- name: move_head
UPDATE streams SET position = :position, digest = :digest WHERE name = :stream;

-- name: append
INSERT INTO records (stream, position, at, author, kind, key, previous, digest, body)
SELECT id, :position, :at, :author, :kind, :key, :previous, :digest, :body
FROM streams WHERE name = :stream
RETURNING seq;

-- name: put_task
INSERT INTO tasks (task, version, digest, base_status, phase, holder, created_seq, updated_seq,
    header)
VALUES (:task, :version, :digest, :status, :phase, :holder, :seq, :seq, :header)
ON CONFLICT (task) DO UPDATE SET version = excluded.version, digest = excluded.digest,
    base_status = excluded.base_status, phase = excluded.phase, holder = excluded.holder,
    updated_seq = excluded.updated_seq, header = excluded.header;

-- name: put_details
INSERT INTO details (task, details) VALUES (:task, :details)
ON CONFLICT (task) DO UPDATE SET details = excluded.details;

-- name: add_item
INSERT INTO items (task, letter, ordinal, position, field, idx, status, is_open, title,
    fingerprint, path, closed_at, note, grade, sizes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_label
INSERT INTO labels (task, label, letter, ordinal) VALUES (?, ?, ?, ?);

-- name: mark_item
UPDATE items SET status = :status, is_open = :is_open, closed_at = :closed_at, note = :note
WHERE task = :task AND letter = :letter AND ordinal = :ordinal;

-- name: open_link
INSERT INTO links (source, relation, target, opened_seq, closed_seq)
VALUES (:source, :relation, :target, :seq, 0)
ON CONFLICT (target, relation, source) DO NOTHING;

-- name: close_links
UPDATE links SET closed_seq = :seq WHERE source = :source AND closed_seq = 0;

-- name: drop_needs
DELETE FROM dependencies WHERE task = :task;

-- name: add_need
INSERT INTO dependencies (task, needs) VALUES (:task, :needs);

-- name: clear_inbox
DELETE FROM inbox WHERE task = :task;

-- name: put_inbox
INSERT INTO inbox (agent, task, position, held) VALUES (:agent, :task, :position, :held)
ON CONFLICT (task) DO UPDATE SET agent = excluded.agent, position = excluded.position,
    held = excluded.held;

-- name: forget_items
DELETE FROM items;

-- name: forget_labels
DELETE FROM labels;

-- name: forget_tasks
DELETE FROM tasks;

-- name: forget_details
DELETE FROM details;

-- name: forget_links
DELETE FROM links;

-- name: forget_dependencies
DELETE FROM dependencies;

-- name: forget_inbox
DELETE FROM inbox;

-- name: dump_tasks
SELECT task, version, digest, base_status, phase, holder, created_seq, updated_seq, header
FROM tasks ORDER BY task;

-- name: dump_details
SELECT task, details FROM details ORDER BY task;

-- name: dump_items
SELECT * FROM items ORDER BY task, letter, ordinal;

-- name: dump_labels
SELECT task, label, letter, ordinal FROM labels ORDER BY task, label, letter, ordinal;

-- name: labels_of_task
SELECT task, label, letter, ordinal FROM labels WHERE task = :task
ORDER BY label, letter, ordinal;

-- name: dump_links
SELECT * FROM links ORDER BY target, relation, source;

-- name: dump_dependencies
SELECT * FROM dependencies ORDER BY task, needs;

-- name: dump_inbox
SELECT * FROM inbox ORDER BY agent, task;

-- name: dump_streams
SELECT name, position, digest FROM streams ORDER BY name;

-- name: rebuild_due
SELECT 1 FROM rebuilds LIMIT 1;

-- name: rebuild_done
DELETE FROM rebuilds;

-- name: counts
SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM tasks);

-- name: look_at_texts
SELECT rowid FROM texts LIMIT 1;

-- name: check_pages
PRAGMA integrity_check(20);

-- SQLite's own count of numbers that no table uses any more: it goes when the file is vacuumed.

-- name: schema_rows
SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE name <> 'sqlite_sequence'
ORDER BY type, name, tbl_name;

-- name: note_migration
INSERT INTO migrations (number, name, applied_at) VALUES (:number, :name, :applied_at);

-- name: next_entry
SELECT max(coalesce((SELECT max(id) FROM entries), 0), coalesce((SELECT max(last) FROM numbers), 0)) + 1;

-- name: add_entry
INSERT INTO entries (id, address, task, kind, agent, at, status, position, length, traits, heads,
    passage)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_text
INSERT INTO texts (rowid, words, marks) VALUES (?, ?, ?);

-- name: mark_entry
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

-- name: put_node
INSERT INTO knowledge (id, type, summary, tags, attributes, task, position)
VALUES (:id, :type, :summary, :tags, :attributes, :task, :position)
ON CONFLICT (id) DO UPDATE SET type = excluded.type, summary = excluded.summary,
    tags = excluded.tags, attributes = excluded.attributes, task = excluded.task,
    position = excluded.position;

-- name: drop_node
DELETE FROM knowledge WHERE id = :id;

-- name: drop_edges_of_node
DELETE FROM edges WHERE source = :id OR target = :id;

-- name: add_edge
INSERT INTO edges (source, relation, target, attributes, task, position)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (source, relation, target) DO UPDATE SET attributes = excluded.attributes,
    task = excluded.task, position = excluded.position
WHERE excluded.attributes <> attributes AND excluded.attributes <> '{}';

-- name: drop_edge
DELETE FROM edges WHERE source = :source AND relation = :relation AND target = :target;

-- name: drop_edges_from
DELETE FROM edges WHERE source = :source AND relation = :relation;

-- name: add_tag
INSERT INTO tags (tag, node) VALUES (?, ?) ON CONFLICT (tag, node) DO NOTHING;

-- name: drop_tags
DELETE FROM tags WHERE node = :node;

-- name: newest_entry
SELECT coalesce(max(id), 0) FROM entries;

-- name: count_texts
SELECT count(*) FROM texts;

-- name: count_entries
SELECT count(*) FROM entries WHERE id > :after;

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

-- name: entry_at
SELECT id, address, task, kind, agent, at, status, position, length, traits FROM entries
WHERE address = :address;

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

-- name: latest_entries
SELECT id FROM entries WHERE id BETWEEN :first AND :last ORDER BY id DESC LIMIT :limit;

-- name: authors
SELECT agent FROM authors ORDER BY agent LIMIT 1000;

-- name: entries_of_task
SELECT e.address, e.task, e.kind, e.agent, e.at, e.status, e.position, e.length, e.traits,
    e.heads, e.passage, t.c0, t.c1
FROM entries e INDEXED BY entries_by_task CROSS JOIN texts_content t ON t.id = e.id
WHERE e.task = :task ORDER BY e.id;

-- name: node
SELECT id, type, summary, tags, attributes, task, position FROM knowledge WHERE id = :id;

-- name: nodes
SELECT id, type, summary, tags, attributes, task, position FROM knowledge
WHERE id > :after ORDER BY id LIMIT :limit;

-- name: edges
SELECT source, relation, target, attributes, task, position FROM edges
WHERE source = :source AND (:relation = '' OR relation = :relation)
    AND (:target = '' OR target = :target)
ORDER BY source, relation, target LIMIT :limit;

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

-- name: all_edges
SELECT source, relation, target, attributes, task, position FROM edges
WHERE (source, relation, target) > (:source, :relation, :target)
    AND (:only = '' OR relation = :only)
ORDER BY source, relation, target LIMIT :limit;

-- name: edges_of_task
SELECT source, relation, target, attributes, task, position FROM edges WHERE task = :task
ORDER BY source, relation, target;

-- name: tags_of_node
SELECT tag FROM tags WHERE node = :node ORDER BY tag;

-- name: tags
SELECT tag, count(*) FROM tags WHERE tag > :after GROUP BY tag ORDER BY tag LIMIT :limit;

-- name: tagged
SELECT node, count(*) FROM tags WHERE tag IN (SELECT value FROM json_each(:tags))
GROUP BY node ORDER BY count(*) DESC, node LIMIT :limit;

-- name: graph_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE letter IN ('d', 'g', 'p', 'w') AND (task, letter, ordinal) > (:task, :letter, :ordinal)
ORDER BY task, letter, ordinal LIMIT :limit;

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

-- name: forget_entries
DELETE FROM entries;
DELETE FROM authors;

-- name: forget_numbers
DELETE FROM numbers;

-- name: check_vectors
UPDATE embedders SET done = 0;

-- name: embedders
SELECT id, name, dimensions, done FROM embedders ORDER BY id;

-- name: add_embedder
INSERT INTO embedders (name, dimensions, done) VALUES (:name, :dimensions, 0)
ON CONFLICT (name) DO NOTHING;

-- name: embedded_up_to
UPDATE embedders SET done = max(done, :done) WHERE id = :id;

-- name: add_vector
INSERT OR REPLACE INTO vectors (embedder, id, passage, vector) VALUES (?, ?, ?, ?);

-- name: drop_vector
DELETE FROM vectors WHERE id = (SELECT id FROM entries WHERE address = :address);

-- name: drop_vectors
DELETE FROM vectors WHERE embedder = :embedder AND id IN (
    SELECT id FROM vectors WHERE embedder = :embedder ORDER BY id LIMIT :limit)
RETURNING 1;

-- name: drop_embedder
DELETE FROM embedders WHERE id = :id;

-- name: without_vector
SELECT e.id, e.address, e.passage, v.passage IS NOT NULL AND v.passage = e.passage
FROM entries e LEFT JOIN vectors v ON v.embedder = :embedder AND v.id = e.id
WHERE e.id > :after ORDER BY e.id LIMIT :limit;

-- name: vectors_after
SELECT v.id, v.vector, e.kind, e.agent, e.task
FROM vectors v JOIN entries e ON e.id = v.id
WHERE v.embedder = :embedder AND v.id > :after ORDER BY v.id LIMIT :limit;

-- name: vectors_of
SELECT v.id, v.vector FROM json_each(:ids) j
CROSS JOIN vectors v ON v.embedder = :embedder AND v.id = j.value;

-- name: forget_texts
DELETE FROM texts;

-- name: forget_knowledge
DELETE FROM knowledge;

-- name: forget_edges
DELETE FROM edges;

-- name: forget_tags
DELETE FROM tags;

-- name: dump_entries
SELECT * FROM entries ORDER BY id;

-- name: dump_texts
SELECT rowid, words, marks FROM texts ORDER BY rowid;

-- name: dump_knowledge
SELECT * FROM knowledge ORDER BY id;

-- name: dump_edges
SELECT * FROM edges ORDER BY source, relation, target;

-- name: dump_tags
SELECT * FROM tags ORDER BY tag, node;

-- Rows in pages and rows as they stand elsewhere: how one store is copied into another.

-- name: page_tasks
SELECT task, version, digest, base_status, phase, holder, created_seq, updated_seq, header
FROM tasks WHERE task > :task
ORDER BY task LIMIT :limit;

-- name: load_tasks
INSERT INTO tasks (task, version, digest, base_status, phase, holder, created_seq,
    updated_seq, header)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: page_details
SELECT task, details
FROM details WHERE task > :task
ORDER BY task LIMIT :limit;

-- name: load_details
INSERT INTO details (task, details)
VALUES (?, ?);

-- name: page_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE (task, letter, ordinal) > (:task, :letter, :ordinal)
ORDER BY task, letter, ordinal LIMIT :limit;

-- name: load_items
INSERT INTO items (task, letter, ordinal, position, field, idx, status, is_open, title,
    fingerprint, path, closed_at, note, grade, sizes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: page_labels
SELECT task, label, letter, ordinal
FROM labels WHERE (task, label, letter, ordinal) > (:task, :label, :letter, :ordinal)
ORDER BY task, label, letter, ordinal LIMIT :limit;

-- name: load_labels
INSERT INTO labels (task, label, letter, ordinal)
VALUES (?, ?, ?, ?);

-- name: page_links
SELECT source, relation, target, opened_seq, closed_seq
FROM links WHERE (target, relation, source) > (:target, :relation, :source)
ORDER BY target, relation, source LIMIT :limit;

-- name: load_links
INSERT INTO links (source, relation, target, opened_seq, closed_seq)
VALUES (?, ?, ?, ?, ?);

-- name: page_dependencies
SELECT task, needs
FROM dependencies WHERE (task, needs) > (:task, :needs)
ORDER BY task, needs LIMIT :limit;

-- name: load_dependencies
INSERT INTO dependencies (task, needs)
VALUES (?, ?);

-- name: page_inbox
SELECT agent, task, position, held
FROM inbox WHERE task > :task
ORDER BY task LIMIT :limit;

-- name: load_inbox
INSERT INTO inbox (agent, task, position, held)
VALUES (?, ?, ?, ?);

-- name: page_entries
SELECT id, address, task, kind, agent, at, status, position, length, traits, heads, passage
FROM entries WHERE id > :id
ORDER BY id LIMIT :limit;

-- name: load_entries
INSERT INTO entries (id, address, task, kind, agent, at, status, position, length, traits,
    heads, passage)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: page_texts
SELECT rowid, words, marks
FROM texts WHERE rowid > :id
ORDER BY rowid LIMIT :limit;

-- name: load_texts
INSERT INTO texts (rowid, words, marks)
VALUES (?, ?, ?);

-- name: page_knowledge
SELECT id, type, summary, tags, attributes, task, position
FROM knowledge WHERE id > :id
ORDER BY id LIMIT :limit;

-- name: load_knowledge
INSERT INTO knowledge (id, type, summary, tags, attributes, task, position)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: page_edges
SELECT source, relation, target, attributes, task, position
FROM edges WHERE (source, relation, target) > (:source, :relation, :target)
ORDER BY source, relation, target LIMIT :limit;

-- name: load_edges
INSERT INTO edges (source, relation, target, attributes, task, position)
VALUES (?, ?, ?, ?, ?, ?);

-- name: page_tags
SELECT tag, node
FROM tags WHERE (tag, node) > (:tag, :node)
ORDER BY tag, node LIMIT :limit;

-- name: load_tags
INSERT INTO tags (tag, node)
VALUES (?, ?);

-- name: page_embedders
SELECT id, name, dimensions, done
FROM embedders WHERE id > :id
ORDER BY id LIMIT :limit;

-- name: load_embedders
INSERT INTO embedders (id, name, dimensions, done)
VALUES (?, ?, ?, ?);

-- name: page_vectors
SELECT embedder, id, passage, vector
FROM vectors WHERE (embedder, id) > (:embedder, :id)
ORDER BY embedder, id LIMIT :limit;

-- name: load_vectors
INSERT INTO vectors (embedder, id, passage, vector)
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
