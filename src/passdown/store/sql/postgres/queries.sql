-- The statements of the store on a server that SQLite takes in another form, or not at all. Lists come
-- as JSON, or as arrays for many rows.

-- name: heads
SELECT name, position, digest FROM streams
WHERE starts_with(name, :prefix) AND name > :after
ORDER BY name LIMIT :limit;

-- name: records_before
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = :stream AND r.position < :before
    AND (:author = '' OR r.author = :author)
    AND (:kinds = '' OR r.kind IN (SELECT json_array_elements_text(nullif(:kinds, '')::json)))
ORDER BY r.position DESC LIMIT :limit;

-- name: latest
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE r.seq < :before AND starts_with(s.name, :prefix)
    AND (:kinds = '' OR r.kind IN (SELECT json_array_elements_text(nullif(:kinds, '')::json)))
ORDER BY r.seq DESC LIMIT :limit;

-- name: task
SELECT task, version, digest,
    CASE WHEN base_status IN ('completed', 'cancelled') THEN base_status
         WHEN EXISTS (SELECT 1 FROM links l WHERE l.target = t.task AND l.relation = 'blocks'
                      AND l.closed_seq = 0) THEN 'blocked'
         ELSE base_status END,
    phase, holder, created_seq, updated_seq, header,
    (SELECT d.details FROM details d WHERE d.task = t.task)
FROM tasks t WHERE task = :task;

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
) AS listed WHERE (:status = '' OR status = :status) AND (:phase = '' OR phase = :phase)
    AND (:agent = '' OR holder = :agent) AND created_seq > :after
ORDER BY created_seq LIMIT :limit;

-- name: open_questions
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE is_open AND letter = 'q'
ORDER BY task, ordinal LIMIT :limit;

-- name: open_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items
WHERE task = :task AND letter IN (SELECT json_array_elements_text(:letters::json)) AND is_open
ORDER BY letter, ordinal;

-- name: all_open_items
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items
WHERE task = :task AND is_open ORDER BY position, letter, ordinal;

-- name: items_at
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items
WHERE task = :task
    AND position IN (SELECT json_array_elements_text(:positions::json)::bigint)
ORDER BY letter, ordinal;

-- name: records_at
SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, r.seq
FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = :stream
    AND r.position IN (SELECT json_array_elements_text(:positions::json)::bigint);

-- name: positions_by
SELECT r.position FROM records r JOIN streams s ON s.id = r.stream
WHERE s.name = :stream
    AND r.position IN (SELECT json_array_elements_text(:positions::json)::bigint)
    AND r.author = :author;

-- name: known_labels
SELECT wanted.value
FROM json_array_elements_text(:labels::json) WITH ORDINALITY wanted (value, place)
WHERE EXISTS (SELECT 1 FROM labels l WHERE l.task = :task AND l.label = wanted.value)
ORDER BY wanted.place;

-- name: labelled_items
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM items i WHERE i.task = :task AND (i.letter, i.ordinal) IN (
    SELECT l.letter, l.ordinal FROM labels l WHERE l.task = :task AND l.label = :label
    ORDER BY l.letter, l.ordinal DESC LIMIT :limit)
ORDER BY i.letter, i.ordinal;

-- name: artifact_at
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items WHERE task = :task AND letter = 'a' AND ordinal = coalesce(
    (SELECT i.ordinal FROM items i
     WHERE i.task = :task AND i.path = :path AND i.path <> '' AND i.position <= :position
     ORDER BY i.ordinal DESC LIMIT 1),
    (SELECT i.ordinal FROM items i
     WHERE i.task = :task AND i.path = :path AND i.path <> '' ORDER BY i.ordinal LIMIT 1));

-- name: known_paths
SELECT p.value, (
    SELECT i.grade FROM items i
    WHERE i.task = :task AND i.path = p.value AND i.path <> '' ORDER BY i.ordinal DESC LIMIT 1)
FROM json_array_elements_text(:paths::json) WITH ORDINALITY p (value, place)
ORDER BY p.place;

-- name: gates
SELECT task, letter, ordinal, position, field, idx, status, is_open, title, fingerprint, path,
    closed_at, note, grade, sizes
