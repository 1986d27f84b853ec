import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type BareController, startBareController } from "../network/bare-controller.ts";
import { exchangeThenEnd, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { routerFile } from "../network/network.ts";
import type { PeerCli } from "../network/peer-cli.ts";
import { peerRouterFile } from "../network/peer-network.ts";
import { freePorts, Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { startTunnelledService, type TunnelledService } from "../network/tunnel.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;
const MAIN = join(import.meta.dirname, "..", "..", "router", "src", "main.ts");

/** What each router has counted under a name of its metrics, by the router's name. */
async function counted(cli: PeerCli, name: string): Promise<Record<string, number>> {
  const names = new Map((await cli.listed("edge-routers")).map(({ id, name: called }) => [String(id), String(called)]));
  const found: Record<string, number> = {};
  let router = "";
  let isNamed = false;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the CLI colours its headings
  for (const line of (await cli.run("fabric", "inspect", "metrics")).replaceAll(/\x1b\[[0-9;]*m/g, "").split("\n")) {
    const heading = /^(\S+)\.metrics\b/.exec(line)?.[1];
    if (heading !== undefined) router = names.get(heading) ?? heading;
    if (/^\s*"?[a-z_.]+"?:/.test(line) && !/count/.test(line)) isNamed = line.includes(name);
    const count = isNamed ? /count"?:\s*"?(\d+)/.exec(line)?.[1] : undefined;
    if (count !== undefined) found[router] = Number(count);
  }
  return found;
}

describe.skipIf(peer.isMissing).each([
  { whose: "ours", dialer: "mine" },
  { whose: "ours", dialer: "theirs" },
  { whose: "the peer's", dialer: "mine" },
  { whose: "the peer's", dialer: "theirs" },
] as const)("our router and the peer's on $whose controller, $dialer dials the link", ({ whose, dialer }) => {
  const folder = makeScratch("mixed");
  const programs: Program[] = [];
  const services: TunnelledService[] = [];
  let controller: BareController;
  let echo: TcpServer;

  beforeAll(async () => {
    echo = await startEcho();
    controller = await startBareController(whose, peer.path, folder);
    const { cli, port } = controller;
    const [ourPort = 0, edgePort = 0, linkPort = 0] = await freePorts(3);
    const drop = (text: string, part: "dialers" | "listeners"): string =>
      text.replace(new RegExp(`^  ${part}:\\n(?: {4}.*\\n)*`, "m"), "");
    for (const [name, text] of [
      ["mine", routerFile({ folder, name: "mine", controllerPort: port, port: ourPort })],
      ["theirs", peerRouterFile({ folder, name: "theirs", controllerPort: port, edgePort, linkPort })],
    ] as const) {
      const file = join(folder, `${name}.yml`);
      const token = join(folder, `${name}.jwt`);
      writeFileSync(file, drop(text, name === dialer ? "listeners" : "dialers"));
      await cli.edge("create", "edge-router", name, "-o", token, "-t", "-a", name);
      const [command, before] = name === "mine" ? [process.execPath, [MAIN]] : [peer.path, ["router"]];
      const start = (action: string, ...args: string[]): Program =>
        new Program({
          name: `${name} ${action}`,
          command,
          args: [...before, action, file, ...args],
          env: { ZITI_HOME: folder },
          logFile: join(folder, `${name}.log`),
        });
      expect(await start("enroll", "--jwt", token).exited).toBe(0);
      programs.push(start("run"));
    }
    await eventually(
      "a link",
      async () => /mine.*theirs|theirs.*mine/s.test(await cli.run("fabric", "list", "links")),
      60_000,
    );
    for (const [name, clientRouter, hostRouter] of [
      ["there", "mine", "theirs"],
      ["back", "theirs", "mine"],
    ] as const) {
      const binary = peer.path;
      const service = await startTunnelledService({
        cli,
        binary,
        folder,
        name,
        targetPort: echo.port,
        clientRouter,
        hostRouter,
      });
      services.push(service);
      await service.client.ready("a first echo", async () => {
        await exchangeThenEnd(await openTcp(service.port), 1, 100);
        return true;
      });
    }
  });

  afterAll(async () => {
    for (const service of services) await service.stop();
    for (const program of programs) await program.stop();
    await controller?.stop();
    await echo?.close();
    removeScratch(folder);
  });

  it("carry circuits that begin at either of them, many at a time", async () => {
    for (const service of services) {
      await exchangeThenEnd(await openTcp(service.port), 2, 32 * MIB);
      await Promise.all(
        Array.from({ length: 8 }, async (_, i) => await exchangeThenEnd(await openTcp(service.port), i, 2 * MIB)),
      );
    }
  });

  // On a machine that is starved both ends retransmit: this is a statement about a quiet one.
  it.runIf(whose === "ours" && dialer === "mine")(
    "1 GiB each way on a clean path: neither retransmits a payload",
    async () => {
      const retransmitted = () => counted(controller.cli, "xgress.retransmissions");
      const before = await retransmitted();
      for (const service of services) await exchangeThenEnd(await openTcp(service.port), 3, 512 * MIB);
      const after = await retransmitted();
      console.info("payloads retransmitted, before and after 1 GiB each way:", before, after);
      expect(Object.keys(after).toSorted()).toEqual(["mine", "theirs"]);
      expect(after).toEqual(before);
    },
    600_000,
  );

  it("link again after the link broke", async () => {
    const { cli } = controller;
    const link = /^\W*([0-9A-Za-z]{20,22})\W/m.exec(await cli.run("fabric", "list", "links"))?.[1] ?? "";
    await cli.run("fabric", "delete", "link", link);
    for (const service of services) {
      await service.client.ready("an echo again", async () => {
        await exchangeThenEnd(await openTcp(service.port), 1, 100);
        return true;
      });
    }
  });
});
