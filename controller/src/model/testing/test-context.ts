import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import type { Store } from "../../store/database.ts";
import { Secrets } from "../../store/secrets.ts";
import type { ModelContext, ModelSettings } from "../context.ts";

/** The times of a new network. */
export const TEST_TIMES: Omit<ModelSettings, "apiAddress" | "ctrlAddresses" | "snapshotFolder"> = {
  sessionTimeoutMs: 30 * 60_000,
  identityEnrollmentMs: 180 * 60_000,
  routerEnrollmentMs: 180 * 60_000,
  expiredEnrollmentsMs: 30 * 86_400_000,
  upkeepMs: 60_000,
  totpIssuer: "test.example",
};

/** The surroundings of a part of the model that needs the store only. */
export function testContext(store: Store): ModelContext {
  const pki = new Proxy({} as ModelContext["pki"], {
    get: (_target, name) => {
      throw new Error(`this test gave the model no PKI, and something asked it for ${String(name)}`);
    },
  });
  const settings = {
    ...TEST_TIMES,
    apiAddress: "localhost:1280",
    ctrlAddresses: ["tls:localhost:1280"],
    snapshotFolder: join(tmpdir(), "sallyport-no-snapshots"),
  };
  return { store, pki, secrets: new Secrets(randomBytes(32)), settings, now: () => new Date(), log: silentLogger };
}
