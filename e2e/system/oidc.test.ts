import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Context, type IdentityFile } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NetworkConnection } from "../../operator/src/controller-client/connection.ts";
import { eventually } from "../network/eventually.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

/** What the SDK asks a controller; dials over routers are not here. */
describe("the SDK at a controller that announces OpenID Connect", { timeout: 120_000 }, () => {
  const folder = makeScratch("oidc");
  const logged: { readonly kind?: string; readonly message: string }[] = [];
  const note = (fields: object, message: string) => void logged.push({ ...fields, message });
  const log = { debug: note, info: note, warn: note, error: note };
  let network: Network;
  let declared: DeclaredService;

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"), { login: "oidc" });
    declared = await declareService(network, { name: "echo" });
  }, 180_000);

  afterAll(async () => {
    await network?.stop();
    removeScratch(folder);
  }, 180_000);

  /** Ids of the API sessions of an identity. */
  async function sessionsOf(identityId: string): Promise<string[]> {
    const { data } = await network.management.listAPISessions({ query: { limit: 500 } });
    return data.filter((session) => session.identity.id === identityId).map(({ id }) => id);
  }

  const kinds = () => logged.splice(0).flatMap(({ kind, message }) => (message === "logged in" ? [kind] : []));

  it("logs in with its certificate, and again when its session was ended; its own end ends the session", async () => {
    const client = await Context.load(declared.clientFile, { log });
    expect(kinds()).toEqual(["oidc"]);
    const { id } = await client.identity();
    expect((await client.services()).map(({ name }) => name)).toEqual(["echo"]);
    const [first = ""] = await sessionsOf(id);
    await network.management.deleteAPISessions({ params: { id: first } });
    expect((await client.identity()).id).toBe(id);
    expect(kinds()).toEqual(["oidc"]);
    const [second, ...others] = await sessionsOf(id);
    expect([second === first, others]).toEqual([false, []]);
    await client.close();
    await eventually("the session has ended", async () => (await sessionsOf(id)).length === 0);
  });

  it("logs in with a name and a password, and its calls come with the certificate of the session", async () => {
    const { data } = await network.management.createIdentity({
      body: { name: "walk-in", type: "Default", isAdmin: false },
    });
    await network.management.createAuthenticator({
      body: { identityId: data.id, method: "updb", username: "walk-in", password: "a-long-password" },
    });
    const { id, ztAPI } = JSON.parse(readFileSync(declared.clientFile, "utf8")) as IdentityFile;
    const ca = (id.ca ?? "").replace(/^pem:/, "");
    const login = { controller: new URL(ztAPI).origin, ca, username: "walk-in", password: "a-long-password" };
    const client = await Context.login(login, { log });
    expect(kinds()).toEqual(["oidc"]);
    expect((await client.identity()).name).toBe("walk-in");
    await client.close();
    await expect(Context.login({ ...login, password: "not-my-password" })).rejects.toMatchObject({
      code: "CREDENTIALS_REFUSED",
    });
  });

  it("takes the operator, which logs in again when its session was ended", async () => {
    const { id } = JSON.parse(readFileSync(declared.clientFile, "utf8")) as IdentityFile;
    const connection = new NetworkConnection({
      ...{
        name: "default/main",
        endpoints: [`https://localhost:${network.port}`],
        ca: (id.ca ?? "").replace(/^pem:/, ""),
      },
      credentials: { method: "password", username: "admin", password: network.adminPassword },
      ...{ requestTimeoutMs: 10_000, maxRequestsPerSecond: 100, log },
    });
    const own = async () => (await connection.client.getCurrentAPISession()).data;
    const first = await own();
    // An access token, not the token of an old session.
    expect(first.token.split(".")).toHaveLength(3);
    await network.management.deleteAPISessions({ params: { id: first.id } });
    const second = await own();
    expect(second.id).not.toBe(first.id);
    await connection.close();
    await eventually("the session has ended", async () => !(await sessionsOf(first.identityId)).includes(second.id));
  });
});
