import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { exchange, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { cut, exchangeUnder } from "../network/cuts.ts";
import { type Mesh, startMesh } from "../network/mesh.ts";
import { PeerCli } from "../network/openziti/peer-cli.ts";
import { startTunnelledService, type TunnelledService } from "../network/openziti/tunnel.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { TRIANGLE } from "../network/triangle.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;

describe.skipIf(peer.isMissing)("OpenZiti's tunnelers over a triangle of our routers", () => {
  const folder = makeScratch("peer-mesh");
  let mesh: Mesh;
  let echo: TcpServer;
  let service: TunnelledService;

  beforeAll(async () => {
    echo = await startEcho();
    mesh = await startMesh(join(folder, "mesh"), { linkTimeout: "5s", pairs: TRIANGLE });
    const { network } = mesh;
    const cli = new PeerCli(peer.path, folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
    service = await startTunnelledService({ cli, binary: peer.path, folder, name: "echo", targetPort: echo.port });
    await service.client.ready("a first echo", async () => {
      await exchange(await openTcp(service.port), 1, 100);
      return true;
    });
  });

  afterAll(async () => {
    await service?.stop();
    await mesh?.stop();
    await echo?.close();
    removeScratch(folder);
  });

  it("carry 256 MiB while one way after the other is cut: nothing lost, doubled or swapped", {
    timeout: 600_000,
  }, async () => {
    await exchangeUnder(await openTcp(service.port), 5, 256 * MIB, [
      cut(mesh, ["r1", "r2"], "reset"),
      cut(mesh, ["r1", "r3"], "swallow"),
      cut(mesh, ["r1", "r2"], "swallow"),
      cut(mesh, ["r3", "r2"], "reset"),
    ]);
  });
});
