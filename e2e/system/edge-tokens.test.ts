import { once } from "node:events";
import { join } from "node:path";
import { Context, type EdgeConnection, type ServiceListener } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { sessionsOf } from "../network/login/logins.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MIB = 1024 * 1024;
const halfOpen = { allowHalfOpen: true };

describe("a network of two routers whose clients log in by OpenID Connect", { timeout: 120_000 }, () => {
  const folder = makeScratch("edge-tokens");
  let network: Network;
  let host: Context;
  let client: Context;
  let listener: ServiceListener;

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"), { login: "oidc" });
    const { hostFile, clientFile } = await declareService(network, { name: "echo" });
    host = await Context.load(hostFile);
    client = await Context.load(clientFile, { refreshIntervalMs: 500 });
    listener = await hostEcho(host, "echo");
  }, 180_000);

  afterAll(async () => {
    await client?.close();
    await host?.close();
    await network?.stop();
    removeScratch(folder);
  }, 180_000);

  async function open(): Promise<EdgeConnection> {
    const socket = await client.dial("echo", halfOpen);
    socket.on("error", () => {});
    socket.write("x");
    await once(socket, "data");
    return socket;
  }

  /** With an error or without. */
  const whenClosed = (socket: EdgeConnection) => new Promise<void>((resolve) => socket.once("close", () => resolve()));

  const dialsAgain = () =>
    eventually(
      "a dial works",
      async () => exchange(await client.dial("echo", halfOpen), 2, 1_000).then(() => true),
      60_000,
    );

  const sessions = (name: string) => sessionsOf(network.management, name);

  async function idOf(name: string): Promise<string> {
    const { data } = await network.management.listIdentities({ query: { filter: `name = "${name}"` } });
    return data[0]?.id ?? "";
  }

  it("carries what they send, by tokens that no controller keeps", async () => {
    await exchange(await client.dial("echo", halfOpen), 1, 8 * MIB);
    const own = [...(await sessions("echo-client")), ...(await sessions("echo-host"))];
    expect(own.map(({ token }) => token)).toEqual(["", ""]);
  });

  it("keeps circuits, listeners and logins over a new key of its tokens", async () => {
    const socket = await open();
    const { code } = await network.runToEnd("controller", "pki", "rotate", network.controllerFile, "--tokens");
    expect(code).toBe(0);
    await exchange(await client.dial("echo", halfOpen), 2, MIB);
    await exchange(socket, 3, MIB);
    expect(await sessions("echo-client")).toHaveLength(1);
  });

  it("ends the circuits of a session that is deleted; its client logs in again", async () => {
    const socket = await open();
    const ended = whenClosed(socket);
    const [session] = await sessions("echo-client");
    await network.management.deleteAPISessions({ params: { id: session?.id ?? "" } });
    await ended;
    await dialsAgain();
  });

  it("ends the circuits and refuses the dials of a disabled identity until it is enabled", async () => {
    const socket = await open();
    const ended = whenClosed(socket);
    const id = await idOf("echo-client");
    await network.management.disableIdentity({ params: { id }, body: { durationMinutes: 0 } });
    await ended;
    await expect(client.dial("echo", { ...halfOpen, timeoutMs: 2_000 })).rejects.toThrow();
    await network.management.enableIdentity({ params: { id } });
    await dialsAgain();
  });

  it("ends circuits when the policy goes that they exist by", async () => {
    const socket = await open();
    const ended = whenClosed(socket);
    const { data } = await network.management.listServicePolicies({ query: { filter: 'name = "echo-client"' } });
    const [policy] = data;
    await network.management.patchServicePolicy({
      params: { id: policy?.id ?? "" },
      body: { identityRoles: ["#none"] },
    });
    await ended;
    await network.management.patchServicePolicy({
      params: { id: policy?.id ?? "" },
      body: { identityRoles: ["#echo-client"] },
    });
    await dialsAgain();
  });

  it("admits them again after its routers were killed, and after its controller was", async () => {
    const again = once(listener, "listening");
    await network.restartRouter("r2", "SIGKILL");
    await again;
    await dialsAgain();
    await network.restartRouter("r1", "SIGKILL");
    await dialsAgain();
    const socket = await open();
    await network.restartController("SIGKILL");
    await exchange(socket, 5, MIB);
    await dialsAgain();
  });
});
