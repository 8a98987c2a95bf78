-- Every statement the store runs, by name; the names are those of the embedded store's. Values are
-- bound; nothing here is put together from text. Lists come as JSON, or as arrays for many rows.

-- name: head
SELECT name, position, digest FROM streams WHERE name = %(stream)s;

-- name: heads
SELECT name, position, digest FROM streams
WHERE starts_with(name, %(prefix)s) AND name > %(after)s
ORDER BY name LIMIT %(limit)s;

-- name: records
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = %(stream)s AND r.position > %(after)s AND r.position <= %(until)s
ORDER BY r.position LIMIT %(limit)s;

-- name: tip
SELECT s.position, s.digest, k.position,
    s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM streams s
LEFT JOIN records r ON r.stream = s.id AND r.position = s.position
LEFT JOIN records k ON k.stream = s.id AND k.key = %(key)s
WHERE s.name = %(stream)s;

-- name: records_before
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = %(stream)s AND r.position < %(before)s
    AND (%(author)s = '' OR r.author = %(author)s)
    AND (%(kinds)s = '' OR r.kind IN (SELECT json_array_elements_text(nullif(%(kinds)s, '')::json)))
ORDER BY r.position DESC LIMIT %(limit)s;

-- name: record_by_key
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = %(stream)s AND r.key = %(key)s;

-- name: tail
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE r.seq > %(after)s ORDER BY r.seq LIMIT %(limit)s;

-- name: latest
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE r.seq < %(before)s AND starts_with(s.name, %(prefix)s)
    AND (%(kinds)s = '' OR r.kind IN (SELECT json_array_elements_text(nullif(%(kinds)s, '')::json)))
ORDER BY r.seq DESC LIMIT %(limit)s;

-- name: totals
SELECT (SELECT count(*) FROM streams), (SELECT coalesce(max(seq), 0) FROM records);

-- name: task
SELECT task, version, digest,
    CASE WHEN base_status IN ('completed', 'cancelled') THEN base_status
         WHEN EXISTS (SELECT 1 FROM links l WHERE l.target = t.task AND l.relation = 'blocks'
                      AND l.closed_seq = 0) THEN 'blocked'
         ELSE base_status END,
    phase, holder, created_seq, updated_seq, header,
    (SELECT d.details FROM details d WHERE d.task = t.task)
FROM tasks t WHERE task = %(task)s;

-- name: tasks
SELECT * FROM (
    SELECT task, version, digest,
        CASE WHEN base_status IN ('completed', 'cancelled') THEN base_status
             WHEN EXISTS (SELECT 1 FROM links l WHERE l.target = t.task AND l.relation = 'blocks'
                          AND l.closed_seq = 0) THEN 'blocked'
             ELSE base_status END AS status,
        phase, holder, created_seq, updated_seq, header,
        (SELECT d.details FROM details d WHERE d.task = t.task) AS details
    FROM tasks t
) AS listed WHERE (%(status)s = '' OR status = %(status)s) AND (%(phase)s = '' OR phase = %(phase)s)
    AND (%(agent)s = '' OR holder = %(agent)s) AND created_seq > %(after)s
ORDER BY created_seq LIMIT %(limit)s;

-- name: open_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items
WHERE task = %(task)s AND letter IN (SELECT json_array_elements_text(%(letters)s::json)) AND is_open
ORDER BY letter, ordinal;

-- name: all_open_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items
WHERE task = %(task)s AND is_open ORDER BY position, letter, ordinal;

-- name: items_since
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = %(task)s AND position > %(after)s ORDER BY position, letter, ordinal;

-- name: items_at
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items
WHERE task = %(task)s AND position = %(position)s ORDER BY letter, ordinal;

-- name: items_of_kind
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = %(task)s AND letter = %(letter)s AND ordinal > %(after)s
ORDER BY ordinal LIMIT %(limit)s;

-- name: items_before
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = %(task)s AND letter = %(letter)s AND ordinal < %(before)s
ORDER BY ordinal DESC LIMIT %(limit)s;

-- name: titles_before
SELECT ordinal, title FROM items
WHERE task = %(task)s AND letter = %(letter)s AND ordinal < %(before)s
ORDER BY ordinal DESC LIMIT %(limit)s;

-- name: known_labels
SELECT wanted.value
FROM json_array_elements_text(%(labels)s::json) WITH ORDINALITY wanted (value, place)
WHERE EXISTS (SELECT 1 FROM labels l WHERE l.task = %(task)s AND l.label = wanted.value)
ORDER BY wanted.place;

