CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE INDEX "idx_actions_at"
    ON "actions" ("at");
CREATE INDEX "idx_codes_plan"
    ON "codes" ("plan");
CREATE INDEX "idx_incidents_resolved_at"
    ON "incidents" ("resolved_at");
CREATE INDEX "idx_incidents_status"
    ON "incidents" ("status");
CREATE INDEX "idx_measurements_at"
    ON "measurements" ("at");
CREATE INDEX "idx_notices_at"
    ON "notices" ("at");
CREATE INDEX "idx_plans_state"
    ON "plans" ("state");
CREATE INDEX "idx_questions_closed_at"
    ON "questions" ("closed_at");
CREATE UNIQUE INDEX "idx_steps_done_plan_part_number"
    ON "steps_done" ("plan", "part", "number");
CREATE INDEX "idx_told_settled_at"
    ON "told" ("settled_at");
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
CREATE TABLE "actions" (
   "id" INTEGER PRIMARY KEY,
   "plan" INTEGER,
   "recipe" TEXT,
   "key" TEXT,
   "at" TEXT,
   "restarted" INTEGER,
   "state" TEXT,
   "forgotten" INTEGER
);
CREATE TABLE "arming" (
   "id" INTEGER PRIMARY KEY,
   "armed" INTEGER,
   "by" TEXT,
   "why" TEXT,
   "at" TEXT,
   "seen" INTEGER
, "reason" TEXT);
CREATE TABLE "audit" (
   "id" INTEGER PRIMARY KEY,
   "at" TEXT,
   "what" TEXT,
   "plan" INTEGER,
   "by" TEXT,
   "via" TEXT,
   "digest" TEXT,
   "says" TEXT,
   "more" TEXT
, "reason" TEXT, "chain" TEXT);
CREATE TABLE "audit_archives" (
   "last" INTEGER PRIMARY KEY,
   "chain" TEXT,
   "file" TEXT,
   "at" TEXT
);
CREATE TABLE "checks" (
   "id" INTEGER PRIMARY KEY,
   "at" TEXT,
   "looked_back_to" TEXT,
   "pending_since" TEXT,
   "blind" TEXT
);
CREATE TABLE "codes" (
   "id" INTEGER PRIMARY KEY,
   "plan" INTEGER,
   "hash" TEXT,
   "via" TEXT,
   "to" TEXT,
   "at" TEXT,
   "used_at" TEXT
);
CREATE TABLE "cursors" (
   "channel" TEXT PRIMARY KEY,
   "cursor" TEXT,
   "at" TEXT
);
CREATE TABLE "incidents" (
   "id" INTEGER PRIMARY KEY,
   "rule" TEXT,
   "key" TEXT,
   "severity" TEXT,
   "status" TEXT,
   "title" TEXT,
   "says" TEXT,
   "first_at" TEXT,
   "opened_at" TEXT,
   "last_seen_at" TEXT,
   "resolved_at" TEXT,
   "recipe" TEXT,
   "advice" TEXT,
   "times_seen" INTEGER,
   "facts" TEXT,
   "evidence" TEXT
, "fields" TEXT);
CREATE TABLE "measurements" (
   "id" INTEGER PRIMARY KEY,
   "at" TEXT,
   "facts" TEXT
);
CREATE TABLE "notices" (
   "id" INTEGER PRIMARY KEY,
   "at" TEXT,
   "reason" TEXT,
   "severity" TEXT,
   "title" TEXT,
   "body" TEXT,
   "incidents" TEXT,
   "plan" INTEGER
, "details" TEXT);
CREATE TABLE "plans" (
   "id" INTEGER PRIMARY KEY,
   "digest" TEXT,
   "state" TEXT,
   "title" TEXT,
   "content" TEXT,
   "recipes" TEXT,
   "approval" TEXT,
   "asked_at" TEXT,
   "expires_at" TEXT,
   "answered_at" TEXT,
   "answered_by" TEXT,
   "answered_via" TEXT,
   "answered_digest" TEXT,
   "claimed_at" TEXT,
   "claimed_by" TEXT,
   "finished_at" TEXT,
   "says" TEXT
, "reason" TEXT);
CREATE TABLE "questions" (
   "plan" INTEGER PRIMARY KEY,
   "digest" TEXT,
   "title" TEXT,
   "words" TEXT,
   "incidents" TEXT,
   "recipes" TEXT,
   "severity" TEXT,
   "places" TEXT,
   "asked_at" TEXT,
   "expires_at" TEXT,
   "reminded_at" TEXT,
   "answer" TEXT,
   "closed_at" TEXT
);
CREATE TABLE "refusals" (
   "id" INTEGER PRIMARY KEY,
   "recipe" TEXT,
   "until" TEXT,
   "by" TEXT,
   "at" TEXT
, "plan" INTEGER);
CREATE TABLE "runs" (
   "rule" TEXT PRIMARY KEY,
   "at" TEXT
);
CREATE TABLE "salts" (
   "id" INTEGER PRIMARY KEY,
   "salt" TEXT
);
CREATE TABLE "silences" (
   "id" INTEGER PRIMARY KEY,
   "what" TEXT,
   "until" TEXT,
   "because" TEXT,
   "by" TEXT,
   "at" TEXT,
   "ended_at" TEXT
);
CREATE TABLE "starts" (
   "at" TEXT PRIMARY KEY
);
CREATE TABLE "steps_done" (
   "id" INTEGER PRIMARY KEY,
   "plan" INTEGER,
   "part" TEXT,
   "number" INTEGER,
   "begun_at" TEXT,
   "ended_at" TEXT,
   "ok" INTEGER,
   "says" TEXT,
   "output" TEXT
, "reason" TEXT);
CREATE TABLE "targets" (
   "name" TEXT PRIMARY KEY,
   "failures" INTEGER,
   "next_try_at" TEXT,
   "says" TEXT,
   "at" TEXT
);
CREATE TABLE "told" (
   "ref" TEXT PRIMARY KEY,
   "rule" TEXT,
   "key" TEXT,
   "severity" TEXT,
   "title" TEXT,
   "says" TEXT,
   "advice" TEXT,
   "incident" INTEGER,
   "since" TEXT,
   "over_at" TEXT,
   "told_at" TEXT,
   "told_as" TEXT,
   "told_severity" TEXT,
   "settled_at" TEXT,
   "times" INTEGER
);
CREATE TABLE "unsent" (
   "id" INTEGER PRIMARY KEY,
   "notice" INTEGER,
   "target" TEXT,
   "at" TEXT
);
CREATE TABLE "wrong_tries" (
   "id" INTEGER PRIMARY KEY,
   "via" TEXT,
   "by" TEXT,
   "at" TEXT
);
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit WHEN OLD.id > (SELECT coalesce(max(last), 0) FROM audit_archives) BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
PRAGMA user_version=5
