-- The statements that both databases take as they are. `sqlite/queries.sql` and `postgres/queries.sql`
-- have the rest. Values are bound, by name or by place; nothing here is put together from text.

-- name: head
SELECT name, position, digest FROM streams WHERE name = :stream;

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

-- name: record_by_key
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = :stream AND r.key = :key;

-- name: tail
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE r.seq > :after ORDER BY r.seq LIMIT :limit;

-- name: totals
SELECT (SELECT count(*) FROM streams), (SELECT coalesce(max(seq), 0) FROM records);

-- name: items_since
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = :task AND position > :after ORDER BY position, letter, ordinal;

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
SELECT ordinal, position, title FROM items
WHERE task = :task AND letter = :letter AND ordinal < :before
ORDER BY ordinal DESC LIMIT :limit;

-- name: item
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = :task AND letter = :letter AND ordinal = :ordinal;

-- name: path_history
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = :task AND path = :path AND path <> '' ORDER BY ordinal;

-- name: current_artifacts
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM items i WHERE i.task = :task AND i.path <> '' AND NOT EXISTS (
    SELECT 1 FROM items later WHERE later.task = i.task AND later.path = i.path
    AND later.path <> '' AND later.ordinal > i.ordinal)
ORDER BY i.ordinal;

-- name: links_to
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE target = :target ORDER BY opened_seq, source;

-- name: links_from
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE source = :source ORDER BY opened_seq, target;

-- name: inbox_of_task
SELECT agent, task, position, held FROM inbox WHERE task = :task;

-- name: needs
SELECT needs FROM dependencies WHERE task = :task ORDER BY needs;

-- name: dependents
SELECT task FROM dependencies WHERE needs = :task ORDER BY task;

-- name: unmet_needs
SELECT d.task, d.needs FROM dependencies d LEFT JOIN tasks t ON t.task = d.needs
WHERE t.task IS NULL OR t.base_status <> 'completed' ORDER BY d.task, d.needs;

-- name: dependent_counts
SELECT d.needs, count(*) FROM dependencies d JOIN tasks t ON t.task = d.task
WHERE t.base_status NOT IN ('completed', 'cancelled') GROUP BY d.needs;

-- name: inbox
SELECT agent, task, position, held FROM inbox WHERE agent = :agent ORDER BY task;

-- name: unsettled_tasks
SELECT task, version, digest, status, phase, holder, created_seq, updated_seq, header,
    (SELECT d.details FROM details d WHERE d.task = placed.task) AS details
FROM (
    SELECT found.*, row_number() OVER (
        PARTITION BY status, replace(header, '"claimed_by":', '') <> header ORDER BY updated_seq
    ) AS place
    FROM (
        SELECT task, version, digest,
            CASE WHEN EXISTS (SELECT 1 FROM links l WHERE l.target = t.task
                              AND l.relation = 'blocks' AND l.closed_seq = 0)
                 THEN 'blocked' ELSE base_status END AS status,
            phase, holder, created_seq, updated_seq, header
        FROM tasks t
        WHERE base_status NOT IN ('completed', 'cancelled') AND (
            base_status <> 'open'
            OR replace(header, '"claimed_by":', '') <> header
            OR task IN (SELECT i.task FROM inbox i WHERE NOT i.held)
            OR task IN (SELECT l.target FROM links l
                        WHERE l.relation = 'blocks' AND l.closed_seq = 0))
    ) AS found
) AS placed
WHERE place <= :limit ORDER BY updated_seq;

-- name: newest_tasks
SELECT * FROM (
    SELECT task, version, digest,
        CASE WHEN base_status IN ('completed', 'cancelled') THEN base_status
             WHEN EXISTS (SELECT 1 FROM links l WHERE l.target = t.task AND l.relation = 'blocks'
                          AND l.closed_seq = 0) THEN 'blocked'
             ELSE base_status END AS status,
        phase, holder, created_seq, updated_seq, header,
        (SELECT d.details FROM details d WHERE d.task = t.task) AS details
    FROM tasks t
) AS listed WHERE (:status = '' OR status = :status) AND (:phase = '' OR phase = :phase)
    AND (:agent = '' OR holder = :agent) AND (:after = 0 OR created_seq < :after)
ORDER BY created_seq DESC LIMIT :limit;

-- name: move_head
UPDATE streams SET position = :position, digest = :digest WHERE name = :stream;

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

-- name: open_link
INSERT INTO links (source, relation, target, opened_seq, closed_seq)
VALUES (:source, :relation, :target, :seq, 0)
ON CONFLICT (target, relation, source) DO NOTHING;

-- name: close_links
UPDATE links SET closed_seq = :seq WHERE source = :source AND closed_seq = 0;

-- name: drop_needs
DELETE FROM dependencies WHERE task = :task;

-- name: clear_inbox
DELETE FROM inbox WHERE task = :task;

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

-- name: labels_of_task
SELECT task, label, letter, ordinal FROM labels WHERE task = :task
ORDER BY label, letter, ordinal;

-- name: rebuild_due
SELECT 1 FROM rebuilds LIMIT 1;

