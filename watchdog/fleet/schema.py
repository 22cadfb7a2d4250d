"""The tables of the mailbox in PostgreSQL, one migration per change.

Who may do what is decided by the server alone:
- A host is a login role of its own. It sees and adds its own rows (row-level security), and may close a question of
  its own. It cannot answer, nor touch a row of another host, nor change what it has asked.
- An approver is a member of hermes_watchdog_approver. It sees all rows and answers through `answer`, which is one
  compare-and-set under the server's clock.
- What was asked cannot be edited and the audit cannot be changed by anyone, also not by the owner: triggers refuse.
The owner of the tables has no login.
"""

from __future__ import annotations

SCHEMA = "hermes_watchdog"
OWNER = "hermes_watchdog_owner"
HOSTS = "hermes_watchdog_host"
APPROVERS = "hermes_watchdog_approver"
CHANNEL = "hermes_watchdog"  # of NOTIFY; its payload is the host whose question was answered
# Per host: a stolen password must not fill the disk of all.
HOMES = 100
PENDING = 50
PER_DAY = 200  # questions, also those that were withdrawn
OUTCOMES = 20  # lines of the audit about what became of one question

_FIRST = f"""
CREATE TABLE schema_version (version integer NOT NULL, at timestamptz NOT NULL DEFAULT now());

CREATE TABLE homes (
    host name NOT NULL DEFAULT session_user,
    home text NOT NULL CHECK (length(home) BETWEEN 1 AND 4096),
    instance text NOT NULL CHECK (length(instance) <= 200),
    profile text NOT NULL CHECK (length(profile) <= 200),
    checked_at timestamptz NOT NULL DEFAULT now(),
    clock timestamptz NOT NULL,
    every interval NOT NULL,
    incidents jsonb NOT NULL DEFAULT '[]' CHECK (length(incidents::text) <= 65536),
    waiting integer NOT NULL DEFAULT 0,
    unseen integer NOT NULL DEFAULT 0,
    armed boolean NOT NULL DEFAULT true,
    version text NOT NULL DEFAULT '' CHECK (length(version) <= 100),
    PRIMARY KEY (host, home)
);

CREATE TABLE plans (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host name NOT NULL DEFAULT session_user,
    home text NOT NULL CHECK (length(home) BETWEEN 1 AND 4096),
    machine text NOT NULL CHECK (length(machine) <= 200),
    plan bigint NOT NULL,
    digest text NOT NULL CHECK (digest ~ '^[0-9a-f]{{64}}$'),
    title text NOT NULL CHECK (length(title) <= 1000),
    words jsonb NOT NULL CHECK (jsonb_typeof(words) = 'array' AND length(words::text) <= 65536),
    about jsonb NOT NULL DEFAULT '{{}}' CHECK (length(about::text) <= 65536),
    approvers text[] NOT NULL,
    code text NOT NULL UNIQUE CHECK (code ~ '^[A-Z0-9]{{8}}$'),
    lasts interval NOT NULL CHECK (lasts > interval '0' AND lasts <= interval '31 days'),
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'refused', 'withdrawn')),
    asked_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL DEFAULT now(),
    answered_at timestamptz,
    answered_by name,
    answered_seen text,
    says text NOT NULL DEFAULT '',
    closed_at timestamptz
);
CREATE UNIQUE INDEX one_open_question ON plans (host, home, plan) WHERE state = 'pending';
CREATE INDEX open_questions ON plans (host) WHERE closed_at IS NULL;
CREATE INDEX questions_of_a_day ON plans (host, asked_at);

CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    by name NOT NULL DEFAULT session_user,
    what text NOT NULL,
    host name NOT NULL,
    question bigint,
    plan bigint,
    digest text NOT NULL DEFAULT '',
    says text NOT NULL DEFAULT ''
);

CREATE INDEX lines_of_a_question ON audit (question);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION stamp_home() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.checked_at := clock_timestamp();
    IF TG_OP = 'INSERT' AND (SELECT count(*) FROM {SCHEMA}.homes AS other WHERE other.host = NEW.host) >= {HOMES} THEN
        RAISE EXCEPTION 'a host has % homes at most', {HOMES};
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON homes FOR EACH ROW EXECUTE FUNCTION stamp_home();

CREATE FUNCTION ask_plan() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.asked_at := clock_timestamp();
    NEW.expires_at := NEW.asked_at + NEW.lasts;
    IF NEW.state <> 'pending' OR NEW.answered_by IS NOT NULL OR NEW.closed_at IS NOT NULL THEN
        RAISE EXCEPTION 'a question begins unanswered' USING ERRCODE = 'insufficient_privilege';
    END IF;
    UPDATE {SCHEMA}.plans AS earlier SET state = 'withdrawn', closed_at = clock_timestamp(), says = 'asked again'
     WHERE earlier.host = NEW.host AND earlier.home = NEW.home AND earlier.plan = NEW.plan AND earlier.state = 'pending';
    IF (SELECT count(*) FROM {SCHEMA}.plans AS earlier WHERE earlier.host = NEW.host AND earlier.state = 'pending'
           AND earlier.expires_at > clock_timestamp()) >= {PENDING} THEN
        RAISE EXCEPTION 'a host has % open questions at most', {PENDING};
    END IF;
    IF (SELECT count(*) FROM {SCHEMA}.plans AS earlier
         WHERE earlier.host = NEW.host AND earlier.asked_at > NEW.asked_at - interval '1 day') >= {PER_DAY} THEN
        RAISE EXCEPTION 'a host asks % questions in a day at most', {PER_DAY};
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER ask BEFORE INSERT ON plans FOR EACH ROW EXECUTE FUNCTION ask_plan();

CREATE FUNCTION keep_question() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (NEW.id, NEW.host, NEW.home, NEW.machine, NEW.plan, NEW.digest, NEW.title, NEW.words, NEW.about,
        NEW.approvers, NEW.code, NEW.lasts, NEW.asked_at, NEW.expires_at) IS DISTINCT FROM
       (OLD.id, OLD.host, OLD.home, OLD.machine, OLD.plan, OLD.digest, OLD.title, OLD.words, OLD.about,
        OLD.approvers, OLD.code, OLD.lasts, OLD.asked_at, OLD.expires_at) THEN
        RAISE EXCEPTION 'what was asked cannot be changed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF OLD.state <> 'pending' AND (NEW.state, NEW.answered_by, NEW.answered_at, NEW.answered_seen)
        IS DISTINCT FROM (OLD.state, OLD.answered_by, OLD.answered_at, OLD.answered_seen) THEN
        RAISE EXCEPTION 'an answer cannot be changed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER keep BEFORE UPDATE ON plans FOR EACH ROW EXECUTE FUNCTION keep_question();

CREATE FUNCTION write_audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO {SCHEMA}.audit (what, host, question, plan, digest, says)
            VALUES ('asked', NEW.host, NEW.id, NEW.plan, NEW.digest, NEW.title);
    ELSIF NEW.state <> OLD.state OR NEW.says <> OLD.says THEN
        INSERT INTO {SCHEMA}.audit (what, host, question, plan, digest, says)
            VALUES (CASE WHEN NEW.state <> OLD.state THEN NEW.state ELSE 'told' END,
                    NEW.host, NEW.id, NEW.plan, NEW.digest, NEW.says);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE ON plans FOR EACH ROW EXECUTE FUNCTION write_audit();

CREATE FUNCTION answer(question bigint, yes boolean, seen text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked {SCHEMA}.plans;
BEGIN
    -- One statement decides: of many who answer at once, one finds the question still pending.
    UPDATE {SCHEMA}.plans AS asked_plan SET state = CASE WHEN yes THEN 'approved' ELSE 'refused' END,
           answered_at = clock_timestamp(), answered_by = session_user, answered_seen = seen
     WHERE asked_plan.id = question AND asked_plan.state = 'pending' AND asked_plan.expires_at > clock_timestamp()
       AND asked_plan.host <> session_user AND session_user = ANY (asked_plan.approvers)
       AND EXISTS (SELECT FROM pg_roles WHERE rolname = asked_plan.host)
     RETURNING asked_plan.* INTO asked;
    IF FOUND THEN
        PERFORM pg_notify('{CHANNEL}', asked.host);
        RETURN 'done';
    END IF;
    SELECT asked_plan.* INTO asked FROM {SCHEMA}.plans AS asked_plan WHERE asked_plan.id = question;
    RETURN CASE
        WHEN NOT FOUND THEN 'unknown'
        WHEN asked.state <> 'pending' THEN asked.state
        WHEN asked.expires_at <= clock_timestamp() THEN 'expired'
        WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = asked.host) THEN 'no-host'
        ELSE 'not-listed' END;
END $$;

CREATE FUNCTION close(question bigint, outcome text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE {SCHEMA}.plans AS own SET says = left(outcome, 2000), closed_at = coalesce(own.closed_at, clock_timestamp()),
           state = CASE own.state WHEN 'pending' THEN 'withdrawn' ELSE own.state END
     WHERE own.id = question AND own.host = session_user
       AND (SELECT count(*) FROM {SCHEMA}.audit AS line WHERE line.question = own.id) < {OUTCOMES};
    RETURN FOUND;
END $$;

ALTER TABLE homes ENABLE ROW LEVEL SECURITY;
ALTER TABLE plans ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON homes TO {HOSTS} USING (host = session_user) WITH CHECK (host = session_user);
CREATE POLICY own ON plans TO {HOSTS} USING (host = session_user) WITH CHECK (host = session_user);
CREATE POLICY own ON audit FOR SELECT TO {HOSTS} USING (host = session_user);
CREATE POLICY every ON homes FOR SELECT TO {APPROVERS} USING (true);
CREATE POLICY every ON plans FOR SELECT TO {APPROVERS} USING (true);
CREATE POLICY every ON audit FOR SELECT TO {APPROVERS} USING (true);

REVOKE ALL ON ALL TABLES IN SCHEMA {SCHEMA} FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {SCHEMA} FROM PUBLIC;
GRANT USAGE ON SCHEMA {SCHEMA} TO {HOSTS}, {APPROVERS};
GRANT SELECT ON schema_version, homes, plans, audit TO {HOSTS}, {APPROVERS};
GRANT INSERT (home, instance, profile, clock, every, incidents, waiting, unseen, armed, version),
      UPDATE (instance, profile, clock, every, incidents, waiting, unseen, armed, version) ON homes TO {HOSTS};
GRANT INSERT (home, machine, plan, digest, title, words, about, approvers, code, lasts) ON plans TO {HOSTS};
GRANT EXECUTE ON FUNCTION close(bigint, text) TO {HOSTS};
GRANT EXECUTE ON FUNCTION answer(bigint, boolean, text) TO {APPROVERS};
"""