-- name: labelled_items
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM items i WHERE i.task = %(task)s AND (i.letter, i.ordinal) IN (
    SELECT l.letter, l.ordinal FROM labels l WHERE l.task = %(task)s AND l.label = %(label)s
    ORDER BY l.letter, l.ordinal DESC LIMIT %(limit)s)
ORDER BY i.letter, i.ordinal;

-- name: item
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = %(task)s AND letter = %(letter)s AND ordinal = %(ordinal)s;

-- name: path_history
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = %(task)s AND path = %(path)s AND path <> '' ORDER BY ordinal;

-- name: artifact_at
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = %(task)s AND letter = 'a' AND ordinal = coalesce(
    (SELECT i.ordinal FROM items i
     WHERE i.task = %(task)s AND i.path = %(path)s AND i.path <> '' AND i.position <= %(position)s
     ORDER BY i.ordinal DESC LIMIT 1),
    (SELECT i.ordinal FROM items i
     WHERE i.task = %(task)s AND i.path = %(path)s AND i.path <> '' ORDER BY i.ordinal LIMIT 1));

-- name: known_paths
SELECT p.value, (
    SELECT i.grade FROM items i
    WHERE i.task = %(task)s AND i.path = p.value AND i.path <> '' ORDER BY i.ordinal DESC LIMIT 1)
FROM json_array_elements_text(%(paths)s::json) WITH ORDINALITY p (value, place)
ORDER BY p.place;

-- name: current_artifacts
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM items i WHERE i.task = %(task)s AND i.path <> '' AND NOT EXISTS (
    SELECT 1 FROM items later WHERE later.task = i.task AND later.path = i.path
    AND later.path <> '' AND later.ordinal > i.ordinal)
ORDER BY i.ordinal;

-- name: gates
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items
WHERE letter = 'k' AND (%(task)s = '' OR task = %(task)s) AND (%(open_only)s = 0 OR is_open)
ORDER BY task, ordinal;

-- name: links_to
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE target = %(target)s ORDER BY opened_seq, source;

-- name: open_links_to
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE target = %(target)s AND closed_seq = 0 ORDER BY opened_seq, source;

-- name: superseders
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE relation = 'supersedes' AND target > %(task)s::text || '#' AND target < %(task)s::text || '$'
ORDER BY opened_seq, source;

-- name: links_from
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE source = %(source)s ORDER BY opened_seq, target;

-- name: links_of_task
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE source > %(task)s::text || '#' AND source < %(task)s::text || '$';

-- name: inbox_of_task
SELECT agent, task, position, held FROM inbox WHERE task = %(task)s;

-- name: needs
SELECT needs FROM dependencies WHERE task = %(task)s ORDER BY needs;

-- name: dependents
SELECT task FROM dependencies WHERE needs = %(task)s ORDER BY task;

-- name: inbox
SELECT agent, task, position, held FROM inbox WHERE agent = %(agent)s ORDER BY task;

-- name: add_stream
INSERT INTO streams (id, name, position, digest)
VALUES ((SELECT coalesce(max(id), 0) + 1 FROM streams), %(stream)s, %(position)s, %(digest)s);

-- name: move_head
UPDATE streams SET position = %(position)s, digest = %(digest)s WHERE name = %(stream)s;

-- name: append
INSERT INTO records (seq, stream, position, at, author, kind, key, previous, digest, body)
VALUES (%(seq)s, (SELECT id FROM streams WHERE name = %(stream)s), %(position)s, %(at)s, %(author)s,
    %(kind)s, %(key)s, %(previous)s, %(digest)s, %(body)s);

-- name: next_numbers
SELECT (SELECT coalesce(max(seq), 0) + 1 FROM records),
    greatest((SELECT coalesce(max(id), 0) FROM entries), (SELECT gone FROM numbers)) + 1;

-- name: put_task
INSERT INTO tasks (task, version, digest, base_status, phase, holder, created_seq, updated_seq,
    header)
VALUES (%(task)s, %(version)s, %(digest)s, %(status)s, %(phase)s, %(holder)s, %(seq)s, %(seq)s, %(header)s)
ON CONFLICT (task) DO UPDATE SET version = excluded.version, digest = excluded.digest,
    base_status = excluded.base_status, phase = excluded.phase, holder = excluded.holder,
    updated_seq = excluded.updated_seq, header = excluded.header;