-- name: rebuild_done
DELETE FROM rebuilds;

-- name: counts
SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM tasks);

-- name: note_migration
INSERT INTO migrations (number, name, applied_at) VALUES (:number, :name, :applied_at);

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

-- name: drop_edge
DELETE FROM edges WHERE source = :source AND relation = :relation AND target = :target;

-- name: drop_edges_from
DELETE FROM edges WHERE source = :source AND relation = :relation;

-- name: drop_tags
DELETE FROM tags WHERE node = :node;

-- name: newest_entry
SELECT coalesce(max(id), 0) FROM entries;

-- name: count_texts
SELECT count(*) FROM texts;

-- name: count_entries
SELECT count(*) FROM entries WHERE id > :after;

-- name: entry_at
SELECT id, address, task, kind, agent, at, status, position, length, traits FROM entries
WHERE address = :address;

-- name: latest_entries
SELECT id FROM entries WHERE id BETWEEN :first AND :last ORDER BY id DESC LIMIT :limit;

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

-- name: all_edges
SELECT source, relation, target, attributes, task, position FROM edges
WHERE (source, relation, target) > (:source, :relation, :target)
    AND (:only = '' OR relation = :only)
ORDER BY source, relation, target LIMIT :limit;

-- name: tags_of_node
SELECT tag FROM tags WHERE node = :node ORDER BY tag;

-- name: tags
SELECT tag, count(*) FROM tags WHERE tag > :after GROUP BY tag ORDER BY tag LIMIT :limit;

-- name: check_vectors
UPDATE embedders SET done = 0;

-- name: embedders
SELECT id, name, dimensions, done FROM embedders ORDER BY id;

-- name: drop_vector
DELETE FROM vectors WHERE id = (SELECT id FROM entries WHERE address = :address);

-- name: drop_vectors
DELETE FROM vectors WHERE embedder = :embedder AND id IN (
    SELECT id FROM vectors WHERE embedder = :embedder ORDER BY id LIMIT :limit)
RETURNING 1;

-- name: without_vector
SELECT e.id, e.address, e.passage, v.passage IS NOT NULL AND v.passage = e.passage
FROM entries e LEFT JOIN vectors v ON v.embedder = :embedder AND v.id = e.id
WHERE e.id > :after ORDER BY e.id LIMIT :limit;

-- name: vectors_after
SELECT v.id, v.vector, e.kind, e.agent, e.task
FROM vectors v JOIN entries e ON e.id = v.id
WHERE v.embedder = :embedder AND v.id > :after ORDER BY v.id LIMIT :limit;

-- name: forget_texts
DELETE FROM texts;

-- name: forget_knowledge
DELETE FROM knowledge;

-- name: forget_edges
DELETE FROM edges;

-- name: forget_tags
DELETE FROM tags;

-- Rows in pages and rows as they stand elsewhere: how one store is copied into another.

-- name: page_tasks
SELECT task, version, digest, base_status, phase, holder, created_seq, updated_seq, header
FROM tasks WHERE task > :task
ORDER BY task LIMIT :limit;

-- name: page_details
SELECT task, details
FROM details WHERE task > :task
ORDER BY task LIMIT :limit;

-- name: page_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE (task, letter, ordinal) > (:task, :letter, :ordinal)
ORDER BY task, letter, ordinal LIMIT :limit;

-- name: page_labels
SELECT task, label, letter, ordinal
FROM labels WHERE (task, label, letter, ordinal) > (:task, :label, :letter, :ordinal)
ORDER BY task, label, letter, ordinal LIMIT :limit;

-- name: page_links
SELECT source, relation, target, opened_seq, closed_seq
FROM links WHERE (target, relation, source) > (:target, :relation, :source)
ORDER BY target, relation, source LIMIT :limit;

-- name: page_dependencies
SELECT task, needs
FROM dependencies WHERE (task, needs) > (:task, :needs)
ORDER BY task, needs LIMIT :limit;

-- name: page_inbox
SELECT agent, task, position, held
FROM inbox WHERE task > :task
ORDER BY task LIMIT :limit;

-- name: page_entries
SELECT id, address, task, kind, agent, at, status, position, length, traits, heads, passage
FROM entries WHERE id > :id
ORDER BY id LIMIT :limit;

-- name: page_knowledge
SELECT id, type, summary, tags, attributes, task, position
FROM knowledge WHERE id > :id
ORDER BY id LIMIT :limit;

-- name: page_edges
SELECT source, relation, target, attributes, task, position
FROM edges WHERE (source, relation, target) > (:source, :relation, :target)
ORDER BY source, relation, target LIMIT :limit;

-- name: page_tags
SELECT tag, node
FROM tags WHERE (tag, node) > (:tag, :node)
ORDER BY tag, node LIMIT :limit;

-- name: page_embedders
SELECT id, name, dimensions, done
FROM embedders WHERE id > :id
ORDER BY id LIMIT :limit;

-- name: page_vectors
SELECT embedder, id, passage, vector
FROM vectors WHERE (embedder, id) > (:embedder, :id)
ORDER BY embedder, id LIMIT :limit;