# A list of millions of names in each question would fill the disk.
_BOUND_APPROVERS = """
ALTER TABLE plans ADD CONSTRAINT few_approvers CHECK (length(array_to_string(approvers, ',', '')) <= 20000) NOT VALID;
"""

MIGRATIONS = (_FIRST, _BOUND_APPROVERS)
VERSION = len(MIGRATIONS)

# Each row: a role, and what it may do and should not. Membership is followed here, because pg_has_role says yes for
# every superuser. Superusers and owners that are no role of the fleet administrate the server; that is no finding.
TOO_MUCH = f"""
WITH RECURSIVE member AS (
    SELECT roleid, member FROM pg_auth_members
    UNION SELECT upper.roleid, lower.member FROM pg_auth_members upper JOIN member lower ON lower.roleid = upper.member
), role AS (
    SELECT each.*, ARRAY(SELECT roleid::regrole::text FROM member WHERE member.member = each.oid) AS groups
      FROM pg_roles each WHERE each.rolname NOT IN ('{HOSTS}', '{APPROVERS}', '{OWNER}') AND each.rolname !~ '^pg_'
), known AS (
    SELECT *, '{HOSTS}' = ANY (groups) AS is_host, '{APPROVERS}' = ANY (groups) AS approves,
           rolsuper OR '{OWNER}' = ANY (groups) AS owns FROM role
), rated AS (
    SELECT *, is_host OR approves OR rolname = session_user OR rolname IN (SELECT host FROM {SCHEMA}.homes) AS used
      FROM known
)
SELECT rolname, may FROM rated, LATERAL (VALUES
    (used AND rolsuper, 'superuser'), (used AND rolbypassrls, 'bypass-rls'), (used AND rolcreaterole, 'create-roles'),
    (used AND rolreplication, 'replication'), (used AND owns AND NOT rolsuper, 'owner'),
    (is_host AND approves, 'host-approves'),
    (used AND groups && '{{pg_execute_server_program,pg_read_server_files,pg_write_server_files}}', 'server-files'),
    (NOT owns AND (has_any_column_privilege(oid, '{SCHEMA}.plans', 'UPDATE')
        OR has_table_privilege(oid, '{SCHEMA}.plans', 'DELETE, TRUNCATE')), 'change-questions'),
    (NOT owns AND (has_any_column_privilege(oid, '{SCHEMA}.audit', 'INSERT, UPDATE')
        OR has_table_privilege(oid, '{SCHEMA}.audit', 'DELETE, TRUNCATE')), 'change-audit'),
    (NOT owns AND has_schema_privilege(oid, '{SCHEMA}', 'CREATE'), 'create'),
    (NOT owns AND NOT approves
        AND has_function_privilege(oid, '{SCHEMA}.answer(bigint, boolean, text)', 'EXECUTE'), 'answer')
) AS rights (has, may) WHERE has ORDER BY rolname, may
"""