-- name: put_details
INSERT INTO details (task, details) VALUES (%(task)s, %(details)s)
ON CONFLICT (task) DO UPDATE SET details = excluded.details;

-- name: add_item
INSERT INTO items (task, letter, ordinal, position, field, idx, status, is_open, title,
    fingerprint, path, closed_at, note, grade, sizes)
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[],
    %s::text[], %s::boolean[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[],
    %s::text[], %s::text[]);

-- name: add_label
INSERT INTO labels (task, label, letter, ordinal)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]);

-- name: mark_item
UPDATE items SET status = %(status)s, is_open = (%(is_open)s <> 0), closed_at = %(closed_at)s, note = %(note)s
WHERE task = %(task)s AND letter = %(letter)s AND ordinal = %(ordinal)s;

-- name: open_link
INSERT INTO links (source, relation, target, opened_seq, closed_seq)
VALUES (%(source)s, %(relation)s, %(target)s, %(seq)s, 0)
ON CONFLICT (target, relation, source) DO NOTHING;

-- name: close_links
UPDATE links SET closed_seq = %(seq)s WHERE source = %(source)s AND closed_seq = 0;

-- name: drop_needs
DELETE FROM dependencies WHERE task = %(task)s;

-- name: add_need
INSERT INTO dependencies (task, needs) VALUES (%(task)s, %(needs)s);

-- name: clear_inbox
DELETE FROM inbox WHERE task = %(task)s;

-- name: put_inbox
INSERT INTO inbox (agent, task, position, held) VALUES (%(agent)s, %(task)s, %(position)s, %(held)s <> 0)
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
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items ORDER BY task, letter, ordinal;

-- name: dump_labels
SELECT task, label, letter, ordinal FROM labels ORDER BY task, label, letter, ordinal;

-- name: labels_of_task
SELECT task, label, letter, ordinal FROM labels WHERE task = %(task)s
ORDER BY label, letter, ordinal;

-- name: dump_links
SELECT source, relation, target, opened_seq, closed_seq FROM links
ORDER BY target, relation, source;

-- name: dump_dependencies
SELECT task, needs FROM dependencies ORDER BY task, needs;

-- name: dump_inbox
SELECT agent, task, position, held FROM inbox ORDER BY agent, task;

-- name: dump_streams
SELECT name, position, digest FROM streams ORDER BY name;

-- name: rebuild_due
SELECT 1 FROM rebuilds LIMIT 1;

-- name: rebuild_done
DELETE FROM rebuilds;

-- name: counts
SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM tasks);

-- name: note_migration
INSERT INTO migrations (number, name, applied_at) VALUES (%(number)s, %(name)s, %(applied_at)s);

-- name: next_entry
SELECT greatest((SELECT coalesce(max(id), 0) FROM entries), (SELECT gone FROM numbers)) + 1;

-- name: add_entry
INSERT INTO entries (id, address, task, kind, agent, at, status, position, length, traits, heads,
    passage)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
    %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bytea[]);

-- name: add_text
INSERT INTO texts (id, words, marks)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[]);

-- name: mark_entry
UPDATE entries SET status = CASE WHEN EXISTS (
    SELECT 1 FROM edges g WHERE g.target = entries.address AND g.relation = 'supersedes'
        AND NOT starts_with(g.source, entries.task || '#')
) THEN 'superseded' ELSE %s END
WHERE address = %s;

-- name: drop_text
DELETE FROM texts WHERE id = (SELECT id FROM entries WHERE address = %(address)s);

-- name: drop_entry
WITH dropped AS (DELETE FROM entries WHERE address = %(address)s RETURNING id)
UPDATE numbers SET gone = greatest(gone, dropped.id) FROM dropped RETURNING gone;

-- name: put_node
INSERT INTO knowledge (id, type, summary, tags, attributes, task, position)
VALUES (%(id)s, %(type)s, %(summary)s, %(tags)s, %(attributes)s, %(task)s, %(position)s)
ON CONFLICT (id) DO UPDATE SET type = excluded.type, summary = excluded.summary,
    tags = excluded.tags, attributes = excluded.attributes, task = excluded.task,
    position = excluded.position;

-- name: drop_node
DELETE FROM knowledge WHERE id = %(id)s;

-- name: drop_edges_of_node
DELETE FROM edges WHERE source = %(id)s OR target = %(id)s;

-- name: add_edge
INSERT INTO edges (source, relation, target, attributes, task, position)
SELECT DISTINCT ON (source, relation, target) source, relation, target, attributes, task, position
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])
    WITH ORDINALITY given (source, relation, target, attributes, task, position, place)
