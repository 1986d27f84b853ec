import { type Kysely, sql } from "kysely";
import type { Migration } from "../../upgrade/migration.ts";

/**
 * The tables of the entities. Rules that every later migration keeps (docs/protocol/store.md):
 * - text is COLLATE "C", so that sorting and comparing is bytewise whatever the server's locale;
 * - attribute and selector arrays are the only truth about policy, there are no pair rows;
 * - rows that change often leave room in their page (fillfactor) and carry no index on what changes.
 */
export const entities: Migration = {
  id: "0002_entities",
  kind: "expands",
  async up(db: Kysely<unknown>): Promise<void> {
    for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
  },
};

const ENTITY = `
  id text COLLATE "C" PRIMARY KEY,
  tags jsonb NOT NULL DEFAULT '{}',
  is_system boolean NOT NULL DEFAULT false,
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  updated_at timestamptz(3) NOT NULL DEFAULT now()`;

const NAMED = `${ENTITY},
  name text COLLATE "C" NOT NULL UNIQUE`;

const STATEMENTS: readonly string[] = [
  // ---- who may authenticate, and how
  `CREATE TABLE ext_jwt_signer (${NAMED},
    issuer text COLLATE "C" NOT NULL UNIQUE,
    audience text COLLATE "C",
    enabled boolean NOT NULL DEFAULT false,
    cert_pem text COLLATE "C",
    fingerprint text COLLATE "C" UNIQUE,
    common_name text COLLATE "C" NOT NULL DEFAULT '',
    not_before timestamptz(3),
    not_after timestamptz(3),
    kid text COLLATE "C" UNIQUE,
    jwks_endpoint text COLLATE "C",
    claims_property text COLLATE "C",
    use_external_id boolean NOT NULL DEFAULT false,
    external_auth_url text COLLATE "C",
    client_id text COLLATE "C",
    scopes text[] COLLATE "C" NOT NULL DEFAULT '{}',
    target_token text COLLATE "C" NOT NULL DEFAULT 'ACCESS'
  )`,
  `CREATE TABLE auth_policy (${NAMED},
    cert_allowed boolean NOT NULL,
    cert_allow_expired boolean NOT NULL,
    updb_allowed boolean NOT NULL,
    updb_min_password_length integer NOT NULL DEFAULT 5,
    updb_max_attempts integer NOT NULL DEFAULT 0,
    updb_lockout_minutes integer NOT NULL DEFAULT 0,
    updb_require_mixed_case boolean NOT NULL DEFAULT false,
    updb_require_number boolean NOT NULL DEFAULT false,
    updb_require_special boolean NOT NULL DEFAULT false,
    ext_jwt_allowed boolean NOT NULL,
    ext_jwt_signers text[] COLLATE "C" NOT NULL DEFAULT '{}',
    require_totp boolean NOT NULL DEFAULT false,
    require_ext_jwt_signer text COLLATE "C" REFERENCES ext_jwt_signer (id)
  )`,
  `CREATE TABLE identity (${NAMED},
    type_id text COLLATE "C" NOT NULL CHECK (type_id IN ('Default', 'Router')),
    is_admin boolean NOT NULL DEFAULT false,
    is_default_admin boolean NOT NULL DEFAULT false,
    attrs text[] COLLATE "C" NOT NULL DEFAULT '{}',
    external_id text COLLATE "C" UNIQUE,
    auth_policy_id text COLLATE "C" NOT NULL DEFAULT 'default' REFERENCES auth_policy (id),
    default_hosting_cost integer NOT NULL DEFAULT 0,
    default_hosting_precedence text COLLATE "C" NOT NULL DEFAULT 'default',
    service_hosting_costs jsonb NOT NULL DEFAULT '{}',
    service_hosting_precedences jsonb NOT NULL DEFAULT '{}',
    permissions text[] COLLATE "C" NOT NULL DEFAULT '{}',
    app_data jsonb NOT NULL DEFAULT '{}',
    disabled_at timestamptz(3),
    disabled_until timestamptz(3)
  ) WITH (fillfactor = 90)`,
  `CREATE INDEX identity_attrs ON identity USING gin (attrs) WITH (fastupdate = off)`,
  `CREATE INDEX identity_name_trgm ON identity USING gin (name gin_trgm_ops)`,
  `CREATE INDEX identity_created_at ON identity (created_at, id)`,
  `CREATE INDEX identity_auth_policy ON identity (auth_policy_id)`,
  `CREATE TABLE identity_attr (
    attr text COLLATE "C" NOT NULL,
    identity_id text COLLATE "C" NOT NULL REFERENCES identity (id) ON DELETE CASCADE,
    PRIMARY KEY (attr, identity_id)
  )`,
  `CREATE INDEX identity_attr_identity ON identity_attr (identity_id)`,
  `CREATE FUNCTION identity_attr_follow() RETURNS trigger LANGUAGE plpgsql AS $$
   BEGIN
     IF TG_OP = 'UPDATE' THEN
       DELETE FROM identity_attr WHERE identity_id = NEW.id AND NOT attr = ANY (NEW.attrs);
     END IF;
     INSERT INTO identity_attr (attr, identity_id) SELECT a, NEW.id FROM unnest(NEW.attrs) a ON CONFLICT DO NOTHING;
     RETURN NULL;
   END $$`,
  `CREATE TRIGGER identity_attr_insert AFTER INSERT ON identity
   FOR EACH ROW WHEN (cardinality(NEW.attrs) > 0) EXECUTE FUNCTION identity_attr_follow()`,
  `CREATE TRIGGER identity_attr_update AFTER UPDATE OF attrs ON identity
   FOR EACH ROW WHEN (OLD.attrs IS DISTINCT FROM NEW.attrs) EXECUTE FUNCTION identity_attr_follow()`,
  `CREATE TABLE identity_info (
    identity_id text COLLATE "C" PRIMARY KEY REFERENCES identity (id) ON DELETE CASCADE,
    env_info jsonb NOT NULL DEFAULT '{}',
    sdk_info jsonb NOT NULL DEFAULT '{}'
  ) WITH (fillfactor = 80)`,
  `CREATE TABLE ca (${NAMED},
    cert_pem text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL UNIQUE,
    is_verified boolean NOT NULL DEFAULT false,
    verification_token text COLLATE "C" NOT NULL,
    is_auth_enabled boolean NOT NULL DEFAULT false,
    is_auto_ca_enrollment_enabled boolean NOT NULL DEFAULT false,
    is_ott_ca_enrollment_enabled boolean NOT NULL DEFAULT false,
    identity_name_format text COLLATE "C" NOT NULL DEFAULT '',
    identity_roles text[] COLLATE "C" NOT NULL DEFAULT '{}',
    external_id_claim jsonb
  )`,
  `CREATE TABLE authenticator (${ENTITY},
    identity_id text COLLATE "C" NOT NULL REFERENCES identity (id) ON DELETE CASCADE,
    method text COLLATE "C" NOT NULL CHECK (method IN ('cert', 'updb')),
    username text COLLATE "C" UNIQUE,
    password_hash text COLLATE "C",
    cert_pem text COLLATE "C",
    fingerprint text COLLATE "C" UNIQUE,
    public_key_print text COLLATE "C",
    ca_id text COLLATE "C" REFERENCES ca (id) ON DELETE CASCADE,
    is_issued_by_network boolean NOT NULL DEFAULT false,
    unverified_cert_pem text COLLATE "C",
    unverified_fingerprint text COLLATE "C",
    is_extend_requested boolean NOT NULL DEFAULT false,
    is_key_roll_requested boolean NOT NULL DEFAULT false,
    extend_requested_at timestamptz(3),
    last_extend_rolled_keys boolean NOT NULL DEFAULT false,
    last_auth_resolved_to_root boolean NOT NULL DEFAULT false,
    UNIQUE (identity_id, method),
    CHECK ((method = 'cert') = (fingerprint IS NOT NULL)),
    CHECK ((method = 'updb') = (username IS NOT NULL AND password_hash IS NOT NULL))
  )`,

  // ---- routers
  `CREATE TABLE router (${NAMED},
    kind text COLLATE "C" NOT NULL DEFAULT 'edge' CHECK (kind IN ('edge', 'transit')),
    attrs text[] COLLATE "C" NOT NULL DEFAULT '{}',
    cost integer NOT NULL DEFAULT 0 CHECK (cost BETWEEN 0 AND 65535),
    no_traversal boolean NOT NULL DEFAULT false,
    disabled boolean NOT NULL DEFAULT false,
    is_tunneler_enabled boolean NOT NULL DEFAULT false,
    is_verified boolean NOT NULL DEFAULT false,
    fingerprint text COLLATE "C" UNIQUE,
    cert_pem text COLLATE "C",
    unverified_fingerprint text COLLATE "C" UNIQUE,
    unverified_cert_pem text COLLATE "C",
    app_data jsonb NOT NULL DEFAULT '{}',
    ctrl_chan_listeners jsonb NOT NULL DEFAULT '{}',
    report jsonb NOT NULL DEFAULT '{}',
    interfaces jsonb NOT NULL DEFAULT '[]'
  ) WITH (fillfactor = 90)`,
  `CREATE INDEX router_attrs ON router USING gin (attrs) WITH (fastupdate = off)`,
  `CREATE TABLE enrollment (${ENTITY},
    method text COLLATE "C" NOT NULL CHECK (method IN ('ott', 'ottca', 'updb', 'erott', 'trott')),
    identity_id text COLLATE "C" REFERENCES identity (id) ON DELETE CASCADE,
    router_id text COLLATE "C" UNIQUE REFERENCES router (id) ON DELETE CASCADE,
    ca_id text COLLATE "C" REFERENCES ca (id) ON DELETE CASCADE,
    username text COLLATE "C",
    token text COLLATE "C" NOT NULL UNIQUE,
    jwt text COLLATE "C" NOT NULL,
    issued_at timestamptz(3) NOT NULL,
    expires_at timestamptz(3) NOT NULL,
    UNIQUE (identity_id, method),
    CHECK ((identity_id IS NULL) <> (router_id IS NULL))
  )`,

  // ---- services and their configuration
  `CREATE TABLE config_type (${NAMED}, schema jsonb)`,
  `CREATE TABLE config (${NAMED},
    config_type_id text COLLATE "C" NOT NULL REFERENCES config_type (id),
    data jsonb NOT NULL,
    UNIQUE (id, config_type_id)
  )`,
  `CREATE INDEX config_of_type ON config (config_type_id)`,
  `CREATE TABLE service (${NAMED},
    attrs text[] COLLATE "C" NOT NULL DEFAULT '{}',
    encryption_required boolean NOT NULL,
    terminator_strategy text COLLATE "C" NOT NULL DEFAULT 'smartrouting',
    max_idle_time_millis bigint NOT NULL DEFAULT 0
  ) WITH (fillfactor = 90)`,
  `CREATE INDEX service_attrs ON service USING gin (attrs) WITH (fastupdate = off)`,
  `CREATE TABLE service_config (
    service_id text COLLATE "C" NOT NULL REFERENCES service (id) ON DELETE CASCADE,
    config_type_id text COLLATE "C" NOT NULL,
    config_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (service_id, config_type_id),
    FOREIGN KEY (config_id, config_type_id) REFERENCES config (id, config_type_id) ON DELETE CASCADE
  )`,
  `CREATE INDEX service_config_config ON service_config (config_id)`,
  `CREATE TABLE identity_service_config (
    identity_id text COLLATE "C" NOT NULL REFERENCES identity (id) ON DELETE CASCADE,
    service_id text COLLATE "C" NOT NULL REFERENCES service (id) ON DELETE CASCADE,
    config_type_id text COLLATE "C" NOT NULL,
    config_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (identity_id, service_id, config_type_id),
    FOREIGN KEY (config_id, config_type_id) REFERENCES config (id, config_type_id)
  )`,
  `CREATE INDEX identity_service_config_service ON identity_service_config (service_id)`,
  `CREATE INDEX identity_service_config_config ON identity_service_config (config_id)`,
  `CREATE TABLE posture_check (${NAMED},
    type_id text COLLATE "C" NOT NULL,
    attrs text[] COLLATE "C" NOT NULL DEFAULT '{}',
    data jsonb NOT NULL DEFAULT '{}'
  )`,
  `CREATE TABLE terminator (${ENTITY},
    service_id text COLLATE "C" NOT NULL REFERENCES service (id) ON DELETE CASCADE,
    router_id text COLLATE "C" NOT NULL REFERENCES router (id) ON DELETE CASCADE,
    binding text COLLATE "C" NOT NULL,
    address text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C" NOT NULL DEFAULT '',
    instance_secret bytea,
    host_id text COLLATE "C" NOT NULL DEFAULT '',
    source_ctrl text COLLATE "C" NOT NULL DEFAULT '',
    cost integer NOT NULL DEFAULT 0 CHECK (cost BETWEEN 0 AND 65535),
    precedence text COLLATE "C" NOT NULL DEFAULT 'default' CHECK (precedence IN ('default', 'required', 'failed')),
    saved_precedence text COLLATE "C",
    peer_data jsonb NOT NULL DEFAULT '{}'
  ) WITH (fillfactor = 90)`,
  `CREATE INDEX terminator_service ON terminator (service_id)`,
  `CREATE INDEX terminator_router ON terminator (router_id)`,

  // ---- the three kinds of policy: selectors in arrays, "@id" selectors as references
  `CREATE TABLE service_policy (${NAMED},
    type text COLLATE "C" NOT NULL CHECK (type IN ('Dial', 'Bind')),
    semantic text COLLATE "C" NOT NULL CHECK (semantic IN ('AllOf', 'AnyOf')),
    identity_all boolean NOT NULL DEFAULT false,
    identity_attrs text[] COLLATE "C" NOT NULL DEFAULT '{}',
    service_all boolean NOT NULL DEFAULT false,
    service_attrs text[] COLLATE "C" NOT NULL DEFAULT '{}',
    posture_check_all boolean NOT NULL DEFAULT false,
    posture_check_attrs text[] COLLATE "C" NOT NULL DEFAULT '{}'
  )`,
  ...policyRef("service_policy", { identity: "identity", service: "service", posture_check: "posture_check" }),
  `CREATE TABLE edge_router_policy (${NAMED},
    semantic text COLLATE "C" NOT NULL CHECK (semantic IN ('AllOf', 'AnyOf')),
    identity_all boolean NOT NULL DEFAULT false,
    identity_attrs text[] COLLATE "C" NOT NULL DEFAULT '{}',
    router_all boolean NOT NULL DEFAULT false,
    router_attrs text[] COLLATE "C" NOT NULL DEFAULT '{}'
  )`,
  ...policyRef("edge_router_policy", { identity: "identity", router: "router" }),
  `CREATE TABLE service_edge_router_policy (${NAMED},
    semantic text COLLATE "C" NOT NULL CHECK (semantic IN ('AllOf', 'AnyOf')),
    service_all boolean NOT NULL DEFAULT false,
    service_attrs text[] COLLATE "C" NOT NULL DEFAULT '{}',
    router_all boolean NOT NULL DEFAULT false,
    router_attrs text[] COLLATE "C" NOT NULL DEFAULT '{}'
  )`,
  ...policyRef("service_edge_router_policy", { service: "service", router: "router" }),

  // ---- sessions
  `CREATE TABLE api_session (${ENTITY},
    token text COLLATE "C" NOT NULL UNIQUE,
    identity_id text COLLATE "C" NOT NULL REFERENCES identity (id) ON DELETE CASCADE,
    authenticator_id text COLLATE "C" NOT NULL,
    ip_address text COLLATE "C" NOT NULL,
    config_types text[] COLLATE "C" NOT NULL DEFAULT '{}',
    is_mfa_required boolean NOT NULL DEFAULT false,
    is_mfa_complete boolean NOT NULL DEFAULT false,
    improper_client_cert_chain boolean NOT NULL DEFAULT false,
    cert_fingerprints text[] COLLATE "C" NOT NULL DEFAULT '{}',
    last_activity_at timestamptz(3) NOT NULL DEFAULT now()
  ) WITH (fillfactor = 80)`,
  `CREATE INDEX api_session_identity ON api_session (identity_id)`,
  `CREATE TABLE api_session_certificate (${ENTITY},
    api_session_id text COLLATE "C" NOT NULL REFERENCES api_session (id) ON DELETE CASCADE,
    subject text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    cert_pem text COLLATE "C" NOT NULL,
    valid_from timestamptz(3) NOT NULL,
    valid_to timestamptz(3) NOT NULL
  )`,
  `CREATE INDEX api_session_certificate_session ON api_session_certificate (api_session_id)`,
  `CREATE TABLE session (${ENTITY},
    token text COLLATE "C" NOT NULL UNIQUE,
    api_session_id text COLLATE "C" NOT NULL REFERENCES api_session (id) ON DELETE CASCADE,
    identity_id text COLLATE "C" NOT NULL,
    service_id text COLLATE "C" NOT NULL REFERENCES service (id) ON DELETE CASCADE,
    type text COLLATE "C" NOT NULL CHECK (type IN ('Dial', 'Bind')),
    UNIQUE (api_session_id, service_id, type)
  )`,
  `CREATE INDEX session_service ON session (service_id)`,
  `CREATE INDEX session_identity ON session (identity_id)`,
];