FROM items i
WHERE letter = 'k' AND (:task = '' OR task = :task) AND (:open_only = 0 OR is_open
    OR (status = 'failed' AND NOT EXISTS (
        SELECT 1 FROM items later
        WHERE later.letter = 'k' AND later.task = i.task AND later.ordinal > i.ordinal
            AND later.field = 'gates' AND later.title = i.title)))
ORDER BY task, ordinal;

-- name: open_links_to
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE target = :target AND closed_seq = 0 ORDER BY opened_seq, source;

-- name: superseders
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE relation = 'supersedes' AND target > :task::text || '#' AND target < :task::text || '$'
ORDER BY opened_seq, source;

-- name: links_of_task
SELECT source, relation, target, opened_seq, closed_seq FROM links
WHERE source > :task::text || '#' AND source < :task::text || '$';

-- name: add_stream
INSERT INTO streams (id, name, position, digest)
VALUES ((SELECT coalesce(max(id), 0) + 1 FROM streams), :stream, :position, :digest);

-- name: append
INSERT INTO records (seq, stream, position, at, author, kind, key, previous, digest, body)
VALUES (:seq, (SELECT id FROM streams WHERE name = :stream), :position, :at, :author,
    :kind, :key, :previous, :digest, :body);

-- name: next_numbers
SELECT (SELECT coalesce(max(seq), 0) + 1 FROM records),
    greatest((SELECT coalesce(max(id), 0) FROM entries), (SELECT gone FROM numbers)) + 1;

-- name: add_items
INSERT INTO items (task, letter, ordinal, position, field, idx, status, is_open, title,
    fingerprint, path, closed_at, note, grade, sizes)
SELECT * FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[], ?::text[], ?::bigint[],
    ?::text[], ?::boolean[], ?::text[], ?::text[], ?::text[], ?::bigint[], ?::text[],
    ?::text[], ?::text[]);

-- name: add_labels
INSERT INTO labels (task, label, letter, ordinal)
SELECT * FROM unnest(?::text[], ?::text[], ?::text[], ?::bigint[]);

-- name: mark_item
UPDATE items SET status = :status, is_open = (:is_open <> 0), closed_at = :closed_at, note = :note
WHERE task = :task AND letter = :letter AND ordinal = :ordinal;

-- name: add_dependencies
INSERT INTO dependencies (task, needs)
SELECT * FROM unnest(?::text[], ?::text[]);

-- name: put_inbox
INSERT INTO inbox (agent, task, position, held) VALUES (:agent, :task, :position, :held <> 0)
ON CONFLICT (task) DO UPDATE SET agent = excluded.agent, position = excluded.position,
    held = excluded.held;

-- name: next_entry
SELECT greatest((SELECT coalesce(max(id), 0) FROM entries), (SELECT gone FROM numbers)) + 1;

-- name: add_entries
INSERT INTO entries (id, address, task, kind, agent, at, status, position, length, traits, heads,
    passage)