ORDER BY source, relation, target, attributes = '{}', place DESC
ON CONFLICT (source, relation, target) DO UPDATE SET attributes = excluded.attributes,
    task = excluded.task, position = excluded.position
WHERE excluded.attributes <> edges.attributes AND excluded.attributes <> '{}';

-- name: drop_edge
DELETE FROM edges WHERE source = %(source)s AND relation = %(relation)s AND target = %(target)s;

-- name: drop_edges_from
DELETE FROM edges WHERE source = %(source)s AND relation = %(relation)s;

-- name: add_tag
INSERT INTO tags (tag, node)
SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT (tag, node) DO NOTHING;

-- name: drop_tags
DELETE FROM tags WHERE node = %(node)s;

-- name: newest_entry
SELECT coalesce(max(id), 0) FROM entries;

-- name: count_texts
SELECT count(*) FROM texts;

-- name: count_entries
SELECT count(*) FROM entries WHERE id > %(after)s;

-- name: matching_at
SELECT id FROM texts WHERE terms @@ %(query)s::tsquery ORDER BY id LIMIT 1 OFFSET %(before)s;

-- name: matching
SELECT id FROM texts WHERE terms @@ %(query)s::tsquery AND id BETWEEN %(first)s AND %(last)s
ORDER BY id DESC LIMIT %(limit)s;

-- name: entries_with_status
SELECT id FROM entries
WHERE status IN (SELECT json_array_elements_text(%(statuses)s::json))
    AND at >= %(since)s AND at <= %(until)s
LIMIT %(limit)s;

-- name: entries_at_times
SELECT id FROM entries
WHERE at >= %(since)s AND at <= %(until)s LIMIT %(limit)s;

-- name: mark_superseded
UPDATE entries SET status = 'superseded'
WHERE id >= %(first)s AND kind = 'decision' AND EXISTS (
    SELECT 1 FROM edges g
    WHERE g.target = entries.address AND g.relation = 'supersedes');

-- name: entries
SELECT e.id, e.address, e.task, e.kind, e.agent, e.at,
    e.status, e.position, e.length, e.traits
FROM json_array_elements_text(%(ids)s::json) WITH ORDINALITY j (value, place)
JOIN entries e ON e.id = j.value::bigint ORDER BY j.place;

-- name: sharing_marks
SELECT e.address, e.kind, e.agent, e.status, t.words
FROM (
    SELECT id, words FROM texts WHERE terms @@ %(query)s::tsquery
    ORDER BY id DESC LIMIT %(limit)s) t
JOIN entries e ON e.id = t.id ORDER BY t.id DESC;

-- name: words_of
SELECT t.id, t.words
FROM json_array_elements_text(%(ids)s::json) WITH ORDINALITY j (value, place)
JOIN texts t ON t.id = j.value::bigint ORDER BY j.place;

-- name: looked_at
SELECT e.id, e.address, e.task, e.kind, e.agent, e.at,
    e.status, e.position, e.length, e.traits, e.heads, t.words, t.marks
FROM json_array_elements_text(%(ids)s::json) WITH ORDINALITY j (value, place)
JOIN entries e ON e.id = j.value::bigint JOIN texts t ON t.id = e.id ORDER BY j.place;

-- name: marks_of
SELECT t.id, t.marks
FROM json_array_elements_text(%(ids)s::json) WITH ORDINALITY j (value, place)
JOIN texts t ON t.id = j.value::bigint ORDER BY j.place;

-- name: entry_at
SELECT id, address, task, kind, agent, at, status, position, length, traits FROM entries
WHERE address = %(address)s;

-- name: around
SELECT c.id,
    (SELECT p.id FROM entries p
     WHERE p.task = c.task AND p.id < c.id ORDER BY p.id DESC LIMIT 1),
    (SELECT p.id FROM entries p
     WHERE p.task = c.task AND p.id < c.id ORDER BY p.id DESC LIMIT 1 OFFSET 1),
    (SELECT n.id FROM entries n
     WHERE n.task = c.task AND n.id > c.id ORDER BY n.id LIMIT 1),
    (SELECT n.id FROM entries n
     WHERE n.task = c.task AND n.id > c.id ORDER BY n.id LIMIT 1 OFFSET 1)
FROM json_array_elements_text(%(ids)s::json) WITH ORDINALITY j (value, place)
JOIN entries c ON c.id = j.value::bigint ORDER BY j.place;

