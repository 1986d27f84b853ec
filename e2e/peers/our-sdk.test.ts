import { join } from "node:path";
import { Context } from "@sallyport/sdk";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { type Network, startNetwork } from "../network/network.ts";
import { PeerCli } from "../network/openziti/peer-cli.ts";
import { declareService } from "../network/openziti/tunnel.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { dropped } from "./counted.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;

describe.skipIf(peer.isMissing)("our SDK and OpenZiti's tunneler at the two ends of a service", () => {
  let folder = "";
  let network: Network;
  let cli: PeerCli;
  let echo: TcpServer;

  const tunnel = (name: string, ...args: string[]): Program =>
    new Program({
      name,
      command: peer.path,
      args: ["tunnel", ...args],
      env: { ZITI_HOME: folder },
      logFile: join(folder, `${name}.log`),
    });

  beforeAll(async () => {
    folder = makeScratch("mixed");
    echo = await startEcho();
    network = await startNetwork(join(folder, "network"));
    cli = new PeerCli(peer.path, folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
  });

  afterAll(async () => {
    await network?.stop();
    await echo?.close();
    removeScratch(folder);
  });

  describe.each([
    { isEncrypted: true, words: "encrypted end to end" },
    { isEncrypted: false, words: "without end-to-end encryption" },
  ])("$words", ({ isEncrypted }) => {
    const suffix = isEncrypted ? "secret" : "plain";

    it("our SDK dials what OpenZiti hosts", async () => {
      const name = `by-peer-${suffix}`;
      const files = await declareService({ cli, binary: peer.path, folder, name, targetPort: echo.port, isEncrypted });
      const host = tunnel(`${name}-host`, "host", "-i", files.hostFile);
      const context = await Context.load(files.clientFile);
      try {
        await host.ready("a first echo", async () => {
          await exchange(await context.dial(name), 1, 1000);
          return true;
        });
        await exchange(await context.dial(name), 2, 16 * MIB);
        await Promise.all(Array.from({ length: 20 }, async (_, i) => exchange(await context.dial(name), i, MIB / 4)));
      } finally {
        await context.close();
        await host.stop();
      }
    });

    it("OpenZiti dials what our SDK hosts", async () => {
      const name = `by-us-${suffix}`;
      const files = await declareService({ cli, binary: peer.path, folder, name, targetPort: echo.port, isEncrypted });
      const context = await Context.load(files.hostFile);
      const server = await context.listen(name);
      server.on("connection", (socket) => void socket.on("error", () => {}).pipe(socket));
      const port = await freePort();
      const client = tunnel(`${name}-client`, "proxy", "-i", files.clientFile, `${name}:${port}`);
      try {
        await client.ready("a first echo", async () => {
          await exchange(await openTcp(port), 1, 1000);
          return true;
        });
        await exchange(await openTcp(port), 2, 16 * MIB);
        await Promise.all(Array.from({ length: 20 }, async (_, i) => exchange(await openTcp(port), i, MIB / 4)));
      } finally {
        await client.stop();
        await server.close();
        await context.close();
      }
    });

    it("no payload is dropped on the way", async () => {
      expect(await dropped(cli, ["r1", "r2"])).toEqual({});
    });
  });
});
