import { silentLogger } from "@sallyport/wire";
import type { Store } from "../../store/database.ts";
import { DEFAULT_TIMES, type ModelContext } from "../context.ts";

/** The surroundings of a part of the model that needs the store only. */
export function testContext(store: Store): ModelContext {
  const pki = new Proxy({} as ModelContext["pki"], {
    get: (_target, name) => {
      throw new Error(`this test gave the model no PKI, and something asked it for ${String(name)}`);
    },
  });
  const settings = { ...DEFAULT_TIMES, apiAddress: "localhost:1280", ctrlAddresses: ["tls:localhost:1280"] };
  return { store, pki, settings, now: () => new Date(), log: silentLogger };
}