-- name: latest_entries
SELECT id FROM entries WHERE id BETWEEN %(first)s AND %(last)s ORDER BY id DESC LIMIT %(limit)s;

-- name: authors
WITH RECURSIVE names (agent) AS (
    SELECT min(agent) FROM entries
    UNION ALL
    SELECT (SELECT min(e.agent) FROM entries e WHERE e.agent > names.agent)
    FROM names WHERE names.agent IS NOT NULL
)
SELECT agent FROM names WHERE agent IS NOT NULL LIMIT 1000;

-- name: entries_of_task
SELECT e.address, e.task, e.kind, e.agent, e.at, e.status, e.position, e.length, e.traits,
    e.heads, e.passage, t.words, t.marks
FROM entries e JOIN texts t ON t.id = e.id
WHERE e.task = %(task)s ORDER BY e.id;

-- name: node
SELECT id, type, summary, tags, attributes, task, position FROM knowledge WHERE id = %(id)s;

-- name: nodes
SELECT id, type, summary, tags, attributes, task, position FROM knowledge
WHERE id > %(after)s ORDER BY id LIMIT %(limit)s;

-- name: edges
SELECT source, relation, target, attributes, task, position FROM edges
WHERE source = %(source)s AND (%(relation)s = '' OR relation = %(relation)s)
    AND (%(target)s = '' OR target = %(target)s)
ORDER BY source, relation, target LIMIT %(limit)s;

-- name: edges_to
SELECT source, relation, target, attributes, task, position FROM edges
WHERE target = %(target)s AND (%(relation)s = '' OR relation = %(relation)s)
ORDER BY source, relation, target LIMIT %(limit)s;

-- What supersedes some decisions, what supersedes that, and so on: each place once, so that a circle
-- ends. With each comes what it supersedes. No more is looked for than is taken.

-- name: superseding
WITH RECURSIVE later (address) AS (
    SELECT value COLLATE "C" FROM json_array_elements_text(%(addresses)s::json)
    UNION
    SELECT g.source FROM later l
    JOIN edges g ON g.target = l.address AND g.relation = 'supersedes'
)
SELECT l.address, e.id, e.address, e.task, e.kind, e.agent, e.at,
    e.status, e.position, e.length, e.traits
FROM (SELECT address FROM later LIMIT %(most)s) l
JOIN edges g ON g.target = l.address AND g.relation = 'supersedes'
JOIN entries e ON e.address = g.source;

-- name: all_edges
SELECT source, relation, target, attributes, task, position FROM edges
WHERE (source, relation, target) > (%(source)s, %(relation)s, %(target)s)
    AND (%(only)s = '' OR relation = %(only)s)
ORDER BY source, relation, target LIMIT %(limit)s;

-- name: edges_of_task
SELECT source, relation, target, attributes, task, position FROM edges WHERE task = %(task)s
ORDER BY source, relation, target;

-- name: tags_of_node
SELECT tag FROM tags WHERE node = %(node)s ORDER BY tag;

-- name: tags
SELECT tag, count(*) FROM tags WHERE tag > %(after)s GROUP BY tag ORDER BY tag LIMIT %(limit)s;

-- name: tagged
SELECT node, count(*) FROM tags WHERE tag IN (SELECT json_array_elements_text(%(tags)s::json))
GROUP BY node ORDER BY count(*) DESC, node LIMIT %(limit)s;

-- name: graph_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE letter IN ('d', 'g', 'p', 'w') AND (task, letter, ordinal) > (%(task)s, %(letter)s, %(ordinal)s)
ORDER BY task, letter, ordinal LIMIT %(limit)s;

-- name: context_map
SELECT * FROM (
    SELECT DISTINCT ON (i.path) i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status,
        i.is_open, i.title, i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes, r.seq
    FROM items i
    JOIN streams s ON s.name = 'task/' || i.task
    JOIN records r ON r.stream = s.id AND r.position = i.position
    WHERE i.path <> '' AND (%(task)s = '' OR i.task = %(task)s)
    ORDER BY i.path, r.seq DESC, i.ordinal DESC
) newest WHERE grade <> '' ORDER BY seq DESC, path LIMIT %(limit)s;

-- name: open_everywhere
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM items i
WHERE i.letter = %(letter)s AND i.is_open AND (%(task)s = '' OR i.task = %(task)s)
ORDER BY i.task, i.ordinal LIMIT %(limit)s;

