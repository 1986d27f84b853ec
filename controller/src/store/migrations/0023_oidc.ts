import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/**
 * Logins by OIDC, and tokens that prove a session (docs/protocol/store.md). An `oidc_session` is the family of the refresh tokens of one login. `oidc_login` is
 * unlogged: its rows live for minutes, and a crash of PostgreSQL ends the logins in progress and nothing else.
 */
export const oidc: Migration = {
  id: "0023_oidc",
  kind: "expands",
  async up(db) {
    for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
  },
};

const STATEMENTS: readonly string[] = [
  `CREATE TABLE token_key (
    kid text COLLATE "C" PRIMARY KEY,
    cert_pem text COLLATE "C" NOT NULL,
    key_box bytea NOT NULL,
    algorithm text COLLATE "C" NOT NULL,
    created_at timestamptz(3) NOT NULL DEFAULT now(),
    signs_from timestamptz(3) NOT NULL,
    ends_at timestamptz(3)
  )`,
  // Sessions of the time before are legacy ones: a constant default writes none of their rows.
  `ALTER TABLE api_session
    ADD COLUMN kind text COLLATE "C" NOT NULL DEFAULT 'legacy' CHECK (kind IN ('legacy', 'oidc')),
    ADD COLUMN expires_at timestamptz(3),
    ADD COLUMN access_until timestamptz(3),
    ADD CONSTRAINT api_session_expiry CHECK ((kind = 'oidc') = (expires_at IS NOT NULL))`,
  `CREATE TABLE oidc_session (
    api_session_id text COLLATE "C" PRIMARY KEY REFERENCES api_session (id) ON DELETE CASCADE,
    client_id text COLLATE "C" NOT NULL,
    scopes text[] COLLATE "C" NOT NULL,
    amr text[] COLLATE "C" NOT NULL,
    auth_time timestamptz(3) NOT NULL,
    login_fingerprint text COLLATE "C",
    session_fingerprint text COLLATE "C",
    is_bound boolean NOT NULL,
    shown jsonb NOT NULL,
    refresh_jti text COLLATE "C",
    previous_jti text COLLATE "C",
    rotated_at timestamptz(3),
    refreshes integer NOT NULL DEFAULT 0
  ) WITH (fillfactor = 80)`,
  `CREATE UNLOGGED TABLE oidc_login (
    id text COLLATE "C" PRIMARY KEY,
    client_id text COLLATE "C" NOT NULL,
    redirect_uri text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    nonce text COLLATE "C" NOT NULL,
    code_challenge text COLLATE "C" NOT NULL,
    scopes text[] COLLATE "C" NOT NULL,
    config_types text[] COLLATE "C" NOT NULL,
    remote_address text COLLATE "C" NOT NULL,
    csr_pem text COLLATE "C",
    api_session_id text COLLATE "C" REFERENCES api_session (id) ON DELETE CASCADE,
    page_hash bytea,
    code_hash bytea UNIQUE,
    code_used_at timestamptz(3),
    expires_at timestamptz(3) NOT NULL
  )`,
  `CREATE INDEX oidc_login_expires_at ON oidc_login (expires_at)`,
  `CREATE INDEX oidc_login_session ON oidc_login (api_session_id)`,
  `CREATE TABLE revocation (
    id text COLLATE "C" PRIMARY KEY,
    tags jsonb NOT NULL DEFAULT '{}',
    is_system boolean NOT NULL DEFAULT false,
    created_at timestamptz(3) NOT NULL DEFAULT now(),
    updated_at timestamptz(3) NOT NULL DEFAULT now(),
    type text COLLATE "C" NOT NULL CHECK (type IN ('JTI', 'API_SESSION', 'IDENTITY')),
    identity_id text COLLATE "C",
    issued_before timestamptz(3),
    expires_at timestamptz(3) NOT NULL,
    CHECK ((type = 'IDENTITY') = (issued_before IS NOT NULL))
  )`,
  `CREATE INDEX revocation_expires_at ON revocation (expires_at)`,
  // The migration of epochs guarded the tables of its time.
  ...["token_key", "oidc_session", "oidc_login", "revocation"].map(
    (table) => `CREATE TRIGGER require_epoch BEFORE INSERT OR UPDATE OR DELETE ON ${table}
      FOR EACH STATEMENT EXECUTE FUNCTION require_epoch()`,
  ),
];
