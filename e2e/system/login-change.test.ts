import { join } from "node:path";
import { Context, type EdgeConnection } from "@sallyport/sdk";
import { silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NetworkConnection } from "../../operator/src/controller-client/connection.ts";
import { exchange } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { credentialsOf } from "../network/login/identity-file.ts";
import { endSessionsOf, type LoginKind, loginsOf } from "../network/login/logins.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const halfOpen = { allowHalfOpen: true };

/** As at an upgrade from a version without OpenID Connect, and where an administrator turns it off again. */
describe("a network whose controller begins to serve OpenID Connect, and ends it", { timeout: 120_000 }, () => {
  const folder = makeScratch("login-change");
  let network: Network;
  let host: Context;
  let client: Context;
  let operator: NetworkConnection;
  let open: EdgeConnection;

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"), { login: "legacy" });
    const declared = await declareService(network, { name: "echo" });
    host = await Context.load(declared.hostFile, { refreshIntervalMs: 500 });
    client = await Context.load(declared.clientFile, { refreshIntervalMs: 500 });
    await hostEcho(host, "echo");
    open = await client.dial("echo", halfOpen);
    const { ca } = credentialsOf(declared.clientFile);
    operator = new NetworkConnection({
      ...{ name: "default/main", endpoints: [`https://localhost:${network.port}`], ca },
      credentials: { method: "password", username: "admin", password: network.adminPassword },
      ...{ requestTimeoutMs: 10_000, maxRequestsPerSecond: 100, log: silentLogger },
    });
    await operator.client.getCurrentAPISession();
  }, 180_000);

  afterAll(async () => {
    await operator?.close();
    await client?.close();
    await host?.close();
    await network?.stop();
    removeScratch(folder);
  }, 180_000);

  const logins = async () => [
    await loginsOf(network.management, "echo-host"),
    await loginsOf(network.management, "echo-client"),
  ];
  const dials = async (seed: number) =>
    await eventually("a dial", async () => {
      await exchange(await client.dial("echo", halfOpen), seed, 100_000);
      return true;
    });
  const kindOfOperator = async (): Promise<LoginKind> =>
    (await operator.client.getCurrentAPISession()).data.token.includes(".") ? "oidc" : "legacy";

  it("keeps the sessions and circuits that there are; programs log in by it when they log in next", async () => {
    expect([await logins(), await kindOfOperator()]).toEqual([[["legacy"], ["legacy"]], "legacy"]);
    await network.changeLogin("oidc");
    await exchange(open, 1, 100_000);
    await dials(2);
    expect([await logins(), await kindOfOperator()]).toEqual([[["legacy"], ["legacy"]], "legacy"]);

    // It dials with another login then.
    await endSessionsOf(network.management, "echo-client");
    await client.identity();
    await dials(3);
    expect(await logins()).toEqual([["legacy"], ["oidc"]]);
    const { id } = (await operator.client.getCurrentAPISession()).data;
    await network.management.deleteAPISessions({ params: { id } });
    expect(await kindOfOperator()).toBe("oidc");
  });

  it("lets programs log in without it again, once it is turned off", async () => {
    await network.changeLogin("legacy");
    await client.identity();
    await dials(4);
    const [ofHost, ofClient] = await logins();
    expect([ofHost, ofClient?.includes("legacy"), await kindOfOperator()]).toEqual([["legacy"], true, "legacy"]);
  });
});
