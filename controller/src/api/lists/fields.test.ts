import { clientOperations, managementOperations, type Operation } from "@sallyport/api";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { z } from "zod";
import { startTestController, type TestController } from "../testing/test-controller.ts";
import * as fields from "./fields.ts";

let c: TestController;
let token: string;
let service: string;
beforeAll(async () => {
  c = await startTestController();
  const identityId = await c.make("identities", { name: "client", type: "Default", isAdmin: false });
  await c.make("authenticators", { identityId, method: "updb", username: "client", password: "correct horse" });
  service = await c.make("services", { name: "svc", encryptionRequired: false });
  const roles = { semantic: "AnyOf", identityRoles: ["#all"], serviceRoles: ["#all"] };
  await c.make("service-policies", { name: "dial", type: "Dial", ...roles });
  token = await c.login("client", "correct horse");
});
afterAll(() => c.close());

interface List {
  readonly name: string;
  readonly path: string;
  readonly shown: readonly string[];
}

function listsOf(operations: Readonly<Record<string, Operation>>): List[] {
  return Object.entries(operations).flatMap(([name, { path, response }]) => {
    if (response.kind !== "list" || !response.paged) return [];
    return [{ name, path, shown: Object.keys((response.item as z.ZodObject).shape ?? {}) }];
  });
}

/** Symbols that are shown under another name. */
const SHOWN_AS: Readonly<Record<string, string>> = {
  ...{ certFingerprint: "fingerprint", updbUsername: "username", authenticator: "authenticatorId" },
  ...{ router: "routerId", instanceId: "identity", connected: "isOnline", online: "isOnline" },
};
const EVERY_SYMBOL = [
  ...new Set(
    [fields, fields.POLICY_FIELDS, { routers: fields.routerFields([]) }]
      .flatMap((lists) => Object.values(lists))
      .flatMap((list) => (typeof list === "object" ? Object.keys(list) : [])),
  ),
].filter((symbol) => !Object.keys(fields.POLICY_FIELDS).includes(symbol));

describe("the Client API", () => {
  it.each(listsOf(clientOperations))("$name filters and sorts by what it shows only", async ({ path, shown }) => {
    const url = `/edge/client/v1${path.replace("{id}", service)}`;
    const ask = async (query: string) => {
      const { status, json } = await c.call("GET", `${url}?${query}`, { token });
      return { status, code: json.error?.code, known: json.meta?.filterableFields };
    };
    const isShown = (symbol: string) => {
      const [first = ""] = (SHOWN_AS[symbol] ?? symbol).split(".");
      return shown.includes(first);
    };
    const { status, known } = await ask("");
    expect(status).toBe(200);
    expect((known as string[]).filter((symbol) => !isShown(symbol))).toEqual([]);
    const hidden = EVERY_SYMBOL.filter((symbol) => !isShown(symbol));
    expect(hidden.length).toBeGreaterThan(20);
    for (const symbol of hidden) {
      const filtered = await ask(`filter=${encodeURIComponent(`${symbol} != null`)}`);
      expect([symbol, filtered.status, filtered.code]).toEqual([symbol, 400, "INVALID_FILTER"]);
      const sorted = await ask(`filter=${encodeURIComponent(`true sort by ${symbol}`)}`);
      expect([symbol, sorted.status]).toEqual([symbol, 400]);
    }
  });
});

const SECRET = /token|jwt$|password|salt|secret|hash/i;
/** Rules about secrets. */
const HARMLESS = ["targetToken", "enrollToTokenEnabled", "primary.updb.minPasswordLength"];

describe("the Management API", () => {
  it.each(listsOf(managementOperations).filter(({ path }) => !path.includes("{")))(
    "$name knows no secret in its filters",
    async ({ path }) => {
      const known: string[] = (await c.admin("GET", path)).json.meta.filterableFields ?? [];
      expect(known.filter((symbol) => SECRET.test(symbol) && !HARMLESS.includes(symbol))).toEqual([]);
    },
  );
});
