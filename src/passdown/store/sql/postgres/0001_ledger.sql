-- One workspace: the ledger and the rows derived from it, in a schema of its own. Tables and columns
-- are those of the embedded store. Text is compared byte by byte, whatever the database's locale.

CREATE TABLE migrations (
    number bigint PRIMARY KEY,
    name text NOT NULL,
    applied_at text NOT NULL
);

CREATE TABLE streams (
    id bigint PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    position bigint NOT NULL,
    digest text COLLATE "C" NOT NULL
);

CREATE TABLE records (
    seq bigint PRIMARY KEY,
    stream bigint NOT NULL REFERENCES streams (id),
    position bigint NOT NULL,
    at text COLLATE "C" NOT NULL,
    author text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    previous text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    UNIQUE (stream, position),
    UNIQUE (stream, key)
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'records are only ever added';
END
$$;

CREATE TRIGGER records_stay_as_written BEFORE UPDATE OR DELETE ON records
FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE TRIGGER records_stay BEFORE TRUNCATE ON records
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE tasks (
    task text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    digest text COLLATE "C" NOT NULL,
    base_status text COLLATE "C" NOT NULL,
    phase text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    created_seq bigint NOT NULL,
    updated_seq bigint NOT NULL,
    header text COLLATE "C" NOT NULL
);

CREATE INDEX tasks_by_creation ON tasks (created_seq);

CREATE TABLE details (
    task text COLLATE "C" PRIMARY KEY,
    details text COLLATE "C" NOT NULL
);

CREATE TABLE items (
    task text COLLATE "C" NOT NULL,
    letter text COLLATE "C" NOT NULL,
    ordinal bigint NOT NULL,
    position bigint NOT NULL,
    field text COLLATE "C" NOT NULL,
    idx bigint NOT NULL,
    status text COLLATE "C" NOT NULL,
    is_open boolean NOT NULL,
    title text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    closed_at bigint NOT NULL,
    note text COLLATE "C" NOT NULL,
    grade text COLLATE "C" NOT NULL,
    sizes text COLLATE "C" NOT NULL,
    PRIMARY KEY (task, letter, ordinal)
);

CREATE INDEX items_by_position ON items (task, position);

CREATE INDEX items_open ON items (task, letter) WHERE is_open;

CREATE INDEX items_gates ON items (task, ordinal) WHERE letter = 'k';

CREATE INDEX items_by_path ON items (task, path, ordinal) WHERE path <> '';

CREATE TABLE labels (
    task text COLLATE "C" NOT NULL,
    label text COLLATE "C" NOT NULL,
    letter text COLLATE "C" NOT NULL,
    ordinal bigint NOT NULL,
    PRIMARY KEY (task, label, letter, ordinal)
);

CREATE TABLE links (
    source text COLLATE "C" NOT NULL,
    relation text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    opened_seq bigint NOT NULL,
    closed_seq bigint NOT NULL,
    PRIMARY KEY (target, relation, source)
);

CREATE INDEX links_by_source ON links (source);

CREATE INDEX links_open ON links (target, relation) WHERE closed_seq = 0;

CREATE TABLE dependencies (
    task text COLLATE "C" NOT NULL,
    needs text COLLATE "C" NOT NULL,
    PRIMARY KEY (task, needs)
);

CREATE INDEX dependencies_by_need ON dependencies (needs, task);

CREATE TABLE inbox (
    agent text COLLATE "C" NOT NULL,
    task text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL,
    held boolean NOT NULL
);

CREATE INDEX inbox_by_agent ON inbox (agent, task);

-- Rows that an earlier release derived and that have to be made again.
CREATE TABLE rebuilds (
    due bigint PRIMARY KEY
);

CREATE TABLE entries (
    id bigint PRIMARY KEY,
    address text COLLATE "C" NOT NULL UNIQUE,
    task text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    at text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    length bigint NOT NULL,
    traits bigint NOT NULL,
    heads text COLLATE "C" NOT NULL,
    passage bytea NOT NULL
);

CREATE INDEX entries_by_task ON entries (task, id);

CREATE INDEX entries_by_agent ON entries (agent, id);

CREATE INDEX entries_by_status ON entries (status, id);

CREATE INDEX entries_by_time ON entries (at);

-- The highest number that an entry which is gone ever had: no number is used twice.
CREATE TABLE numbers (
    gone bigint NOT NULL
);

INSERT INTO numbers (gone) VALUES (0);

-- The words of an entry as they are compared, and its marks, told apart by a sign that no word has.
CREATE FUNCTION terms_of(words text, marks text) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_to_tsvector(array_remove(string_to_array(words, ' '), '')
        || ARRAY(SELECT '=' || mark FROM unnest(string_to_array(marks, ' ')) mark WHERE mark <> ''))
$$;

CREATE TABLE texts (
    id bigint PRIMARY KEY,
    words text COLLATE "C" NOT NULL,
    marks text COLLATE "C" NOT NULL,
    terms tsvector NOT NULL GENERATED ALWAYS AS (terms_of(words, marks)) STORED
);

-- A short list of what isn't in the index yet: long ones make every question slow.
CREATE INDEX texts_by_term ON texts USING gin (terms) WITH (gin_pending_list_limit = 256);

CREATE TABLE knowledge (
    id text COLLATE "C" PRIMARY KEY,
    type text COLLATE "C" NOT NULL,
    summary text COLLATE "C" NOT NULL,
    tags text COLLATE "C" NOT NULL,
    attributes text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    position bigint NOT NULL
);

CREATE TABLE edges (
    source text COLLATE "C" NOT NULL,
    relation text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    attributes text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (source, relation, target)
);

CREATE INDEX edges_by_target ON edges (target, relation);

CREATE TABLE tags (
    tag text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    PRIMARY KEY (tag, node)
);

CREATE INDEX tags_by_node ON tags (node);

CREATE TABLE embedders (
    id bigint PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    dimensions bigint NOT NULL,
    done bigint NOT NULL
);

-- A stored vector has one signed byte for each dimension; a half-precision number holds it exactly.
CREATE FUNCTION as_halfvec(bytes bytea) RETURNS halfvec
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(
        SELECT ((get_byte(bytes, place) # 128) - 128)::real
        FROM generate_series(0, length(bytes) - 1) place ORDER BY place
    )::halfvec
$$;

CREATE TABLE vectors (
    embedder bigint NOT NULL,
    id bigint NOT NULL,
    passage bytea NOT NULL,
    vector bytea NOT NULL,
    embedding halfvec NOT NULL GENERATED ALWAYS AS (as_halfvec(vector)) STORED,
    PRIMARY KEY (embedder, id)
);

-- Each embedder has its own number of dimensions, so each gets an index of its own. pgvector indexes
-- up to 4,000 dimensions; longer vectors are compared one by one.
CREATE FUNCTION load_embedder(number bigint, wanted text, size bigint, up_to bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO embedders (id, name, dimensions, done) VALUES (number, wanted, size, up_to)
    ON CONFLICT (name) DO NOTHING;
    IF FOUND AND size BETWEEN 1 AND 4000 THEN
        EXECUTE format(
            'CREATE INDEX %I ON vectors USING hnsw ((embedding::halfvec(%s)) halfvec_cosine_ops)'
            ' WHERE embedder = %s',
            'vectors_of_' || number, size, number);
    END IF;
END
$$;

CREATE FUNCTION forget_embedder(number bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM embedders WHERE id = number;
    EXECUTE format('DROP INDEX IF EXISTS %I', 'vectors_of_' || number);
END
$$;

-- The nearest that pass a filter, nearest first. The index is walked until enough pass; where it gives
-- up before that, those that pass are few, and all of them are compared. Some may come twice.
CREATE FUNCTION nearest_vectors(
    number bigint, asked text, kinds text[], by_agent text, of_task text, most bigint
) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    size bigint := (SELECT dimensions FROM embedders WHERE id = number);
    passing text :=
        'SELECT v.id FROM vectors v JOIN entries e ON e.id = v.id WHERE v.embedder = %s'
        ' AND (cardinality($2) = 0 OR e.kind = ANY ($2))'
        ' AND ($3 = '''' OR e.agent = $3) AND ($4 = '''' OR e.task = $4)'
        ' ORDER BY %s <=> $1::halfvec LIMIT $5';
    given bigint := 0;
BEGIN
    IF size BETWEEN 1 AND 4000 THEN
        PERFORM set_config('hnsw.iterative_scan', 'strict_order', true);
        PERFORM set_config('hnsw.ef_search', least(1000, greatest(40, most))::text, true);
        RETURN QUERY EXECUTE format(passing, number, format('v.embedding::halfvec(%s)', size))
            USING asked, kinds, by_agent, of_task, most;
        GET DIAGNOSTICS given = ROW_COUNT;
    END IF;
    IF given < most THEN
        RETURN QUERY EXECUTE format(passing, number, 'v.embedding')
            USING asked, kinds, by_agent, of_task, most;
    END IF;
END
$$;
