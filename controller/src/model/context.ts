import type { Logger } from "@sallyport/wire";
import type { Kysely, Transaction } from "kysely";
import type { ClientConfig } from "pg";
import type { TokenLives } from "../auth/tokens/token-keys.ts";
import type { Tokens } from "../auth/tokens/tokens.ts";
import type { EventSink } from "../events/event.ts";
import type { ChangeLog } from "../store/changes/change-log.ts";
import type { Replica } from "../store/database.ts";
import type { Outage } from "../store/outage.ts";
import type { Database } from "../store/schema.ts";
import type { Secrets } from "../store/secrets.ts";
import type { ModelPki } from "./pki-port.ts";
import type { ReplicaSet } from "./replica/replica-set.ts";

/** A connection or a transaction: what queries run on. */
export type Db = Kysely<Database> | Transaction<Database>;

/** The store as the model uses it (`store/database.ts`). */
export interface ModelStore {
  readonly db: Kysely<Database>;
  readonly changes: Pick<ChangeLog, "subscribe" | "caughtUp" | "noticed" | "position" | "wake">;
  /** The time of the database, the same for all controllers. */
  readonly clock: { now(): number };
  /** Since when the database cannot be used; undefined while it answers. */
  readonly outage: Pick<Outage, "since">;
  /** This controller among those on the database. */
  readonly replica: Pick<Replica, "isShared" | "isLeader" | "leaderDb" | "onLeadership" | "others">;
  /** For what needs a connection of its own. */
  readonly connection: ClientConfig;
  /** READ COMMITTED; repeated when it lost a deadlock; tells the readers of the change log afterwards. */
  transaction<T>(work: (trx: Transaction<Database>) => Promise<T>): Promise<T>;
}

/** Logins by OIDC (docs/controller.md, `edge.oidc`). */
export interface OidcSettings extends TokenLives {
  readonly enabled: boolean;
  /** Further host names under which clients reach the provider. */
  readonly hosts: readonly string[];
  /** Besides the built-in ones. */
  readonly redirectUris: readonly string[];
  readonly postLogoutUris: readonly string[];
}

export interface ModelSettings {
  /** `host:port` of the Client API as it is advertised: the `iss` of enrollment tokens. */
  readonly apiAddress: string;
  /** Idle time after which an API session ends. */
  readonly sessionTimeoutMs: number;
  readonly identityEnrollmentMs: number;
  readonly routerEnrollmentMs: number;
  /** How long enrollments are kept after they have expired. */
  readonly expiredEnrollmentsMs: number;
  /** How often that is looked after. */
  readonly upkeepMs: number;
  /** Where snapshots of the database lie. */
  readonly snapshotFolder: string;
  /** How authenticator apps name the network beside the identity. */
  readonly totpIssuer: string;
  readonly oidc: OidcSettings;
}

/** What every part of the model works with. */
export interface ModelContext {
  readonly store: ModelStore;
  readonly pki: ModelPki;
  /** Seals what must not lie in the store in the clear. */
  readonly secrets: Secrets;
  readonly tokens: Tokens;
  readonly settings: ModelSettings;
  /** The processes that serve the network. */
  readonly replicas: ReplicaSet;
  readonly now: () => Date;
  /** How many controllers work on the network now, this one included. Limits that each counts for itself are divided by it. */
  readonly liveReplicas: () => number;
  /** Listens to events that the change log does not hold, such as logins. */
  readonly events?: EventSink;
  readonly log: Logger;
}