-- name: entries_of_kind
SELECT e.id, e.address, e.task, e.kind, e.agent, e.at, e.status, e.position, e.length, e.traits
FROM (
    SELECT id FROM texts WHERE terms @@ %(query)s::tsquery AND id < %(before)s
    ORDER BY id DESC LIMIT %(limit)s) t
JOIN entries e ON e.id = t.id
WHERE e.kind = %(kind)s ORDER BY e.id DESC;

-- name: forget_entries
DELETE FROM entries;

-- name: forget_numbers
UPDATE numbers SET gone = 0;

-- name: check_vectors
UPDATE embedders SET done = 0;

-- name: embedders
SELECT id, name, dimensions, done FROM embedders ORDER BY id;

-- name: add_embedder
SELECT load_embedder((SELECT coalesce(max(id), 0) + 1 FROM embedders), %(name)s, %(dimensions)s, 0);

-- name: embedded_up_to
UPDATE embedders SET done = greatest(done, %(done)s) WHERE id = %(id)s;

-- name: add_vector
INSERT INTO vectors (embedder, id, passage, vector)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[])
ON CONFLICT (embedder, id) DO UPDATE SET passage = excluded.passage, vector = excluded.vector;

-- name: drop_vector
DELETE FROM vectors WHERE id = (SELECT id FROM entries WHERE address = %(address)s);

-- name: drop_vectors
DELETE FROM vectors WHERE embedder = %(embedder)s AND id IN (
    SELECT id FROM vectors WHERE embedder = %(embedder)s ORDER BY id LIMIT %(limit)s)
RETURNING 1;

-- name: drop_embedder
SELECT forget_embedder(%(id)s);

-- name: without_vector
SELECT e.id, e.address, e.passage, v.passage IS NOT NULL AND v.passage = e.passage
FROM entries e LEFT JOIN vectors v ON v.embedder = %(embedder)s AND v.id = e.id
WHERE e.id > %(after)s ORDER BY e.id LIMIT %(limit)s;

-- name: vectors_after
SELECT v.id, v.vector, e.kind, e.agent, e.task
FROM vectors v JOIN entries e ON e.id = v.id
WHERE v.embedder = %(embedder)s AND v.id > %(after)s ORDER BY v.id LIMIT %(limit)s;

-- name: vectors_of
SELECT v.id, v.vector
FROM json_array_elements_text(%(ids)s::json) WITH ORDINALITY j (value, place)
JOIN vectors v ON v.embedder = %(embedder)s AND v.id = j.value::bigint ORDER BY j.place;

-- name: forget_texts
DELETE FROM texts;

-- name: forget_knowledge
DELETE FROM knowledge;

-- name: forget_edges
DELETE FROM edges;

-- name: forget_tags
DELETE FROM tags;

-- name: dump_entries
SELECT id, address, task, kind, agent, at, status, position, length, traits, heads, passage
FROM entries ORDER BY id;

-- name: dump_texts
SELECT id, words, marks FROM texts ORDER BY id;

-- name: dump_knowledge
SELECT id, type, summary, tags, attributes, task, position FROM knowledge ORDER BY id;

-- name: dump_edges
SELECT source, relation, target, attributes, task, position FROM edges
ORDER BY source, relation, target;

-- name: dump_tags
SELECT tag, node FROM tags ORDER BY tag, node;

-- name: nearest
SELECT nearest_vectors(%(embedder)s, %(query)s,
    ARRAY(SELECT json_array_elements_text(%(kinds)s::json)), %(agent)s, %(task)s, %(limit)s);

-- name: nearest_of
SELECT v.id
FROM json_array_elements_text(%(ids)s::json) j (value)
JOIN vectors v ON v.embedder = %(embedder)s AND v.id = j.value::bigint
ORDER BY v.embedding <=> %(query)s::halfvec LIMIT %(limit)s;

-- name: share_store
SELECT pg_advisory_xact_lock_shared(%(key)s);

-- name: lock
SELECT pg_advisory_xact_lock(%(key)s);

-- name: schema_version
SELECT coalesce(max(number), 0) FROM migrations;

