/** Operators that log in by OIDC, and whose sessions do not last: a fake API server on one side, a real controller on the other. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { AuthenticationError, Context } from "@sallyport/sdk";
import { silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConnectionOptions, NetworkConnection } from "../../../operator/src/controller-client/connection.ts";
import { conditionOf } from "../../../operator/src/kube/conditions.ts";
import { startOperator, type TestOperator } from "../../../operator/src/testing/start-operator.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { fileOf, logIn, look, secretOf } from "../../operator/identity-secrets.ts";
import { OperatorScene } from "../../operator/operator-scene.ts";

const DAY = 86_400_000;
const ACCESS_MS = 4_000;

/** The operator's own sessions: the test's administrator is the same identity. */
async function sessionsOf({ controller }: OperatorScene): Promise<{ id: string }[]> {
  const own = (await controller.admin("GET", "/current-api-session")).json.data.id;
  const { data } = (await controller.admin("GET", "/api-sessions?limit=500")).json;
  return data.filter(({ id }: { id: string }) => id !== own);
}

/** The administrator's, without an operator that uses it. */
function connectionTo(scene: OperatorScene, o: Partial<ConnectionOptions>): NetworkConnection {
  const { endpoint, ca } = scene.network;
  return new NetworkConnection({
    ...{ name: "default/main", endpoints: [endpoint], ca, log: silentLogger },
    credentials: { method: "password", username: "admin", password: "admin" },
    ...{ requestTimeoutMs: 10_000, maxRequestsPerSecond: 100, ...o },
  });
}

const declared = async (operator: TestOperator, name: string) => await operator.apply("OverlayService", name);

describe("an operator that logs in by OIDC", { timeout: 60_000 }, () => {
  const scene = OperatorScene.ofThisFile({ oidc: { enabled: true } });

  test("loses no reconcile while its sessions are revoked one after the other", async () => {
    const operator = await scene.start();
    await declared(operator, "first");
    await operator.ready("OverlayService", "first");
    const names = Array.from({ length: 24 }, (_, index) => `revoked-${index}`);
    let revoked = 0;
    for (const name of names) {
      await declared(operator, name);
      for (const { id } of await sessionsOf(scene)) {
        const { status } = await scene.controller.admin("POST", "/revocations", { id, type: "API_SESSION" });
        if (status === 201) revoked += 1;
      }
    }
    for (const name of names) await operator.ready("OverlayService", name);
    expect(revoked).toBeGreaterThan(1);
    const { json } = await scene.controller.admin("GET", '/services?limit=100&filter=name%20contains%20"revoked-"');
    expect(json.data).toHaveLength(names.length);
    // It asks why services have no host ten times a second, so it tells that after a service is ready.
    await expect.poll(() => operator.writesOfAnotherLook(), { timeout: 20_000 }).toEqual([]);
  });

  test("ends its session with itself", async () => {
    const operator = await scene.start();
    await declared(operator, "last");
    await operator.ready("OverlayService", "last");
    expect(await sessionsOf(scene)).toHaveLength(1);
    await scene.clear();
    await expect.poll(() => sessionsOf(scene)).toEqual([]);
  });

  test("counts logins and logouts as requests", async () => {
    const seen: string[] = [];
    const onRequest = (operation: string, status: number) => void seen.push(`${operation} ${status}`);
    const connection = connectionTo(scene, { onRequest });
    await connection.client.listServices();
    await connection.close();
    expect(seen).toEqual(["listVersion 200", "oidc 200", "listServices 200", "oidc 200"]);
  });

  test("says why its login is refused, and comes in when that has passed", async () => {
    const { controller } = scene;
    const credentials = { username: "late", password: "a-long-password" };
    const operator = await scene.start({ networks: { main: { ...scene.network, ...credentials } } });
    await declared(operator, "refused");
    const refused = await operator.ready("OverlayService", "refused", "False", "NetworkUnauthorized");
    expect(conditionOf(refused.status.conditions, "Ready")?.message).toContain("INVALID_AUTH");
    const identityId = await controller.make("identities", { name: "late", type: "Default", isAdmin: true });
    await controller.make("authenticators", { identityId, method: "updb", ...credentials });
    operator.operator.networks.connectionOf({ namespace: "default", name: "main" })?.retryLogin();
    operator.operator.loops.resync();
    await operator.ready("OverlayService", "refused");
  });
});

