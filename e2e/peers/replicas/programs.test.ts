import { readFileSync, writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import type { ApiClient } from "@sallyport/api";
import { enroll } from "@sallyport/sdk";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { urlOf } from "../../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../../controller/src/store/testing/test-store.ts";
import { exchangeSome, exchangeThenEnd, openTcp, startEcho, type TcpServer } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { administrator, type Network } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { peerRouterFile } from "../../network/openziti/peer-network.ts";
import { startTunnelledService, type TunnelledService } from "../../network/openziti/tunnel.ts";
import { accepts, Program } from "../../network/program.ts";
import { type Replica, startReplica, startReplicaAt, startShared } from "../../network/replicas.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

const ROUTERS = ["p1", "r1", "r2"];

/** OpenZiti's tunnelers use its SDK, log in by OIDC and learn the controllers from one of them. */
describe.skipIf(peer.isMissing)("OpenZiti's router, tunnelers and CLI with three of our controllers", () => {
  const folder = makeScratch("three-controllers");
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let network: Network;
  let others: Replica[] = [];
  let cli: PeerCli;
  let echo: TcpServer;
  let router: Program;
  const services: TunnelledService[] = [];
  const connections: Socket[] = [];

  beforeAll(async () => {
    database = await testDatabase();
    echo = await startEcho();
    // OpenZiti's SDK of 1.6 verifies no other keys when it logs in by OIDC.
    network = await startShared(join(folder, "network"), urlOf(database.connection), { keyType: "rsa" });
    others = [await startReplica(network, "c2"), await startReplica(network, "c3")];
    cli = new PeerCli(peer.path, folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
    router = await startPeerRouter();
    for (const port of apiPorts()) await hasAllRouters(port);
    const at = { cli, binary: peer.path, folder, targetPort: echo.port, isOidc: true };
    services.push(await startTunnelledService({ ...at, name: "over-theirs", clientRouter: "p1", hostRouter: "p1" }));
    services.push(await startTunnelledService({ ...at, name: "over-ours", clientRouter: "r1", hostRouter: "r2" }));
    for (const service of services) await carries(service);
  }, 300_000);

  afterAll(async () => {
    for (const connection of connections) connection.destroy();
    for (const service of services) await service.stop();
    await router?.stop();
    for (const { program } of others) await program.stop();
    await network?.stop();
    await echo?.close();
    await database?.drop();
    if (process.env.SALLYPORT_KEEP !== "1") removeScratch(folder);
  }, 180_000);

  it("each controller lists the others and has all routers", async () => {
    for (const port of apiPorts()) {
      const api = await administrator(port, network.adminPassword);
      expect((await api.listControllers()).data.map(({ name }) => name)).toEqual(["c1", "c2", "c3"]);
      api.close();
    }
  });

  it("a file of our enrollment names all controllers, and OpenZiti's tunneler runs with it", async () => {
    const token = join(folder, "ours.jwt");
    await cli.edge("create", "identity", "ours", "-o", token, "-a", "over-ours-client");
    const enrolled = await enroll(readFileSync(token, "utf8"));
    expect(enrolled.ztAPIs).toHaveLength(3);
    const file = join(folder, "ours.json");
    writeFileSync(file, JSON.stringify({ ...enrolled, enableHa: true }), { mode: 0o600 });
    const [port = 0] = await freePorts(1);
    const args = ["tunnel", "proxy", "-i", file, `over-ours:${port}`];
    const log = { env: { ZITI_HOME: folder }, logFile: join(folder, "ours.log") };
    const tunneler = new Program({ name: "ours", command: peer.path, args, ...log });
    try {
      await tunneler.ready("its proxy port", () => accepts(port));
      await carries({ name: "over-ours", port });
    } finally {
      await tunneler.stop();
    }
  });

  it("open connections stay, and new ones are made, while each controller is killed and comes back", async () => {
    for (const service of services) connections.push((await openTcp(service.port)).setMaxListeners(100));
    let seed = 1;
    const allAreOpen = async () => {
      for (const connection of connections) await exchangeSome(connection, seed++, 100_000);
    };
    await allAreOpen();
    for (const killed of ["c1", "c2", "c3"]) {
      await kill(killed);
      await allAreOpen();
      for (const service of services) await carries(service);
      await allAreOpen();
      await restart(killed);
      for (const port of apiPorts()) await hasAllRouters(port);
      await allAreOpen();
    }
    for (const service of services) await carries(service);
  }, 300_000);

  const apiPorts = () => [network.port, ...others.map(({ apiPort }) => apiPort)];

  const startPeerRouter = async (): Promise<Program> => {
    const [edgePort = 0, linkPort = 0] = await freePorts(2);
    const [file, token] = [join(folder, "p1.yml"), join(folder, "p1.jwt")];
    await cli.edge("create", "edge-router", "p1", "-o", token, "-t", "-a", "p1");
    writeFileSync(file, peerRouterFile({ folder, name: "p1", controllerPort: network.port, edgePort, linkPort }));
    await cli.run("router", "enroll", file, "--jwt", token);
    const args = ["router", "run", file];
    const log = { env: { ZITI_HOME: folder }, logFile: join(folder, "p1.log") };
    return new Program({ name: "p1", command: peer.path, args, ...log });
  };

  const kill = async (id: string): Promise<void> => {
    if (id === "c1") return void (await network.stopProgram("controller", "SIGKILL"));
    const program = others.find((replica) => replica.id === id)?.program;
    program?.signal("SIGKILL");
    await program?.exited;
  };

  const restart = async (id: string): Promise<void> => {
    if (id === "c1") return void (await network.startController());
    others = await Promise.all(
      others.map(async (replica) => (replica.id === id ? await startReplicaAt(network, replica) : replica)),
    );
  };

  const hasAllRouters = async (port: number): Promise<void> => {
    const api: ApiClient<"management"> = await administrator(port, network.adminPassword);
    await eventually(`all routers at the controller on port ${port}`, async () => {
      const { data } = await api.listEdgeRouters();
      return ROUTERS.every((name) => data.some((found) => found.name === name && found.isOnline));
    });
    api.close();
  };

  /** A new connection carries bytes. The tunneler's first attempt may still go to a controller that has just ended. */
  const carries = async ({ name, port }: Pick<TunnelledService, "name" | "port">): Promise<void> => {
    await eventually(`a new connection to ${name}`, async () => {
      const socket = await openTcp(port);
      try {
        await exchangeThenEnd(socket, 9, 100_000);
        return true;
      } finally {
        socket.destroy();
      }
    });
  };
});
