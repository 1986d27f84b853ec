import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/**
 * Who works on the database (docs/protocol/store.md, "One controller"). A controller names its epoch in the setting `sallyport.epoch` of its connections; a
 * statement that writes under an epoch that is over fails with SQLSTATE SP001. Programs beside a controller name none.
 *
 * Every transaction that writes must be READ COMMITTED. There the trigger's query takes a new snapshot after it has the lock, and sees the current epoch. A
 * REPEATABLE READ or SERIALIZABLE transaction keeps the snapshot of its first query. The trigger would see an old epoch and let the statement pass.
 *
 * `xid` is the transaction that wrote the row. A row that another transaction wrote was copied: from then on the numbers of transactions mean nothing.
 */
export const epoch: Migration = {
  id: "0020_epoch",
  kind: "expands",
  async up(db) {
    await sql`
      CREATE TABLE controller_epoch (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        epoch text COLLATE "C" NOT NULL,
        holder text NOT NULL,
        began_at timestamptz NOT NULL DEFAULT now(),
        xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
        wal_timeline text NOT NULL
      )`.execute(db);
    await sql`
      CREATE FUNCTION require_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
      DECLARE own text := current_setting('sallyport.epoch', true);
      BEGIN
        IF own <> '' THEN
          -- An expression costs less than a statement.
          IF NOT pg_try_advisory_xact_lock_shared(1511063555, 1) THEN
            PERFORM pg_advisory_xact_lock_shared(1511063555, 1);
          END IF;
          IF NOT EXISTS (SELECT FROM public.controller_epoch WHERE epoch = own) THEN
            RAISE EXCEPTION 'another controller works on this database' USING ERRCODE = 'SP001';
          END IF;
        END IF;
        RETURN NULL;
      END $$`.execute(db);
    await sql`
      DO $do$
      DECLARE name text;
      BEGIN
        FOR name IN SELECT tablename FROM pg_tables
          WHERE schemaname = 'public' AND tablename NOT IN ('schema_migration', 'controller_epoch')
            -- What is another role's, such as the table of an extension, is no table of ours.
            AND has_table_privilege(format('%I.%I', schemaname, tablename), 'TRIGGER')
        LOOP
          EXECUTE format('CREATE TRIGGER require_epoch BEFORE INSERT OR UPDATE OR DELETE ON %I
            FOR EACH STATEMENT EXECUTE FUNCTION require_epoch()', name);
        END LOOP;
      END $do$`.execute(db);
  },
};
