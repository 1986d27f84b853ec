import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { MAX_INDEXED_CHARACTERS } from "./entity.ts";
import { databaseFailure } from "./store-errors.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

/** Random characters of four bytes: nothing that the database could make shorter. */
function characters(count: number): string {
  return Array.from({ length: count }, () => String.fromCodePoint(0x1_0000 + randomBytes(2).readUInt16LE())).join("");
}

describe("a text in a column with an index", () => {
  const identity = { name: "any", type: "User", isAdmin: false };
  const signer = {
    name: "any",
    issuer: "https://any.example",
    audience: "a",
    enabled: false,
    jwksEndpoint: "https://a",
  };
  it.each([
    ["identities", "name", identity],
    ["identities", "externalId", identity],
    ["edge-routers", "name", {}],
    ["services", "name", { encryptionRequired: true }],
    ["external-jwt-signers", "issuer", signer],
    ["external-jwt-signers", "kid", { ...signer, name: "other", issuer: "https://other.example" }],
  ])("of %s, %s, may have so many characters and no more", async (collection, field, body) => {
    const send = (length: number) => c.admin("POST", `/${collection}`, { ...body, [field]: characters(length) });
    const refused = await send(MAX_INDEXED_CHARACTERS + 1);
    expect([refused.status, refused.json.error.cause.field]).toEqual([400, field]);
    expect((await send(MAX_INDEXED_CHARACTERS)).status).toBe(201);
  });

  it.each([
    ["identities", identity],
    ["edge-routers", { name: "r" }],
    ["services", { name: "s", encryptionRequired: true }],
  ])("of %s: role attributes, too", async (collection, body) => {
    const send = (length: number) =>
      c.admin("POST", `/${collection}`, {
        ...body,
        name: `attributed-${length}`,
        roleAttributes: [characters(length)],
      });
    const refused = await send(MAX_INDEXED_CHARACTERS + 1);
    expect([refused.status, refused.json.error.cause.field]).toEqual([400, "roleAttributes"]);
    expect((await send(MAX_INDEXED_CHARACTERS)).status).toBe(201);
  });

  it("that is refused by the database alone is an error of the request, which names no index", async () => {
    const table = c.ctx.store.db.updateTable("identity").set({ external_id: characters(4_000) });
    const failure = await table.execute().then(
      () => undefined,
      (error: unknown) => databaseFailure(error)?.shown,
    );
    expect([failure?.status, failure?.code]).toEqual([400, "COULD_NOT_VALIDATE"]);
    expect(JSON.stringify(failure?.cause)).not.toContain("key");
  });
});