# What must be switched on; a name comes back for each that is not.
SWITCHED_OFF = f"""
SELECT 'row-level security of ' || relname FROM pg_class
 WHERE relnamespace = to_regnamespace('{SCHEMA}') AND relname IN ('homes', 'plans', 'audit') AND NOT relrowsecurity
UNION ALL
SELECT 'trigger ' || wanted.name || ' of ' || wanted.place
  FROM (VALUES ('append_only', 'audit'), ('keep', 'plans'), ('ask', 'plans'), ('audit', 'plans'), ('stamp', 'homes'))
       AS wanted (name, place)
 WHERE NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = wanted.name AND tgenabled IN ('O', 'A')
                      AND tgrelid = to_regclass('{SCHEMA}.' || wanted.place))
UNION ALL
SELECT 'policy ' || wanted.name || ' of ' || place
  FROM (VALUES ('own', '{HOSTS}', '(host = SESSION_USER)'), ('every', '{APPROVERS}', 'true')) AS wanted (name, role, rows),
       (VALUES ('homes'), ('plans'), ('audit')) AS tables (place)
 WHERE NOT EXISTS (SELECT FROM pg_policy WHERE polname = wanted.name AND polrelid = to_regclass('{SCHEMA}.' || place)
                      AND polroles = ARRAY[to_regrole(wanted.role)::oid] AND pg_get_expr(polqual, polrelid) = wanted.rows
                      AND (polcmd = 'r' OR pg_get_expr(polwithcheck, polrelid) = '(host = SESSION_USER)'))
UNION ALL
SELECT 'an unknown policy ' || polname || ' of ' || relname
  FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid
 WHERE relnamespace = to_regnamespace('{SCHEMA}') AND polname NOT IN ('own', 'every')
"""
