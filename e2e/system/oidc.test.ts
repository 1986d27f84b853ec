import { once } from "node:events";
import { get } from "node:https";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { Context, type EdgeConnection } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NetworkConnection } from "../../operator/src/controller-client/connection.ts";
import { exchange } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { credentialsOf } from "../network/login/identity-file.ts";
import { sessionsOf } from "../network/login/logins.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

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
  const sessionIdsOf = async (identityId: string) =>
    (await sessionsOf(network.management, identityId)).map(({ id }) => id);

  const kinds = () => logged.splice(0).flatMap(({ kind, message }) => (message === "logged in" ? [kind] : []));

  it("logs in with its certificate, and again when its session was ended; its own end ends the session", async () => {
    const client = await Context.load(declared.clientFile, { log });
    expect(kinds()).toEqual(["oidc"]);
    const { id } = await client.identity();
    expect((await client.services()).map(({ name }) => name)).toEqual(["echo"]);
    const [first = ""] = await sessionIdsOf(id);
    await network.management.deleteAPISessions({ params: { id: first } });
    expect((await client.identity()).id).toBe(id);
    expect(kinds()).toEqual(["oidc"]);
    const [second, ...others] = await sessionIdsOf(id);
    expect([second === first, others]).toEqual([false, []]);
    await client.close();
    await eventually("the session has ended", async () => (await sessionIdsOf(id)).length === 0);
  });

  it("logs in with a name and a password, and its calls come with the certificate of the session", async () => {
    const { data } = await network.management.createIdentity({
      body: { name: "walk-in", type: "Default", isAdmin: false },
    });
    await network.management.createAuthenticator({
      body: { identityId: data.id, method: "updb", username: "walk-in", password: "a-long-password" },
    });
    const controller = `https://localhost:${network.port}`;
    const { ca } = credentialsOf(declared.clientFile);
    const login = { controller, ca, username: "walk-in", password: "a-long-password" };
    const client = await Context.login(login, { log });
    expect(kinds()).toEqual(["oidc"]);
    expect((await client.identity()).name).toBe("walk-in");
    await client.close();
    await expect(Context.login({ ...login, password: "not-my-password" })).rejects.toMatchObject({
      code: "CREDENTIALS_REFUSED",
      message: expect.stringMatching(/does not accept this username and password.*check both/),
    });
  });

  it("takes the operator, which logs in again when its session was ended", async () => {
    const { ca } = credentialsOf(declared.clientFile);
    const connection = new NetworkConnection({
      ...{ name: "default/main", endpoints: [`https://localhost:${network.port}`], ca },
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
    await eventually("the session has ended", async () => !(await sessionIdsOf(first.identityId)).includes(second.id));
  });

  describe("with a service that is hosted and dialled by access tokens", () => {
    let host: Context;
    let client: Context;

    beforeAll(async () => {
      host = await Context.load(declared.hostFile, { log });
      client = await Context.load(declared.clientFile, { log });
      await hostEcho(host, "echo");
      await dialsAgain();
      expect(kinds()).toEqual(["oidc", "oidc"]);
    }, 120_000);
    afterAll(async () => {
      await client?.close();
      await host?.close();
    });

    const dial = () => client.dial("echo", { allowHalfOpen: true });
    /** A network that is coming back may refuse for a while. */
    const dialsAgain = () =>
      eventually("dials work", async () => exchange(await dial(), 1, 50_000).then(() => true), 60_000);
    const opened = async (): Promise<EdgeConnection> => {
      const socket = await dial();
      socket.on("error", () => {});
      await goesOn(socket);
      return socket;
    };
    const sessions = async () => {
      const ids = await Promise.all([host, client].map(async (context) => (await context.identity()).id));
      return (await Promise.all(ids.map(sessionIdsOf))).flat();
    };
    const rotate = (...more: string[]) =>
      network.runToEnd("controller", ...["pki", "rotate", network.controllerFile, "--tokens", ...more]);
    const keys = async (): Promise<string[]> => {
      const tls = { ca: credentialsOf(declared.clientFile).ca, allowPartialTrustChain: true };
      const asked = get({ host: "localhost", port: network.port, path: "/oidc/keys", agent: false, ...tls });
      const [response] = await once(asked, "response");
      return ((await json(response)) as { keys: { kid: string }[] }).keys.map(({ kid }) => kid);
    };

    it("sessions and circuits go on over the next key of tokens, and over a controller that was killed", async () => {
      const [open, before, [key]] = [await opened(), await sessions(), await keys()];
      expect(await rotate()).toMatchObject({ code: 0 });
      await eventually("two keys", async () => (await keys()).length === 2);
      await network.restartController("SIGKILL");
      expect([(await keys()).length, (await keys())[0]]).toEqual([2, key]);
      await goesOn(open);
      await dialsAgain();
      expect([await sessions(), kinds()]).toEqual([before, []]);
    });

    it("a key that is replaced at once ends all circuits and sessions, and the programs log in again", async () => {
      const [open, before, former] = [await opened(), await sessions(), await keys()];
      const ended = new Promise((resolve) => open.once("close", resolve));
      expect(await rotate("--at-once")).toMatchObject({ code: 0 });
      await ended;
      await dialsAgain();
      const [after, [key, ...others]] = [await sessions(), await keys()];
      expect(after.filter((id) => before.includes(id))).toEqual([]);
      expect([former.includes(key ?? ""), others]).toEqual([false, []]);
      expect(kinds()).toEqual(["oidc", "oidc"]);
    });
  });
});

/** Resolves when bytes have come back. */
async function goesOn(socket: EdgeConnection): Promise<void> {
  const back = once(socket, "data");
  socket.write("still here");
  await back;
}
