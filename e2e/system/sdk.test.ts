import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Context, type EdgeConnection, type IdentityFile, type ServiceListener } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { pem } from "../network/login/identity-file.ts";
import { loginOfRun, loginsOf } from "../network/login/logins.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MIB = 1024 * 1024;
const halfOpen = { allowHalfOpen: true };

describe("the SDK on a network of two routers", { timeout: 120_000 }, () => {
  const folder = makeScratch("sdk");
  let network: Network;
  let host: Context;
  let client: Context;
  let clientFile: IdentityFile;
  let listener: ServiceListener;
  const accepted: EdgeConnection[] = [];

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"));
    const declared = await declareService(network, { name: "echo" });
    clientFile = JSON.parse(readFileSync(declared.clientFile, "utf8"));
    host = await Context.load(declared.hostFile);
    client = await Context.load(clientFile, { refreshIntervalMs: 500 });
    listener = await host.listen("echo", halfOpen);
    listener.on("connection", (socket) => {
      accepted.push(socket);
      socket.on("error", () => {});
      socket.pipe(socket);
    });
  }, 180_000);

  afterAll(async () => {
    await client?.close();
    await host?.close();
    await network?.stop();
    removeScratch(folder);
  }, 180_000);

  it("logs in by the way of this run", async () => {
    const login = loginOfRun();
    const logins = async (side: string) => await loginsOf(network.management, `echo-${side}`);
    expect([await logins("host"), await logins("client")]).toEqual([[login], [login]]);
  });

  it("carries 32 MiB both ways at once, encrypted end to end", async () => {
    const socket = await client.dial("echo", halfOpen);
    expect([socket.isEncrypted, accepted.at(-1)?.isEncrypted]).toEqual([true, true]);
    expect(accepted.at(-1)?.circuitId).toBe(socket.circuitId);
    await exchange(socket, 1, 32 * MIB);
  });

  it("opens 100 connections at once", async () => {
    const sockets = await Promise.all(
      Array.from({ length: 100 }, () => client.dial("echo", { ...halfOpen, timeoutMs: 60_000 })),
    );
    await Promise.all(sockets.map((socket, index) => exchange(socket, index, 50_000)));
  });

  it("makes new connections while one stands still because its reader stops", async () => {
    const stuck = await client.dial("echo", halfOpen);
    stuck.on("error", () => {});
    // Far more than its buffers and windows hold: whatever is left waits at the writer, and nowhere else.
    stuck.write(Buffer.alloc(32 * MIB));
    await untilUnread(stuck, 256 * 1024);
    await exchange(await client.dial("echo", halfOpen), 2, MIB);
    stuck.destroy();
    await exchange(await client.dial("echo", halfOpen), 3, MIB);
  });

  it("goes on over a controller that was killed, and dials again when it is back", async () => {
    const socket = await client.dial("echo", halfOpen);
    socket.write("before");
    await once(socket, "data");
    await network.restartController("SIGKILL");
    await exchange(socket, 4, MIB);
    await untilDone(async () => exchange(await client.dial("echo", halfOpen), 5, MIB));
  });

  it("offers its service again after its router was killed", async () => {
    const again = once(listener, "listening");
    await network.restartRouter("r2", "SIGKILL");
    await again;
    await untilDone(async () => exchange(await client.dial("echo", halfOpen), 6, MIB));
  });

  it("dials again after the dialler's router was killed", async () => {
    const socket = await client.dial("echo", halfOpen);
    const lost = once(socket, "error");
    await network.restartRouter("r1", "SIGKILL");
    expect((await lost)[0]).toMatchObject({ code: "CONNECTION_CLOSED" });
    await untilDone(async () => exchange(await client.dial("echo", halfOpen), 7, MIB));
  });

  it("works with a name and a password, by a certificate made for the session", async () => {
    const { data } = await network.management.createIdentity({
      body: { name: "walk-in", type: "User", isAdmin: false, roleAttributes: ["echo-client"] },
    });
    await network.management.createAuthenticator({
      body: { identityId: data.id, method: "updb", username: "walk-in", password: "a-long-password" },
    });
    const ca = pem(clientFile.id.ca);
    const login = {
      controller: `https://localhost:${network.port}`,
      ca,
      username: "walk-in",
      password: "a-long-password",
    };
    const context = await Context.login(login);
    try {
      await exchange(await context.dial("echo", halfOpen), 8, MIB);
    } finally {
      await context.close();
    }
    await expect(Context.login({ ...login, password: "not-my-password" })).rejects.toMatchObject({
      code: "CREDENTIALS_REFUSED",
      message: expect.stringMatching(/does not accept this username and password.*check both/),
    });
  });

  it("learns that its service is gone, in words", async () => {
    const { data } = await network.management.listServices({ query: { filter: 'name="echo"' } });
    await network.management.deleteService({ params: { id: data[0]?.id ?? "" } });
    await untilDone(async () => {
      await expect(client.dial("echo")).rejects.toMatchObject({ code: "SERVICE_NOT_AVAILABLE" });
    });
  });
});

/** Tries until it works; a network that is coming back may refuse for a while. */
async function untilDone(work: () => Promise<void>): Promise<void> {
  await eventually("the network is back", async () => work().then(() => true), 60_000);
}

async function untilUnread(socket: EdgeConnection, bytes: number): Promise<void> {
  await eventually(`${bytes} unread bytes`, () => socket.readableLength >= bytes);
}
