import { createCsr, createKeyPair } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

describe("certificates of an API session", () => {
  it("are bounded in number: the oldest gives way, so that what every router is told stays small", async () => {
    const token = await c.login("admin", "admin");
    const { keyPem } = await createKeyPair();
    const csr = await createCsr({ commonName: "me", keyPem });
    const session = await c.model.apiSessions.findByToken(c.ctx.store.db, token);
    const made: string[] = [];
    for (let i = 0; i < 102; i++) made.push((await c.model.apiSessions.addCertificate(session!, csr)).fingerprint);
    const [record] = (await c.fabricModel.apiSessionsAfter("", 100)).filter((each) => each.token === token);
    expect(new Set(record?.certFingerprints)).toEqual(new Set(made.slice(2)));
  });
});
