import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEcho } from "../network/bytes.ts";
import { Cli } from "../network/cli.ts";
import { type PeerNetwork, startPeerNetwork } from "../network/openziti/peer-network.ts";
import { declareService } from "../network/openziti/tunnel.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

describe.skipIf(peer.isMissing)("our command line on a network of OpenZiti", () => {
  let folder = "";
  let theirs: PeerNetwork;
  let cli: Cli;
  let clientFile = "";
  const cleanup: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    folder = makeScratch("cli-on-peer-network");
    cleanup.push(async () => removeScratch(folder));
    theirs = await startPeerNetwork(peer.path, join(folder, "network"));
    cleanup.push(() => theirs.stop());
    cli = await Cli.packed(folder);
    const echo = await startEcho();
    cleanup.push(() => echo.close());
    const declared = await declareService({
      cli: theirs.cli,
      binary: peer.path,
      folder,
      name: "web",
      targetPort: echo.port,
    });
    clientFile = declared.clientFile;
    const args = ["tunnel", "host", "-i", declared.hostFile];
    const host = new Program({ name: "host", command: peer.path, args, env: { ZITI_HOME: folder } });
    cleanup.push(() => host.stop());
    writeFileSync(join(folder, "password"), "admin\n", { mode: 0o600 });
    const login = ["login", `https://localhost:${theirs.controllerPort}`, "-u", "admin", "-n", "theirs"];
    const refused = await cli.run(...login, "--password-file", join(folder, "password"));
    const [, fingerprint = ""] = /SHA-256 ([0-9A-F:]+)/.exec(refused.errors) ?? [];
    await cli.done(...login, "--password-file", join(folder, "password"), "--fingerprint", fingerprint);
  });

  afterAll(async () => {
    for (const undo of cleanup.toReversed()) await undo();
  });

  it("shows the network, and names what their controller does not tell", async () => {
    const read = async () => JSON.parse((await cli.run("status", "-o", "json")).output);
    await expect.poll(async () => (await read()).problems).toEqual([]);
    const status = await read();
    expect(status.controllers).toMatchObject([{ isOnline: true, version: expect.stringMatching(/^OpenZiti v1/) }]);
    expect(status.routers).toMatchObject([
      { name: "r1", isOnline: true, links: 1, connectedAt: expect.any(String) },
      { name: "r2", isOnline: true, links: 1 },
    ]);
    expect(status.links).toMatchObject([{ state: "Connected" }]);
    expect(status.certificates.map(({ kind }: { kind: string }) => kind)).toEqual(
      expect.arrayContaining(["controller", "authority", "router"]),
    );
    expect(status.unread.map(({ part }: { part: string }) => part).sort()).toEqual(["disabled identities", "health"]);
    await cli.done("create", "service", "lonely");
    expect(await cli.done("status")).toContain("service lonely: is not hosted, and no identity may host it");
  });

  it("measures a circuit over their routers to their tunneler", async () => {
    const { code, output } = await cli.run("ping", "web", "--identity", clientFile, ...["-c", "2", "-o", "json"]);
    const result = JSON.parse(output);
    expect(code).toBe(0);
    expect(result).toMatchObject({ sent: 2, answered: 2, notes: [] });
    expect(result.hops[0]).toMatchObject({ type: "xgress/edge", routerId: result.path.routers[0].id });
    expect(result.hops.at(-1)).toMatchObject({ type: "sdk/golang", answered: 2 });
    expect(result.path.routers.map(({ name }: { name: string }) => name)).toEqual(["r1", "r2"]);
  });

  it("packs a report of it", async () => {
    const output = await cli.done("bugreport", "-o", join(folder, "report.tar.gz"), "--no-journal");
    expect(output).toMatch(/^inspections.json +\d{3,} /m);
  });
});