-- name: set_up
SELECT set_config('search_path', quote_ident(%(schema)s) || coalesce((
        SELECT ', ' || quote_ident(n.nspname) FROM pg_extension e
        JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'), ''), false),
    set_config('lock_timeout', %(lock_timeout)s, false),
    set_config('passdown.schema', %(schema)s, false);

-- name: commit_without_waiting
SELECT set_config('synchronous_commit', 'off', false);

-- name: settings
SELECT current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit'), current_setting('server_encoding'),
    current_setting('server_version_num')::bigint,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector');

-- name: has_schema
SELECT to_regnamespace(quote_ident(%(schema)s)) IS NOT NULL,
    to_regclass(quote_ident(%(schema)s) || '.migrations') IS NOT NULL;

-- name: make_extension
CREATE EXTENSION IF NOT EXISTS vector SCHEMA public;

-- name: make_schema
DO $$
BEGIN
    EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', current_setting('passdown.schema'));
END
$$;

-- name: schema_rows
SELECT 'column', c.relname || '.' || a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod),
    l.collname, CASE WHEN a.attnotnull THEN 'required' END, CASE WHEN a.attgenerated <> '' THEN 'made' END)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE c.relnamespace = to_regnamespace(quote_ident(%(schema)s)) AND c.relkind = 'r' AND a.attnum > 0
    AND NOT a.attisdropped
UNION ALL
SELECT 'index', c.relname, concat_ws(' ', m.amname, CASE WHEN i.indisunique THEN 'unique' END,
    CASE WHEN i.indpred IS NOT NULL THEN 'partial' END, CASE WHEN NOT i.indisvalid THEN 'invalid' END,
    'on', t.relname, (SELECT string_agg(a.attname, ',' ORDER BY a.attnum) FROM pg_attribute a
        WHERE a.attrelid = c.oid))
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
JOIN pg_am m ON m.oid = c.relam
WHERE c.relnamespace = to_regnamespace(quote_ident(%(schema)s)) AND NOT starts_with(c.relname, 'vectors_of_')
UNION ALL
SELECT 'reference', c.relname, f.relname FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class f ON f.oid = k.confrelid
WHERE k.connamespace = to_regnamespace(quote_ident(%(schema)s)) AND k.contype = 'f'
UNION ALL
SELECT 'trigger', t.tgname, concat_ws(' ', c.relname, t.tgtype, t.tgenabled, p.proname)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE c.relnamespace = to_regnamespace(quote_ident(%(schema)s)) AND NOT t.tgisinternal
UNION ALL
SELECT 'function', p.proname, concat_ws(' ', p.provolatile, md5(p.prosrc)) FROM pg_proc p
WHERE p.pronamespace = to_regnamespace(quote_ident(%(schema)s))
ORDER BY 1, 2, 3;

-- name: lock_holder
SELECT a.pid, a.application_name, coalesce(host(a.client_addr), 'this machine'),
    CASE WHEN a.wait_event = 'ClientRead' THEN 'waiting for its process' ELSE a.state END
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND a.pid <> pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((l.classid::bigint << 32) | l.objid::bigint) IN (
        SELECT json_array_elements_text(%(keys)s::json)::bigint)
ORDER BY a.xact_start LIMIT 1;

-- name: is_working
SELECT state = 'active' AND coalesce(wait_event, '') NOT IN ('ClientRead', 'ClientWrite')
FROM pg_stat_activity WHERE pid = %(pid)s;

-- name: server_facts
SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit'), current_setting('data_checksums'),
    (SELECT max(number) FROM migrations),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
     WHERE c.relnamespace = to_regnamespace(quote_ident(%(schema)s)) AND c.relkind = 'r'),
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
    current_setting('max_connections')::bigint,
    (SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database());

-- Rows in pages and rows as they stand elsewhere: how one store is copied into another.

-- name: page_tasks
SELECT task, version, digest, base_status, phase, holder, created_seq, updated_seq, header
FROM tasks WHERE task > %(task)s
ORDER BY task LIMIT %(limit)s;

-- name: load_tasks
INSERT INTO tasks (task, version, digest, base_status, phase, holder, created_seq,
    updated_seq, header)
SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[],
    %s::bigint[], %s::bigint[], %s::text[]);

-- name: page_details
SELECT task, details
FROM details WHERE task > %(task)s
ORDER BY task LIMIT %(limit)s;

-- name: load_details
INSERT INTO details (task, details)
SELECT * FROM unnest(%s::text[], %s::text[]);

-- name: page_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE (task, letter, ordinal) > (%(task)s, %(letter)s, %(ordinal)s)
ORDER BY task, letter, ordinal LIMIT %(limit)s;

