import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import type { Store } from "../../store/database.ts";
import { Secrets } from "../../store/secrets.ts";
import type { ModelContext, ModelSettings } from "../context.ts";
import { ChangingReplicas, testReplica } from "./changing-replicas.ts";

/** The times of a new network. */
export const TEST_TIMES: Omit<ModelSettings, "apiAddress" | "snapshotFolder"> = {
  sessionTimeoutMs: 30 * 60_000,
  identityEnrollmentMs: 180 * 60_000,
  routerEnrollmentMs: 180 * 60_000,
  expiredEnrollmentsMs: 30 * 86_400_000,
  upkeepMs: 60_000,
  totpIssuer: "test.example",
  oidc: {
    enabled: true,
    accessMs: 30 * 60_000,
    idMs: 30 * 60_000,
    refreshMs: 24 * 60 * 60_000,
    keyMs: 90 * 86_400_000,
    hosts: [],
    redirectUris: [],
    postLogoutUris: [],
  },
};

/** The surroundings of a part of the model that needs the store only. */
export function testContext(store: Store): ModelContext {
  const pki = absent<ModelContext["pki"]>("PKI");
  const tokens = absent<ModelContext["tokens"]>("tokens");
  const settings = {
    ...TEST_TIMES,
    apiAddress: "localhost:1280",
    snapshotFolder: join(tmpdir(), "sallyport-no-snapshots"),
  };
  const secrets = new Secrets(randomBytes(32));
  const replicas = new ChangingReplicas([testReplica("controller")]);
  const now = () => new Date();
  return { store, pki, secrets, tokens, settings, replicas, now, liveReplicas: () => 1, log: silentLogger };
}

function absent<T extends object>(what: string): T {
  return new Proxy({} as T, {
    get: (_target, name) => {
      throw new Error(`this test gave the model no ${what}, and something asked for ${String(name)}`);
    },
  });
}
