"""On PostgreSQL a batch is one call of `ledger_apply`, which follows `payments/ledger/rules.py` command by command.

Additive: a server of an earlier version may run beside this one. It takes the advisory lock of batches exclusively,
and `ledger_apply` takes it shared, so that batches of both never overlap; it releases only what is in
`open_reservation`, so reservations that are made here stand in `pending_reservation`.
"""

import zlib

from alembic import op

revision = "0004"
down_revision = "0003"

BATCH_LOCK = zlib.crc32(b"ledger")
OLD_OWNERS = zlib.crc32(b"ledger-owners") >> 1

# Accounts that may go below zero are kept in parts, one per process, so that processes do not wait for each other.
TABLES = """
CREATE TABLE account_part (
    name TEXT NOT NULL,
    part INTEGER NOT NULL,
    balance BIGINT NOT NULL,
    reserved BIGINT NOT NULL,
    total_in BIGINT NOT NULL,
    total_out BIGINT NOT NULL,
    posted_count BIGINT NOT NULL,
    last_at DOUBLE PRECISION,
    PRIMARY KEY (name, part)
) WITH (fillfactor = 50);
CREATE TABLE pending_reservation (
    seq BIGINT PRIMARY KEY,
    fingerprint BYTEA NOT NULL
);
CREATE TABLE ledger_process (
    owner BIGINT PRIMARY KEY,
    part INTEGER NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    backend INTEGER,
    backend_start TIMESTAMPTZ
);
CREATE VIEW account_total AS
    SELECT name, CAST(sum(balance) AS BIGINT) AS balance, CAST(sum(reserved) AS BIGINT) AS reserved,
        CAST(sum(total_in) AS BIGINT) AS total_in, CAST(sum(total_out) AS BIGINT) AS total_out,
        CAST(sum(posted_count) AS BIGINT) AS posted_count, max(last_at) AS last_at
    FROM (SELECT name, balance, reserved, total_in, total_out, posted_count, last_at FROM account
        UNION ALL SELECT name, balance, reserved, total_in, total_out, posted_count, last_at FROM account_part) AS parts
    GROUP BY name;
CREATE VIEW every_open_reservation AS
    SELECT seq, fingerprint FROM pending_reservation UNION ALL SELECT seq, fingerprint FROM open_reservation;
CREATE SEQUENCE transfer_seq OWNED BY transfer.seq"""

# The lease of a process, and the part that it writes to. `backend` is the session of the process, where its connection
# has one of its own: it shows that the process died before the lease expires.
PROCESSES = (
    """CREATE FUNCTION ledger_renew(p_owner BIGINT, p_seconds FLOAT8, p_session INTEGER) RETURNS INTEGER
    LANGUAGE plpgsql AS $$ DECLARE
        v_part INTEGER;
    BEGIN
        -- Behind a pooler the session that the client knows is not the server's.
        INSERT INTO ledger_process AS lease (owner, part, expires_at, backend, backend_start)
        SELECT p_owner, min(free), clock_timestamp() + make_interval(secs => p_seconds), a.pid, a.backend_start
        FROM generate_series(0, 1000) AS free LEFT JOIN pg_stat_activity a
            ON a.pid = pg_backend_pid() AND a.pid = p_session
        WHERE NOT EXISTS (SELECT FROM ledger_process
            WHERE part = free AND expires_at > clock_timestamp() AND owner <> p_owner)
        GROUP BY a.pid, a.backend_start
        ON CONFLICT (owner) DO UPDATE SET expires_at = excluded.expires_at,
            backend = CASE WHEN p_session IS NULL THEN lease.backend ELSE excluded.backend END,
            backend_start = CASE WHEN p_session IS NULL THEN lease.backend_start ELSE excluded.backend_start END
        RETURNING part INTO v_part;
        DELETE FROM ledger_process WHERE expires_at < clock_timestamp() - INTERVAL '1 day';
        RETURN v_part;
    END $$""",
    f"""CREATE FUNCTION ledger_alive(p_owners BIGINT[]) RETURNS SETOF BIGINT LANGUAGE sql STABLE AS $$
        SELECT owner FROM ledger_process p WHERE owner = ANY(p_owners) AND expires_at > clock_timestamp()
            AND (backend IS NULL OR EXISTS (SELECT FROM pg_stat_activity a
                WHERE a.pid = p.backend AND coalesce(a.backend_start, p.backend_start) = p.backend_start))
        UNION SELECT CAST(objid AS BIGINT) FROM pg_locks WHERE locktype = 'advisory' AND classid = {OLD_OWNERS}
            AND objsubid = 2 AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND CAST(objid AS BIGINT) = ANY(p_owners)
    $$""",  # noqa: S608 - our own text
)