-- name: load_items
INSERT INTO items (task, letter, ordinal, position, field, idx, status, is_open, title,
    fingerprint, path, closed_at, note, grade, sizes)
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::text[],
    %s::bigint[], %s::text[], %s::boolean[], %s::text[], %s::text[], %s::text[], %s::bigint[],
    %s::text[], %s::text[], %s::text[]);

-- name: page_labels
SELECT task, label, letter, ordinal
FROM labels WHERE (task, label, letter, ordinal) > (%(task)s, %(label)s, %(letter)s, %(ordinal)s)
ORDER BY task, label, letter, ordinal LIMIT %(limit)s;

-- name: load_labels
INSERT INTO labels (task, label, letter, ordinal)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]);

-- name: page_links
SELECT source, relation, target, opened_seq, closed_seq
FROM links WHERE (target, relation, source) > (%(target)s, %(relation)s, %(source)s)
ORDER BY target, relation, source LIMIT %(limit)s;

-- name: load_links
INSERT INTO links (source, relation, target, opened_seq, closed_seq)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[]);

-- name: page_dependencies
SELECT task, needs
FROM dependencies WHERE (task, needs) > (%(task)s, %(needs)s)
ORDER BY task, needs LIMIT %(limit)s;

-- name: load_dependencies
INSERT INTO dependencies (task, needs)
SELECT * FROM unnest(%s::text[], %s::text[]);

-- name: page_inbox
SELECT agent, task, position, held
FROM inbox WHERE task > %(task)s
ORDER BY task LIMIT %(limit)s;

-- name: load_inbox
INSERT INTO inbox (agent, task, position, held)
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::boolean[]);

-- name: page_entries
SELECT id, address, task, kind, agent, at, status, position, length, traits, heads, passage
FROM entries WHERE id > %(id)s
ORDER BY id LIMIT %(limit)s;

-- name: load_entries
INSERT INTO entries (id, address, task, kind, agent, at, status, position, length, traits,
    heads, passage)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
    %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bytea[]);

-- name: page_texts
SELECT id, words, marks
FROM texts WHERE id > %(id)s
ORDER BY id LIMIT %(limit)s;

-- name: load_texts
INSERT INTO texts (id, words, marks)
SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[]);

-- name: page_knowledge
SELECT id, type, summary, tags, attributes, task, position
FROM knowledge WHERE id > %(id)s
ORDER BY id LIMIT %(limit)s;

-- name: load_knowledge
INSERT INTO knowledge (id, type, summary, tags, attributes, task, position)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
    %s::bigint[]);

-- name: page_edges
SELECT source, relation, target, attributes, task, position
FROM edges WHERE (source, relation, target) > (%(source)s, %(relation)s, %(target)s)
ORDER BY source, relation, target LIMIT %(limit)s;

-- name: load_edges
INSERT INTO edges (source, relation, target, attributes, task, position)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[]);

-- name: page_tags
SELECT tag, node
FROM tags WHERE (tag, node) > (%(tag)s, %(node)s)
ORDER BY tag, node LIMIT %(limit)s;

-- name: load_tags
INSERT INTO tags (tag, node)
SELECT * FROM unnest(%s::text[], %s::text[]);

-- name: page_embedders
SELECT id, name, dimensions, done
FROM embedders WHERE id > %(id)s
ORDER BY id LIMIT %(limit)s;

-- name: load_embedders
SELECT load_embedder(%s, %s, %s, %s);

-- name: page_vectors
SELECT embedder, id, passage, vector
FROM vectors WHERE (embedder, id) > (%(embedder)s, %(id)s)
ORDER BY embedder, id LIMIT %(limit)s;

-- name: load_vectors
INSERT INTO vectors (embedder, id, passage, vector)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[]);

-- name: load_heads
INSERT INTO streams (id, name, position, digest)
SELECT (SELECT coalesce(max(id), 0) FROM streams) + row_number() OVER (), given.*
FROM unnest(%s::text[], %s::bigint[], %s::text[]) given
ON CONFLICT (name) DO UPDATE SET position = excluded.position, digest = excluded.digest;

-- name: load_records
INSERT INTO records (seq, stream, position, at, author, kind, key, previous, digest, body)
SELECT r.seq, s.id, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body
FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[],
    %s::text[], %s::text[], %s::bytea[])
    r (stream, seq, position, at, author, kind, key, previous, digest, body)
JOIN streams s ON s.name = r.stream;

-- name: load_number
UPDATE numbers SET gone = %(last)s;

-- name: note_rebuild
INSERT INTO rebuilds (due) VALUES (1) ON CONFLICT (due) DO NOTHING;