describe("an operator whose access tokens last for seconds", { timeout: 60_000 }, () => {
  const scene = OperatorScene.ofThisFile({ oidc: { accessMs: ACCESS_MS } });
  /** Until every access token that there is now has ended. */
  const lapse = async (): Promise<void> => {
    const at = Date.now() + ACCESS_MS;
    await expect.poll(() => Date.now() > at, { timeout: 2 * ACCESS_MS }).toBe(true);
  };

  test("keeps its session by refreshes", async () => {
    const operator = await scene.start();
    await declared(operator, "kept");
    await operator.ready("OverlayService", "kept");
    const [before] = await sessionsOf(scene);
    await lapse();
    await declared(operator, "after");
    await operator.ready("OverlayService", "after");
    expect(await sessionsOf(scene)).toEqual([expect.objectContaining({ id: before?.id })]);
  });

  test("renews an identity in a Secret as that identity: a client goes on in its session, and no other one is left behind", async () => {
    let offset = 0;
    const operator = await scene.start({ now: () => new Date(Date.now() + offset) });
    await operator.apply("Identity", "bot", { enrollment: { output: "IdentitySecret" } });
    await operator.ready("Identity", "bot");
    const { id } = await scene.identity(operator, "bot");
    const sessionsOfBot = async (): Promise<string[]> => {
      const { data } = (await scene.controller.admin("GET", "/api-sessions?limit=500")).json;
      return data.flatMap((session: { id: string; identityId: string }) =>
        session.identityId === id ? [session.id] : [],
      );
    };
    const old = fileOf(secretOf(operator, "bot-identity"));
    await using client = await Context.load(old);
    expect((await client.identity()).name).toBe("bot");
    const before = await sessionsOfBot();
    expect(before).toHaveLength(1);
    offset = 340 * DAY;
    await look(operator, "bot");
    const next = fileOf(secretOf(operator, "bot-identity"));
    expect(next).not.toEqual(old);
    expect([await logIn(old), await logIn(next)]).toEqual(["bot", "bot"]);
    offset += 121_000;
    await look(operator, "bot");
    await operator.until("Identity", "bot", ({ status }) => status.lastRenewalTime !== undefined);
    expect(await logIn(next)).toBe("bot");
    await expect(logIn(old)).rejects.toThrow(AuthenticationError);
    await lapse();
    expect((await client.identity()).name).toBe("bot");
    expect(await sessionsOfBot()).toEqual(before);
  });

  test("comes back when refreshes fail until its token has lapsed", async () => {
    const operator = await scene.start();
    await declared(operator, "before");
    await operator.ready("OverlayService", "before");
    scene.way.reset();
    await expect.poll(() => operator.logged(), { timeout: 20_000 }).toContain("the tokens could not be renewed");
    await declared(operator, "meanwhile");
    scene.controller.clock.offsetMs += ACCESS_MS;
    scene.way.heal();
    await operator.ready("OverlayService", "meanwhile");
    await operator.ready("OverlayService", "before");
  });

  test("logs in again when a refresh is refused", async () => {
    const lines: string[] = [];
    const info = (_fields: object, text: string) => void lines.push(text);
    // An operator asks every few seconds who hosts services, and may meet the end of the session before a refresh does.
    const connection = connectionTo(scene, { log: { ...silentLogger, info } });
    await connection.client.listServices();
    for (const { id } of await sessionsOf(scene)) await scene.controller.admin("DELETE", `/api-sessions/${id}`);
    await expect.poll(() => lines.join("\n"), { timeout: 20_000 }).toContain("the network has ended the session");
    await connection.client.listServices();
    expect(lines.filter((line) => line === "logged in to the network")).toHaveLength(2);
    expect(await sessionsOf(scene)).toHaveLength(1);
    await connection.close();
  });
});

describe("a controller on which OIDC is switched", { timeout: 180_000 }, () => {
  const folder = makeScratch("operator-oidc");
  let network: Network;
  let operator: TestOperator;

  const loginsBy = () => operator.logged().match(/"login":"(oidc|legacy)"/g) ?? [];

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"));
    const ca = readFileSync(join(network.folder, "r1.ca"), "utf8");
    operator = await startOperator({
      networks: { main: { endpoint: `https://localhost:${network.port}`, ca, password: network.adminPassword } },
      patienceMs: 60_000,
    });
  }, 180_000);
  afterAll(async () => {
    await operator?.close();
    await network?.stop();
    removeScratch(folder);
  }, 60_000);

  test("is entered by the login that it has; a session goes on where it still counts", async () => {
    const { management } = network;
    const isUsable = async (name: string): Promise<void> => {
      await declared(operator, name);
      await operator.ready("OverlayService", name);
    };
    await network.changeLogin("oidc");
    await isUsable("by-oidc");
    await network.changeLogin("legacy");
    await isUsable("by-the-old-login");
    await network.changeLogin("oidc");
    await isUsable("in-the-old-session");
    expect(loginsBy()).toEqual(['"login":"oidc"', '"login":"legacy"']);
    const own = (await management.getCurrentAPISession()).data.id;
    for (const { id } of (await management.listAPISessions({ query: { limit: 500 } })).data) {
      if (id !== own) await management.deleteAPISessions({ params: { id } });
    }
    await isUsable("by-oidc-again");
    expect(loginsBy().at(-1)).toBe('"login":"oidc"');
  });
});