SELECT * FROM unnest(?::bigint[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[],
    ?::text[], ?::bigint[], ?::bigint[], ?::bigint[], ?::text[], ?::bytea[]);

-- name: add_texts
INSERT INTO texts (id, words, marks)
SELECT * FROM unnest(?::bigint[], ?::text[], ?::text[]);

-- name: mark_entries
UPDATE entries SET status = CASE WHEN EXISTS (
    SELECT 1 FROM edges g WHERE g.target = entries.address AND g.relation = 'supersedes'
        AND NOT starts_with(g.source, entries.task || '#')
) THEN 'superseded' ELSE ? END
WHERE address = ?;

-- name: drop_text
DELETE FROM texts WHERE id = (SELECT id FROM entries WHERE address = :address);

-- name: drop_entry
WITH dropped AS (DELETE FROM entries WHERE address = :address RETURNING id)
UPDATE numbers SET gone = greatest(gone, dropped.id) FROM dropped RETURNING gone;

-- name: add_edges
INSERT INTO edges (source, relation, target, attributes, task, position)
SELECT DISTINCT ON (source, relation, target) source, relation, target, attributes, task, position
FROM unnest(?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint[])
    WITH ORDINALITY given (source, relation, target, attributes, task, position, place)
ORDER BY source, relation, target, attributes = '{}', place DESC
ON CONFLICT (source, relation, target) DO UPDATE SET attributes = excluded.attributes,
    task = excluded.task, position = excluded.position
WHERE excluded.attributes <> edges.attributes AND excluded.attributes <> '{}';

-- name: add_tags
INSERT INTO tags (tag, node)
SELECT * FROM unnest(?::text[], ?::text[]) ON CONFLICT (tag, node) DO NOTHING;

-- name: matching_at
SELECT id FROM texts WHERE terms @@ :query::tsquery ORDER BY id LIMIT 1 OFFSET :before;

-- name: matching
SELECT id FROM texts WHERE terms @@ :query::tsquery AND id BETWEEN :first AND :last
ORDER BY id DESC LIMIT :limit;

-- name: entries_with_status
SELECT id FROM entries
WHERE status IN (SELECT json_array_elements_text(:statuses::json))
    AND at >= :since AND at <= :until
LIMIT :limit;

-- name: entries_at_times
SELECT id FROM entries
WHERE at >= :since AND at <= :until LIMIT :limit;

-- name: mark_superseded
UPDATE entries SET status = 'superseded'
WHERE id >= :first AND kind = 'decision' AND EXISTS (
    SELECT 1 FROM edges g
    WHERE g.target = entries.address AND g.relation = 'supersedes');

-- name: entries
SELECT e.id, e.address, e.task, e.kind, e.agent, e.at,
    e.status, e.position, e.length, e.traits
FROM json_array_elements_text(:ids::json) WITH ORDINALITY j (value, place)
JOIN entries e ON e.id = j.value::bigint ORDER BY j.place;

-- name: sharing_marks
SELECT e.address, e.kind, e.agent, e.status, t.words
FROM (
    SELECT id, words FROM texts WHERE terms @@ :query::tsquery
    ORDER BY id DESC LIMIT :limit) t
JOIN entries e ON e.id = t.id ORDER BY t.id DESC;

-- name: words_of
SELECT t.id, t.words
FROM json_array_elements_text(:ids::json) WITH ORDINALITY j (value, place)
JOIN texts t ON t.id = j.value::bigint ORDER BY j.place;

-- name: looked_at
SELECT e.id, e.address, e.task, e.kind, e.agent, e.at,
    e.status, e.position, e.length, e.traits, e.heads, t.words, t.marks
FROM json_array_elements_text(:ids::json) WITH ORDINALITY j (value, place)
JOIN entries e ON e.id = j.value::bigint JOIN texts t ON t.id = e.id ORDER BY j.place;

-- name: marks_of
SELECT t.id, t.marks
FROM json_array_elements_text(:ids::json) WITH ORDINALITY j (value, place)
JOIN texts t ON t.id = j.value::bigint ORDER BY j.place;

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
FROM json_array_elements_text(:ids::json) WITH ORDINALITY j (value, place)
JOIN entries c ON c.id = j.value::bigint ORDER BY j.place;

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
WHERE e.task = :task ORDER BY e.id;

-- name: edges_to
SELECT source, relation, target, attributes, task, position FROM edges
WHERE target = :target AND (:relation = '' OR relation = :relation)
ORDER BY source, relation, target LIMIT :limit;

-- What supersedes some decisions, what supersedes that, and so on: each place once, so that a circle
-- ends. With each comes what it supersedes. No more is looked for than is taken.

-- name: superseding
WITH RECURSIVE later (address) AS (
    SELECT value COLLATE "C" FROM json_array_elements_text(:addresses::json)
    UNION
    SELECT g.source FROM later l
    JOIN edges g ON g.target = l.address AND g.relation = 'supersedes'
)
SELECT l.address, e.id, e.address, e.task, e.kind, e.agent, e.at,
    e.status, e.position, e.length, e.traits
FROM (SELECT address FROM later LIMIT :most) l
JOIN edges g ON g.target = l.address AND g.relation = 'supersedes'
JOIN entries e ON e.address = g.source;

-- name: tagged
SELECT node, count(*) FROM tags WHERE tag IN (SELECT json_array_elements_text(:tags::json))
GROUP BY node ORDER BY count(*) DESC, node LIMIT :limit;

-- name: context_map
SELECT * FROM (
    SELECT DISTINCT ON (i.path) i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status,
        i.is_open, i.title, i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes, r.seq
    FROM items i
    JOIN streams s ON s.name = 'task/' || i.task
    JOIN records r ON r.stream = s.id AND r.position = i.position
    WHERE i.path <> '' AND (:task = '' OR i.task = :task)
    ORDER BY i.path, r.seq DESC, i.ordinal DESC
) newest WHERE grade <> '' ORDER BY seq DESC, path LIMIT :limit;

-- name: open_everywhere
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM items i
WHERE i.letter = :letter AND i.is_open AND (:task = '' OR i.task = :task)
ORDER BY i.task, i.ordinal LIMIT :limit;

-- name: entries_of_kind
SELECT e.id, e.address, e.task, e.kind, e.agent, e.at, e.status, e.position, e.length, e.traits
FROM (
    SELECT id FROM texts WHERE terms @@ :query::tsquery AND id < :before
    ORDER BY id DESC LIMIT :limit) t
JOIN entries e ON e.id = t.id
WHERE e.kind = :kind ORDER BY e.id DESC;

-- name: latest_gotchas
SELECT i.task, i.letter, i.ordinal, i.position, i.field, i.idx, i.status, i.is_open, i.title,
    i.fingerprint, i.path, i.closed_at, i.note, i.grade, i.sizes
FROM (
    SELECT id FROM texts WHERE terms @@ :query::tsquery) t
JOIN entries e ON e.id = t.id
JOIN items i ON i.task = e.task AND i.letter = 'g'
    AND i.ordinal = substring(e.address FROM '#g([0-9]+)$')::integer
WHERE i.grade = :grade AND i.status IN ('active', 'open') ORDER BY e.id DESC LIMIT :limit;

-- name: forget_entries
DELETE FROM entries;

-- name: forget_numbers
UPDATE numbers SET gone = 0;

-- name: add_embedder
SELECT load_embedder((SELECT coalesce(max(id), 0) + 1 FROM embedders), :name, :dimensions, 0);

-- name: embedded_up_to
UPDATE embedders SET done = greatest(done, :done) WHERE id = :id;

-- name: add_vectors
INSERT INTO vectors (embedder, id, passage, vector)
SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::bytea[], ?::bytea[])
ON CONFLICT (embedder, id) DO UPDATE SET passage = excluded.passage, vector = excluded.vector;