# The bodies that no response refers to. Only this takes the lock of batches exclusively, for the deletion alone: a
# batch may be storing a response with a body that is there already.
SWEEP = f"""CREATE FUNCTION ledger_sweep() RETURNS VOID LANGUAGE plpgsql AS
$$ DECLARE
    v_unused BYTEA[] := ARRAY(SELECT hash FROM kept_body WHERE hash NOT IN (SELECT hash FROM kept));
BEGIN
    IF cardinality(v_unused) > 0 THEN
        PERFORM pg_advisory_xact_lock({BATCH_LOCK});
        DELETE FROM kept_body WHERE hash = ANY(v_unused) AND hash NOT IN (SELECT hash FROM kept);
    END IF;
END $$"""  # noqa: S608 - our own text

# Arguments with one element per command: what it is (1 move, 2 reserve, 3 post, 4 void, 5 release, 6 delivered, 7
# sweep), its transfer's id, the first command with the same id, the positions of its accounts in `p_names`, and the
# rest of the transfer. A post has the hash of its response's body; `p_bodies` are those that may be new.
#
# The variables v_* hold the state of each transfer at the position of the first command that names it, and of each
# account at its position in v_names. States: 0 none, 1 pending, 2 posted, 3 voided, 4 settled.
#
# Results: 1 moved now, 2 moved before, 3 id taken, 4 overdrawn, 5 reserved, 6 insufficient, 7 used, 8 done, 9 gone.
APPLY = f"""CREATE FUNCTION ledger_apply(
    p_part INTEGER, p_now FLOAT8, p_ttl FLOAT8, p_names TEXT[], p_created TEXT[], p_known TEXT[],
    p_commands SMALLINT[], p_ids TEXT[], p_firsts INTEGER[], p_debits INTEGER[], p_credits INTEGER[],
    p_amounts BIGINT[], p_kinds TEXT[], p_memos TEXT[], p_fingerprints BYTEA[], p_owners BIGINT[], p_numbers BIGINT[],
    p_heads BYTEA[], p_hashes BYTEA[], p_body_hashes BYTEA[], p_bodies BYTEA[]
) RETURNS TABLE (
    code SMALLINT, micros BIGINT, state SMALLINT, maker INTEGER, answerer INTEGER, id TEXT, debit TEXT, credit TEXT,
    kind TEXT, memo TEXT, at FLOAT8, head BYTEA, body BYTEA
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    n INTEGER := cardinality(p_commands);
    v_names TEXT[];
    -- Accounts.
    v_balance BIGINT[]; v_reserved BIGINT[]; v_in BIGINT[]; v_out BIGINT[]; v_posted BIGINT[]; v_last FLOAT8[];
    v_agent BOOLEAN[]; v_touched BOOLEAN[];
    -- Transfers.
    v_seq BIGINT[] := array_fill(NULL::BIGINT, ARRAY[n]);
    v_state SMALLINT[] := array_fill(0::SMALLINT, ARRAY[n]);
    v_amount BIGINT[] := array_fill(0::BIGINT, ARRAY[n]);
    v_debit INTEGER[] := array_fill(0, ARRAY[n]);
    v_credit INTEGER[] := array_fill(0, ARRAY[n]);
    v_owner BIGINT[] := array_fill(0::BIGINT, ARRAY[n]);
    v_number BIGINT[] := array_fill(0::BIGINT, ARRAY[n]);
    v_maker INTEGER[] := array_fill(0, ARRAY[n]);
    v_print BYTEA[] := array_fill(NULL::BYTEA, ARRAY[n]);
    v_answerer INTEGER[] := array_fill(0, ARRAY[n]);
    -- Results.
    r_code SMALLINT[] := array_fill(8::SMALLINT, ARRAY[n]);
    r_micros BIGINT[] := array_fill(NULL::BIGINT, ARRAY[n]);
    r_state SMALLINT[] := array_fill(NULL::SMALLINT, ARRAY[n]);
    r_maker INTEGER[] := array_fill(0, ARRAY[n]);
    r_answerer INTEGER[] := array_fill(0, ARRAY[n]);
    r_seq BIGINT[] := array_fill(NULL::BIGINT, ARRAY[n]);
    -- Rows to write, at the position of the command that made them.
    w_seq BIGINT[] := array_fill(NULL::BIGINT, ARRAY[n]);
    w_amount BIGINT[] := array_fill(NULL::BIGINT, ARRAY[n]);
    w_pending BOOLEAN[] := array_fill(FALSE, ARRAY[n]);
    w_resolved BIGINT[] := array_fill(NULL::BIGINT, ARRAY[n]);
    w_resolution TEXT[] := array_fill(NULL::TEXT, ARRAY[n]);
    w_charged BIGINT[] := array_fill(NULL::BIGINT, ARRAY[n]);
    w_answered BIGINT[] := array_fill(NULL::BIGINT, ARRAY[n]);
    w_print BYTEA[] := array_fill(NULL::BYTEA, ARRAY[n]);
    w_closed BIGINT[] := '{{}}'; w_deleted BIGINT[] := '{{}}'; w_forgotten BIGINT[] := '{{}}';
    v_added INTEGER; v_written INTEGER; v_top BIGINT;
    c RECORD; a RECORD;
    u INTEGER; d INTEGER; k INTEGER; x INTEGER; s SMALLINT; m BIGINT; v_next BIGINT;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', TRUE);
    END IF;
    PERFORM pg_advisory_xact_lock_shared({BATCH_LOCK});

    -- The accounts, locked in the order of their names. An id always has the same accounts, so those that are read here
    -- are those of the transfers that are read after the locks.
    v_names := p_names || ARRAY(SELECT DISTINCT side.name FROM transfer t, LATERAL (VALUES (t.debit), (t.credit)) AS
        side (name) WHERE t.id = ANY(p_known) AND side.name <> ALL(p_names));
    x := cardinality(v_names);
    v_balance := array_fill(0::BIGINT, ARRAY[x]); v_reserved := v_balance; v_in := v_balance; v_out := v_balance;
    v_posted := v_balance; v_last := array_fill(NULL::FLOAT8, ARRAY[x]); v_touched := array_fill(FALSE, ARRAY[x]);
    v_agent := ARRAY(SELECT name LIKE 'agent:%' FROM unnest(v_names) WITH ORDINALITY AS one (name, n) ORDER BY one.n);
    IF cardinality(p_created) > 0 THEN
        INSERT INTO account SELECT name, 0, 0, 0, 0, 0, NULL FROM unnest(p_created) AS created (name)
            WHERE NOT EXISTS (SELECT FROM account WHERE account.name = created.name) ORDER BY name
            ON CONFLICT (name) DO NOTHING;
    END IF;
    FOR a IN SELECT array_position(v_names, l.name) AS x, l.* FROM (SELECT * FROM account
        WHERE name = ANY(v_names) AND name LIKE 'agent:%' ORDER BY name FOR NO KEY UPDATE) AS l
    LOOP
        v_balance[a.x] := a.balance; v_reserved[a.x] := a.reserved; v_in[a.x] := a.total_in; v_out[a.x] := a.total_out;
        v_posted[a.x] := a.posted_count; v_last[a.x] := a.last_at;
    END LOOP;

    -- A server of an earlier version numbers transfers without the sequence.
    SELECT coalesce(max(seq), 0) INTO v_top FROM transfer;

    FOR c IN SELECT one.n::INTEGER AS n, one.command, one.id, one.u, one.d, one.k, one.amount, one.kind, one.print,
            one.owner, one.number, t.seq AS t_seq, coalesce(r.amount, t.amount) AS t_amount, t.debit AS t_debit,
            t.credit AS t_credit, t.kind AS t_kind, t.owner AS t_owner, t.number AS t_number,
            CASE WHEN t.seq IS NULL THEN 0 WHEN NOT t.is_reservation THEN 4 WHEN r.state = 'posted' THEN 2
                WHEN r.state = 'voided' THEN 3 ELSE 1 END::SMALLINT AS t_state,
            coalesce(p.fingerprint, o.fingerprint) AS t_print, h.fingerprint AS h_print, h.at AS h_at
        FROM unnest(p_commands, p_ids, p_firsts, p_debits, p_credits, p_amounts, p_kinds, p_fingerprints, p_owners,
            p_numbers) WITH ORDINALITY AS one (command, id, u, d, k, amount, kind, print, owner, number, n)
        LEFT JOIN transfer t ON t.id = one.id AND one.n = one.u
        LEFT JOIN resolution r ON r.seq = t.seq
        LEFT JOIN pending_reservation p ON p.seq = t.seq
        LEFT JOIN open_reservation o ON o.seq = t.seq
        LEFT JOIN kept h ON h.seq = t.seq
        ORDER BY one.n
    LOOP
        u := c.u;
        IF c.t_state > 0 THEN
            v_seq[u] := c.t_seq; v_state[u] := c.t_state; v_amount[u] := c.t_amount; v_owner[u] := c.t_owner;
            v_number[u] := c.t_number; v_debit[u] := array_position(v_names, c.t_debit);
            v_credit[u] := array_position(v_names, c.t_credit); v_print[u] := c.t_print;
            IF c.h_at IS NOT NULL AND p_now - c.h_at < p_ttl THEN
                v_answerer[u] := -1; v_print[u] := c.h_print;
            END IF;
        END IF;
        s := v_state[u];
        IF c.command <= 2 THEN
            d := c.d; k := c.k;
            IF s > 0 THEN
                r_state[c.n] := s;
                r_maker[c.n] := v_maker[u];
                IF c.command = 1 THEN
                    r_seq[c.n] := v_seq[u]; r_micros[c.n] := v_amount[u];
                    IF s = 4 AND v_debit[u] = d AND v_credit[u] = k AND v_amount[u] = c.amount
                        AND c.kind = coalesce(p_kinds[nullif(v_maker[u], 0)],
                            (SELECT t.kind FROM transfer t WHERE t.seq = v_seq[u])) THEN
                        r_code[c.n] := CASE WHEN v_owner[u] = c.owner AND v_number[u] = c.number THEN 1 ELSE 2 END;
                    ELSE
                        r_code[c.n] := 3;
                    END IF;
                ELSIF v_owner[u] = c.owner AND v_number[u] = c.number THEN
                    r_code[c.n] := 5;
                ELSE
                    r_code[c.n] := 7;
                    IF s <> 4 AND v_answerer[u] <> 0 AND v_print[u] = c.print THEN
                        r_answerer[c.n] := v_answerer[u];
                        r_seq[c.n] := v_seq[u];
                    END IF;
                END IF;
                CONTINUE;
            END IF;
            IF v_agent[d] AND v_balance[d] - v_reserved[d] < c.amount AND NOT (c.command = 1 AND c.kind = 'reversal')
            THEN
                r_code[c.n] := CASE c.command WHEN 1 THEN 4 ELSE 6 END;
                r_micros[c.n] := v_balance[d] - v_reserved[d];
                CONTINUE;
            END IF;
            v_next := nextval('transfer_seq');
            IF v_next <= v_top THEN
                SELECT max(nextval('transfer_seq')) INTO v_next FROM generate_series(v_next, v_top);
            END IF;
            v_seq[u] := v_next; v_amount[u] := c.amount; v_debit[u] := d; v_credit[u] := k; v_owner[u] := c.owner;
            v_number[u] := c.number; v_maker[u] := c.n; v_print[u] := c.print; v_answerer[u] := 0;
            w_seq[c.n] := v_next; w_amount[c.n] := c.amount;
            IF c.command = 1 THEN
                r_code[c.n] := 1; r_maker[c.n] := c.n; r_state[c.n] := 4; r_micros[c.n] := c.amount;
                v_state[u] := 4;
                v_balance[d] := v_balance[d] - c.amount; v_out[d] := v_out[d] + c.amount; v_touched[d] := TRUE;
                v_balance[k] := v_balance[k] + c.amount; v_in[k] := v_in[k] + c.amount; v_touched[k] := TRUE;
            ELSE
                r_code[c.n] := 5;
                v_state[u] := 1;
                w_pending[c.n] := TRUE;
                v_reserved[d] := v_reserved[d] + c.amount; v_touched[d] := TRUE;
            END IF;
        ELSIF c.command <= 5 THEN
            IF s = 0 OR (c.owner IS NOT NULL AND (v_owner[u] <> c.owner OR v_number[u] <> c.number))
                OR v_debit[u] IS NULL OR v_credit[u] IS NULL THEN
                r_code[c.n] := 9;
                CONTINUE;
            END IF;
            IF s <> 1 THEN
                -- Posting and voiding again change nothing; anything else cannot be undone.
                IF NOT (c.command = 3 AND s = 2 OR c.command = 4 AND s = 3) THEN
                    r_code[c.n] := 9; r_state[c.n] := s;
                END IF;
                CONTINUE;
            END IF;
            d := v_debit[u];
            m := v_amount[u];
            v_reserved[d] := v_reserved[d] - m; v_touched[d] := TRUE;
            x := v_maker[u];
            IF x > 0 THEN
                w_pending[x] := FALSE;
            ELSE
                w_closed := w_closed || v_seq[u];
            END IF;
            IF c.command = 5 THEN
                IF x > 0 THEN
                    w_seq[x] := NULL;
                ELSE
                    w_deleted := w_deleted || v_seq[u];
                END IF;
                v_state[u] := 0; v_maker[u] := 0;
                CONTINUE;
            END IF;
            w_resolved[c.n] := v_seq[u];
            IF c.command = 4 THEN
                v_state[u] := 3; w_resolution[c.n] := 'voided';
                CONTINUE;
            END IF;
            v_state[u] := 2; w_resolution[c.n] := 'posted';
            IF c.amount < m THEN
                m := c.amount;
                v_amount[u] := m;
                -- The row of a transfer that is added here has the amount that was charged.
                IF x > 0 THEN w_amount[x] := m; ELSE w_charged[c.n] := m; END IF;
            END IF;
            k := v_credit[u];
            v_balance[d] := v_balance[d] - m; v_out[d] := v_out[d] + m; v_posted[d] := v_posted[d] + 1;
            v_balance[k] := v_balance[k] + m; v_in[k] := v_in[k] + m; v_posted[k] := v_posted[k] + 1;
            v_last[d] := greatest(v_last[d], p_now); v_last[k] := greatest(v_last[k], p_now); v_touched[k] := TRUE;
            IF p_hashes[c.n] IS NOT NULL THEN
                v_answerer[u] := c.n; w_answered[c.n] := v_seq[u]; w_print[c.n] := coalesce(v_print[u], '');
            END IF;
        ELSIF c.command = 6 AND s > 0 THEN
            IF v_answerer[u] > 0 THEN
                w_answered[v_answerer[u]] := NULL;
            ELSE
                w_forgotten := w_forgotten || v_seq[u];
            END IF;
            v_answerer[u] := 0;
        END IF;
    END LOOP;

    RETURN QUERY SELECT one.code, one.micros, one.state, one.maker, one.answerer, t.id, t.debit, t.credit, t.kind,
            t.memo, t.at, h.head, b.body
        FROM unnest(r_code, r_micros, r_state, r_maker, r_answerer, r_seq) WITH ORDINALITY
            AS one (code, micros, state, maker, answerer, seq, n)
        LEFT JOIN transfer t ON t.seq = one.seq
        LEFT JOIN kept h ON h.seq = one.seq AND one.answerer < 0
        LEFT JOIN kept_body b ON b.hash = h.hash
        ORDER BY one.n;

    IF cardinality(w_closed) > 0 THEN
        DELETE FROM pending_reservation WHERE seq = ANY(w_closed);
        GET DIAGNOSTICS v_written = ROW_COUNT;
        IF v_written < cardinality(w_closed) THEN
            DELETE FROM open_reservation WHERE seq = ANY(w_closed);
        END IF;
    END IF;
    IF cardinality(w_deleted) > 0 THEN
        -- First: an id that was released may be taken again in the same batch.
        DELETE FROM transfer WHERE seq = ANY(w_deleted);
    END IF;
    v_added := cardinality(array_remove(w_seq, NULL));
    IF v_added > 0 THEN
        INSERT INTO transfer SELECT one.seq, one.id, v_names[one.d], v_names[one.k], one.amount, one.kind, one.memo,
                p_now, one.command = 2, one.owner, one.number
            FROM unnest(w_seq, p_ids, p_debits, p_credits, w_amount, p_kinds, p_memos, p_commands, p_owners, p_numbers)
                AS one (seq, id, d, k, amount, kind, memo, command, owner, number)
            WHERE one.seq IS NOT NULL ORDER BY one.id ON CONFLICT (id) DO NOTHING;
        GET DIAGNOSTICS v_written = ROW_COUNT;
        IF v_written < v_added THEN
            RAISE SQLSTATE '40001' USING MESSAGE = 'another batch took an id at the same moment';
        END IF;
        INSERT INTO pending_reservation SELECT one.seq, one.print
            FROM unnest(w_seq, p_fingerprints, w_pending) AS one (seq, print, is_pending) WHERE one.is_pending;
    END IF;
    IF cardinality(array_remove(w_resolved, NULL)) > 0 THEN
        INSERT INTO resolution SELECT one.seq, one.state, p_now, one.charged
            FROM unnest(w_resolved, w_resolution, w_charged) AS one (seq, state, charged) WHERE one.seq IS NOT NULL;
    END IF;
    IF cardinality(w_forgotten) > 0 THEN
        DELETE FROM kept WHERE seq = ANY(w_forgotten);
    END IF;
    IF cardinality(array_remove(w_answered, NULL)) > 0 THEN
        INSERT INTO kept_body SELECT new.hash, new.body FROM unnest(p_body_hashes, p_bodies) AS new (hash, body)
            WHERE EXISTS (SELECT FROM unnest(w_answered, p_hashes) AS one (seq, hash)
                WHERE one.seq IS NOT NULL AND one.hash = new.hash)
            ORDER BY new.hash ON CONFLICT (hash) DO NOTHING;
        INSERT INTO kept SELECT one.seq, one.print, p_now, one.head, one.hash
            FROM unnest(w_answered, w_print, p_heads, p_hashes) AS one (seq, print, head, hash)
            WHERE one.seq IS NOT NULL;
        IF EXISTS (SELECT FROM unnest(w_answered, p_hashes) AS one (seq, hash) WHERE one.seq IS NOT NULL
            AND NOT EXISTS (SELECT FROM kept_body b WHERE b.hash = one.hash)) THEN
            RAISE SQLSTATE 'P0002' USING MESSAGE = 'the body of a response is not stored';
        END IF;
    END IF;
    UPDATE account SET balance = one.balance, reserved = one.reserved, total_in = one.total_in,
            total_out = one.total_out, posted_count = one.posted, last_at = one.last
        FROM unnest(v_names, v_balance, v_reserved, v_in, v_out, v_posted, v_last, v_agent, v_touched)
            AS one (name, balance, reserved, total_in, total_out, posted, last, is_agent, is_touched)
        WHERE account.name = one.name AND one.is_agent AND one.is_touched;
    GET DIAGNOSTICS v_written = ROW_COUNT;
    IF v_written <> (SELECT count(*) FROM unnest(v_agent, v_touched) AS one (is_agent, is_touched)
        WHERE one.is_agent AND one.is_touched) THEN
        RAISE EXCEPTION 'an account of this batch has no row';
    END IF;
    INSERT INTO account_part AS part SELECT one.name, p_part, one.balance, one.reserved, one.total_in, one.total_out,
            one.posted, one.last
        FROM unnest(v_names, v_balance, v_reserved, v_in, v_out, v_posted, v_last, v_agent, v_touched)
            AS one (name, balance, reserved, total_in, total_out, posted, last, is_agent, is_touched)
        WHERE one.is_touched AND NOT one.is_agent ORDER BY one.name
        ON CONFLICT (name, part) DO UPDATE SET balance = part.balance + excluded.balance,
            reserved = part.reserved + excluded.reserved, total_in = part.total_in + excluded.total_in,
            total_out = part.total_out + excluded.total_out,
            posted_count = part.posted_count + excluded.posted_count,
            last_at = greatest(part.last_at, excluded.last_at);
END $$"""  # noqa: S608 - our own text


def upgrade() -> None:
    """Create the tables, views and functions. SQLite, where one process writes at a time, needs none of them."""
    if op.get_context().dialect.name == "sqlite":
        return
    for statement in (*TABLES.split(";"), *PROCESSES, SWEEP, APPLY):
        op.execute(statement)
    op.execute("SELECT setval('transfer_seq', coalesce(max(seq), 0) + 1, false) FROM transfer")
