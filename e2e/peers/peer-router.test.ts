import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, exchangeThenEnd, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { type Network, startNetwork } from "../network/network.ts";
import { PeerCli } from "../network/openziti/peer-cli.ts";
import { peerRouterFile } from "../network/openziti/peer-network.ts";
import { startTunnelledService, type TunnelledService } from "../network/openziti/tunnel.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;

describe.skipIf(peer.isMissing).each([
  { version: "v1.6.0", binary: peer.path },
  { version: "v0.0.0, newer than everything", binary: peer.unversionedPath },
])("a router of OpenZiti ($version) on our controller", ({ version, binary }) => {
  let folder = "";
  let network: Network;
  let cli: PeerCli;
  let echo: TcpServer;
  let router: Program;
  let service: TunnelledService;

  const isOnline = async (): Promise<boolean> => {
    const { data } = await network.management.listEdgeRouters({ query: { filter: 'name = "p1"' } });
    return data[0]?.isOnline === true && Object.keys(data[0].supportedProtocols ?? {}).length > 0;
  };

  beforeAll(async () => {
    folder = makeScratch("router");
    echo = await startEcho();
    network = await startNetwork(join(folder, "network"));
    cli = new PeerCli(peer.path, folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
    const [edgePort = 0, linkPort = 0] = await freePorts(2);
    await cli.edge("create", "edge-router", "p1", "-o", join(folder, "p1.jwt"), "-t", "-a", "p1");
    writeFileSync(
      join(folder, "p1.yml"),
      peerRouterFile({ folder, name: "p1", controllerPort: network.port, edgePort, linkPort }),
    );
    await new PeerCli(binary, folder).run("router", "enroll", join(folder, "p1.yml"), "--jwt", join(folder, "p1.jwt"));
    router = new Program({
      name: "p1",
      command: binary,
      args: ["router", "run", join(folder, "p1.yml")],
      env: { ZITI_HOME: folder },
      logFile: join(folder, "p1.log"),
    });
    await router.ready("being online", isOnline);
    service = await startTunnelledService({
      ...{ cli, binary: peer.path, folder, name: "echo", targetPort: echo.port },
      ...{ clientRouter: "p1", hostRouter: "p1" },
    });
    await service.client.ready("a first echo", async () => {
      await exchange(await openTcp(service.port), 1, 100);
      return true;
    });
  });

  afterAll(async () => {
    await service?.stop();
    await router?.stop();
    await network?.stop();
    await echo?.close();
    removeScratch(folder);
  });

  it("serves OpenZiti's tunnelers", async () => {
    // Half closes are OpenZiti's own business here: its router drops what is not acknowledged when its host closes.
    await exchangeThenEnd(await openTcp(service.port), 2, 16 * MIB);
    await Promise.all(Array.from({ length: 10 }, async (_, i) => exchangeThenEnd(await openTcp(service.port), i, MIB)));
  });

  // What is newer than everything is taken for a router of 2.x, which knows sessions by their ids.
  it.skipIf(version !== "v1.6.0")(
    "ends what it hosts with the session of the host, which hosts again in a new one",
    async () => {
      const bound = async () => {
        const { data } = await network.management.listSessions({ query: { filter: 'type = "Bind"' } });
        return data.map(({ id }) => id);
      };
      const before = await bound();
      expect(before).toHaveLength(1);
      await network.management.deleteSession({ params: { id: before[0] ?? "" } });
      await router.ready("a new session of the host, and a circuit", async () => {
        const after = await bound();
        if (after.length === 0 || after.includes(before[0] ?? "")) return false;
        await exchange(await openTcp(service.port), 5, 1000);
        return true;
      });
    },
  );

  it("comes back after our controller was away, and takes new circuits again", async () => {
    const open = await openTcp(service.port);
    open.write("x");
    await once(open, "data");
    await network.restartController("SIGKILL");
    expect(router.isRunning).toBe(true);
    // The circuit that was open goes on without a controller.
    await exchangeThenEnd(open, 3, MIB);
    await router.ready("a new circuit", async () => {
      await exchange(await openTcp(service.port), 4, 1000);
      return true;
    });
  });
});