-- name: drop_embedder
SELECT forget_embedder(:id);

-- name: vectors_of
SELECT v.id, v.vector
FROM json_array_elements_text(:ids::json) WITH ORDINALITY j (value, place)
JOIN vectors v ON v.embedder = :embedder AND v.id = j.value::bigint ORDER BY j.place;

-- name: nearest
SELECT nearest_vectors(:embedder, :query,
    ARRAY(SELECT json_array_elements_text(:kinds::json)), :agent, :task, :limit);

-- name: nearest_of
SELECT v.id
FROM json_array_elements_text(:ids::json) j (value)
JOIN vectors v ON v.embedder = :embedder AND v.id = j.value::bigint
ORDER BY v.embedding <=> :query::halfvec LIMIT :limit;

-- name: share_store
SELECT pg_advisory_xact_lock_shared(:key);

-- name: lock
SELECT pg_advisory_xact_lock(:key);

-- name: schema_version
SELECT coalesce(max(number), 0) FROM migrations;

-- name: set_up
SELECT set_config('search_path', quote_ident(:schema) || coalesce((
        SELECT ', ' || quote_ident(n.nspname) FROM pg_extension e
        JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'), ''), false),
    set_config('lock_timeout', :lock_timeout, false),
    set_config('passdown.schema', :schema, false);

-- name: commit_without_waiting
SELECT set_config('synchronous_commit', 'off', false);

-- name: settings
SELECT current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit'), current_setting('server_encoding'),
    current_setting('server_version_num')::bigint,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector');

-- name: has_schema
SELECT to_regnamespace(quote_ident(:schema)) IS NOT NULL,
    to_regclass(quote_ident(:schema) || '.migrations') IS NOT NULL;

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
WHERE c.relnamespace = to_regnamespace(quote_ident(:schema)) AND c.relkind = 'r' AND a.attnum > 0
    AND NOT a.attisdropped
UNION ALL
SELECT 'index', c.relname, concat_ws(' ', m.amname, CASE WHEN i.indisunique THEN 'unique' END,
    CASE WHEN i.indpred IS NOT NULL THEN 'partial' END, CASE WHEN NOT i.indisvalid THEN 'invalid' END,
    'on', t.relname, (SELECT string_agg(a.attname, ',' ORDER BY a.attnum) FROM pg_attribute a
        WHERE a.attrelid = c.oid))
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
JOIN pg_am m ON m.oid = c.relam
WHERE c.relnamespace = to_regnamespace(quote_ident(:schema)) AND NOT starts_with(c.relname, 'vectors_of_')
UNION ALL
SELECT 'reference', c.relname, f.relname FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class f ON f.oid = k.confrelid
WHERE k.connamespace = to_regnamespace(quote_ident(:schema)) AND k.contype = 'f'
UNION ALL
SELECT 'trigger', t.tgname, concat_ws(' ', c.relname, t.tgtype, t.tgenabled, p.proname)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE c.relnamespace = to_regnamespace(quote_ident(:schema)) AND NOT t.tgisinternal
UNION ALL
SELECT 'function', p.proname, concat_ws(' ', p.provolatile, md5(p.prosrc)) FROM pg_proc p
WHERE p.pronamespace = to_regnamespace(quote_ident(:schema))
ORDER BY 1, 2, 3;

-- name: lock_holder
SELECT a.pid, a.application_name, coalesce(host(a.client_addr), 'this machine'),
    CASE WHEN a.wait_event = 'ClientRead' THEN 'waiting for its process' ELSE a.state END
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND a.pid <> pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((l.classid::bigint << 32) | l.objid::bigint) IN (
        SELECT json_array_elements_text(:keys::json)::bigint)
ORDER BY a.xact_start LIMIT 1;

-- name: is_working
SELECT state = 'active' AND coalesce(wait_event, '') NOT IN ('ClientRead', 'ClientWrite')
FROM pg_stat_activity WHERE pid = :pid;

-- name: server_facts
SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit'), current_setting('data_checksums'),
    (SELECT max(number) FROM migrations),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
     WHERE c.relnamespace = to_regnamespace(quote_ident(:schema)) AND c.relkind = 'r'),
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
    current_setting('max_connections')::bigint,
    (SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database());

-- name: load_tasks
INSERT INTO tasks (task, version, digest, base_status, phase, holder, created_seq,
    updated_seq, header)
SELECT * FROM unnest(?::text[], ?::bigint[], ?::text[], ?::text[], ?::text[], ?::text[],
    ?::bigint[], ?::bigint[], ?::text[]);

-- name: load_links
INSERT INTO links (source, relation, target, opened_seq, closed_seq)
SELECT * FROM unnest(?::text[], ?::text[], ?::text[], ?::bigint[], ?::bigint[]);

-- name: load_inbox
INSERT INTO inbox (agent, task, position, held)
SELECT * FROM unnest(?::text[], ?::text[], ?::bigint[], ?::boolean[]);

-- name: page_texts
SELECT id, words, marks
FROM texts WHERE id > :id
ORDER BY id LIMIT :limit;

-- name: load_embedders
SELECT load_embedder(?, ?, ?, ?);

-- name: load_heads
INSERT INTO streams (id, name, position, digest)
SELECT (SELECT coalesce(max(id), 0) FROM streams) + row_number() OVER (), given.*
FROM unnest(?::text[], ?::bigint[], ?::text[]) given
ON CONFLICT (name) DO UPDATE SET position = excluded.position, digest = excluded.digest;

-- name: load_records
INSERT INTO records (seq, stream, position, at, author, kind, key, previous, digest, body)
SELECT r.seq, s.id, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body
FROM unnest(?::text[], ?::bigint[], ?::bigint[], ?::text[], ?::text[], ?::text[], ?::text[],
    ?::text[], ?::text[], ?::bytea[])
    r (stream, seq, position, at, author, kind, key, previous, digest, body)
JOIN streams s ON s.name = r.stream;

-- name: load_number
UPDATE numbers SET gone = :last;

-- name: note_rebuild
INSERT INTO rebuilds (due) VALUES (1) ON CONFLICT (due) DO NOTHING;
