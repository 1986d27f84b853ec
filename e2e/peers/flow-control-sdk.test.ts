import { join } from "node:path";
import { Context } from "@sallyport/sdk";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, openTcp } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { PeerCli } from "../network/openziti/peer-cli.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { dropped } from "./counted.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;

/**
 * OpenZiti's newest SDK with flow control of its own, on our routers. With several connections to a router it fails
 * every circuit for which the router does not grant that. "3+1": and one more for its control messages alone.
 */
describe.skipIf(peer.postureClient === "" || peer.isMissing).each([
  ["1", 1, "oidc"],
  ["3", 3, "oidc"],
  ["3+1", 3, "legacy"],
] as const)(
  "flow control by OpenZiti's SDK over %s connections to each of our routers, and by ours over %i, with %s sessions",
  (connections, ourConnections, login) => {
    let folder = "";
    let network: Network;
    const programs: Program[] = [];

    const run = async (name: string, ...args: string[]): Promise<Program> => {
      const options = {
        name,
        command: peer.postureClient,
        args: login === "legacy" ? [...args, login] : args,
        logFile: join(folder, `${name}.log`),
      };
      const program = new Program(options);
      programs.push(program);
      await program.line(/^ready$/);
      return program;
    };

    beforeAll(async () => {
      folder = makeScratch(`flow-sdk-${ourConnections}`);
      network = await startNetwork(join(folder, "network"), { login: "oidc" });
    });

    afterAll(async () => {
      for (const program of programs.splice(0)) await program.stop();
      await network?.stop();
      removeScratch(folder);
    });

    it("hosts: bytes come back unchanged, and each direction ends by itself", async () => {
      const files = await declareService(network, { name: "by-peer" });
      await run("host", "flow-host", files.hostFile, "by-peer", connections);
      const context = await Context.load(files.clientFile, { connectionsPerRouter: ourConnections });
      try {
        const dial = () => context.dial("by-peer", { allowHalfOpen: true });
        await eventually("a first echo", async () => exchange(await dial(), 1, 1_000).then(() => true));
        await exchange(await dial(), 2, 16 * MIB);
        await Promise.all(Array.from({ length: 10 }, async (_, i) => exchange(await dial(), i, MIB / 4)));
      } finally {
        await context.close();
      }
    });

    it("dials: bytes come back unchanged, and each direction ends by itself", async () => {
      const files = await declareService(network, { name: "by-us" });
      const context = await Context.load(files.hostFile, { connectionsPerRouter: ourConnections });
      try {
        const listener = await context.listen("by-us", { allowHalfOpen: true });
        listener.on("connection", (connection) => connection.on("error", () => {}).pipe(connection));
        const port = await freePort();
        await run("dial", "flow-dial", files.clientFile, "by-us", String(port), connections);
        await exchange(await openTcp(port), 3, 16 * MIB);
        await Promise.all(Array.from({ length: 10 }, async (_, i) => exchange(await openTcp(port), i, MIB / 4)));
      } finally {
        await context.close();
      }
    });

    it("at both ends", async () => {
      const files = await declareService(network, { name: "both" });
      await run("host-both", "flow-host", files.hostFile, "both", connections);
      const port = await freePort();
      const dialer = await run("dial-both", "flow-dial", files.clientFile, "both", String(port), connections);
      await exchange(await openTcp(port), 4, 16 * MIB);
      expect(dialer.tail.filter((line) => line.startsWith("dial refused"))).toEqual([]);
    });

    it("no payload is dropped on the way: OpenZiti writes its headers in random order", async () => {
      const cli = new PeerCli(peer.path, folder);
      await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
      expect(await dropped(cli, ["r1", "r2"])).toEqual({});
    });
  },
);
