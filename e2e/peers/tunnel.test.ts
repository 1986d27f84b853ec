import { once } from "node:events";

import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, openTcp, receive, startEcho, type TcpServer } from "../network/bytes.ts";
import { type Network, startNetwork } from "../network/network.ts";
import { PeerCli } from "../network/openziti/peer-cli.ts";
import { startTunnelledService, type TunnelledService } from "../network/openziti/tunnel.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { dropped } from "./counted.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;

describe.skipIf(peer.isMissing)("OpenZiti's tunnelers over two of our routers", () => {
  let folder = "";
  let network: Network;
  let cli: PeerCli;
  let echo: TcpServer;
  let service: TunnelledService;

  beforeAll(async () => {
    folder = makeScratch("tunnel");
    echo = await startEcho();
    network = await startNetwork(join(folder, "network"));
    cli = new PeerCli(peer.path, folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
    service = await startTunnelledService({ cli, binary: peer.path, folder, name: "echo", targetPort: echo.port });
    await service.client.ready("a first echo", async () => {
      await exchange(await openTcp(service.port), 1, 100);
      return true;
    });
  });

  afterAll(async () => {
    await service?.stop();
    await network?.stop();
    await echo?.close();
    removeScratch(folder);
  });

  it("carries 64 MiB both ways at once, and the half close that ends them", async () => {
    await exchange(await openTcp(service.port), 7, 64 * MIB);
  });

  it("carries 50 circuits at once", async () => {
    await Promise.all(Array.from({ length: 50 }, async (_, i) => await exchange(await openTcp(service.port), i, MIB)));
  });

  it("drops no payload on the way", async () => {
    expect(await dropped(cli, ["r1", "r2"])).toEqual({});
  });

  it("keeps a circuit that says nothing for longer than a heartbeat", async () => {
    const socket = await openTcp(service.port);
    socket.write("before");
    await once(socket, "data");
    // The silence is the test: longer than the 10 s after which every channel must have proved that it lives.
    await new Promise((resolve) => setTimeout(resolve, 12_000));
    socket.end("after");
    expect((await receive(socket)).length).toBe("after".length);
  });

  it("goes on with a circuit whose service is removed, and refuses new ones", async () => {
    const other = await startEcho();
    const removed = await startTunnelledService({
      cli,
      binary: peer.path,
      folder,
      name: "removed",
      targetPort: other.port,
    });
    try {
      await removed.client.ready("a first echo", async () => {
        await exchange(await openTcp(removed.port), 1, 100);
        return true;
      });
      const socket = await openTcp(removed.port);
      socket.write("x");
      await once(socket, "data");
      await cli.edge("delete", "service", "removed");
      await removed.client.ready("the refusal of a new circuit", async () => !(await answers(removed.port)));
      socket.destroy();
    } finally {
      await removed.stop();
      await other.close();
    }
    await exchange(await openTcp(service.port), 9, MIB);
  });
});

/** Whether a new connection gets an echo; a refusal, a reset and an early end are all a no. */
async function answers(port: number): Promise<boolean> {
  try {
    const socket = await openTcp(port);
    // A close does not follow by itself: it may be half open.
    const ended = once(socket, "end").then(() => false);
    socket.write("y");
    const answered = await Promise.race([once(socket, "data").then(() => true), ended]);
    socket.destroy();
    return answered;
  } catch {
    return false;
  }
}