/**
 * The table of "@id" selectors of a policy. `entity_id` is checked against the right table by a generated column per
 * side, so deleting an entity removes its selectors and a selector of something unknown cannot be stored.
 */
function policyRef(policy: string, sides: Record<string, string>): string[] {
  const columns = Object.entries(sides).map(
    ([side, table]) =>
      `${side}_id text COLLATE "C" GENERATED ALWAYS AS (CASE WHEN side = '${side}' THEN entity_id END) STORED
        REFERENCES ${table} (id) ON DELETE CASCADE`,
  );
  const indexes = Object.keys(sides).map(
    (side) => `CREATE INDEX ${policy}_ref_${side} ON ${policy}_ref (${side}_id) WHERE ${side}_id IS NOT NULL`,
  );
  const names = Object.keys(sides).map((side) => `'${side}'`);
  return [
    `CREATE TABLE ${policy}_ref (
      policy_id text COLLATE "C" NOT NULL REFERENCES ${policy} (id) ON DELETE CASCADE,
      side text COLLATE "C" NOT NULL CHECK (side IN (${names.join(", ")})),
      entity_id text COLLATE "C" NOT NULL,
      ${columns.join(",\n      ")},
      PRIMARY KEY (policy_id, side, entity_id)
    )`,
    ...indexes,
  ];
}
