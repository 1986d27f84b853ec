import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../network/eventually.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

// `ziti ops db …` works on files of OpenZiti's own database, never over HTTP: nothing of it concerns our controller.
describe.skipIf(peer.isMissing)("OpenZiti's CLI looks after our controller's database", () => {
  let folder = "";
  let network: Network;
  let cli: PeerCli;

  beforeAll(async () => {
    folder = makeScratch("database-cli");
    network = await startNetwork(join(folder, "network"));
    cli = new PeerCli(peer.path, folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
  });
  afterAll(async () => {
    await network?.stop();
    removeScratch(folder);
  });

  it.each(["edge", "fabric"] as const)(
    "ziti %s db start-check-integrity, with and without a fix, and its status",
    async (api) => {
      for (const fix of [false, true]) {
        await cli.run(api, "db", "start-check-integrity", ...(fix ? ["-f"] : []));
        const report = await eventually("the run to end", async () => {
          const output = await cli.run(api, "db", "check-integrity-status");
          return output.includes("In Progress: false") ? output : undefined;
        });
        expect(report).toContain(`Fixing Errors: ${fix}`);
        expect(report).toContain("Too Many Errors: false");
        expect(report).toContain("no data integrity errors found");
      }
    },
  );

  it("ziti fabric db snapshot writes where it says, and a second one has to wait", async () => {
    const output = await cli.run("fabric", "db", "snapshot", "__DB_DIR__/asked-for");
    const path = output.trim().split("\n").at(-1)?.trim() ?? "";
    expect(path.endsWith("/snapshots/asked-for")).toBe(true);
    expect(existsSync(path)).toBe(true);
    await expect(cli.edge("db", "snapshot")).rejects.toThrow(/RATE_LIMITED|429|rate limit/i);
    expect(readdirSync(join(path, ".."))).toEqual(["asked-for"]);
  });
});
