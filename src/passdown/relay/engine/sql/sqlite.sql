-- name: wait_for_locks
PRAGMA busy_timeout = 30000

-- name: keep_a_log
PRAGMA journal_mode = WAL

-- name: sync_each_commit
PRAGMA synchronous = FULL

-- name: make_workers
CREATE TABLE IF NOT EXISTS passdown_workers (
    worker TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    beat_at REAL NOT NULL,
    lease_s REAL NOT NULL,
    lost INTEGER NOT NULL
)

-- name: make_lanes
CREATE TABLE IF NOT EXISTS passdown_lanes (
    lane TEXT PRIMARY KEY,
    sent INTEGER NOT NULL
)

-- name: sign_on
INSERT INTO passdown_workers (worker, host, pid, started, beat_at, lease_s, lost)
VALUES (:worker, :host, :pid, :started, (julianday('now') - 2440587.5) * 86400.0, :lease_s, 0)
ON CONFLICT (worker) DO UPDATE SET beat_at = (julianday('now') - 2440587.5) * 86400.0, lease_s = excluded.lease_s, lost = 0

-- name: beat
UPDATE passdown_workers SET beat_at = (julianday('now') - 2440587.5) * 86400.0 WHERE worker = :worker AND lost = 0

-- name: sign_off
DELETE FROM passdown_workers WHERE worker = :worker

-- name: workers
SELECT worker, host, pid, started, (julianday('now') - 2440587.5) * 86400.0 - beat_at, lease_s, lost
FROM passdown_workers ORDER BY worker

-- name: declare_lost
UPDATE passdown_workers SET lost = lost + 1, beat_at = (julianday('now') - 2440587.5) * 86400.0
WHERE worker = :worker AND lost = :lost AND (julianday('now') - 2440587.5) * 86400.0 - beat_at >= :silent_s

-- name: leave_to_others
UPDATE passdown_workers SET beat_at = 0 WHERE worker = :worker AND lost = :lost

-- name: hold_lane
INSERT INTO passdown_lanes (lane, sent) VALUES (:lane, 1)
ON CONFLICT (lane) DO UPDATE SET sent = passdown_lanes.sent + 1
