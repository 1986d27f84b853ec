import { join } from "node:path";
import type { Duplex } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchangeThenEnd, receiveNext, startEcho, type TcpServer, writePseudoRandom } from "../../network/bytes.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import type { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { dropped } from "../counted.ts";
import { peer } from "../peer.ts";
import { carries, type Participant, pairs, startParticipants } from "./participants.ts";
import { allLinked, enrollRouter, linksBetween } from "./programs.ts";

const { version, isMissing } = peer.generation2;
const MIB = 1024 * 1024;
const ROUTERS = ["r1", "older", "newer"] as const;
const EVERY_TWO = [
  ["r1", "older"],
  ["older", "newer"],
  ["newer", "r1"],
] as const;

/** Bytes that go there and come back; the stream stays open. */
async function echoed(stream: Duplex, length: number): Promise<void> {
  const answer = receiveNext(stream, length);
  await writePseudoRandom(stream, 3, length);
  expect((await answer).length).toBe(length);
}

describe.skipIf(isMissing || peer.isMissing)(
  `our routers in one mesh with those of OpenZiti 1.6 and ${version} (OPENZITI2)`,
  { timeout: 300_000 },
  () => {
    let folder = "";
    let network: Network;
    let cli: PeerCli;
    let echo: TcpServer;
    const routers: Program[] = [];
    let participants: readonly Participant[] = [];

    const sdkAt = (router: string): Participant => {
      const found = participants.find((each) => each.router === router && each.kind === "our SDK");
      if (found === undefined) throw new Error(`no SDK at ${router}`);
      return found;
    };
    beforeAll(async () => {
      folder = makeScratch("mixed-mesh-2");
      echo = await startEcho();
      network = await startNetwork(join(folder, "network"));
      await network.stopProgram("r2");
      cli = new PeerCli(peer.generation2.path, folder);
      await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
      const common = { cli, controllerPort: network.port, folder };
      for (const [name, kind] of [
        ["older", "OpenZiti 1.6"],
        ["newer", "OpenZiti 2.x"],
      ] as const) {
        routers.push(await (await enrollRouter({ ...common, name, kind })).start());
      }
      await allLinked(cli, ROUTERS);
      // The SDK of 2.x looks for a grouped channel, which routers of 1.6.0 do not have.
      const both = ["our SDK", "OpenZiti's tunneler"] as const;
      const at = { r1: both, newer: both, older: ["our SDK", "OpenZiti's 1.6 tunneler"] } as const;
      participants = await startParticipants({ cli, folder, at, echoPort: echo.port });
      for (const [from, to] of pairs(participants)) await carries(from, to);
    }, 400_000);

    afterAll(async () => {
      await Promise.all(participants.map((participant) => participant.stop()));
      for (const router of routers) await router.stop();
      await network?.stop();
      await echo?.close();
      removeScratch(folder);
    }, 120_000);

    it.each(EVERY_TWO)("carry 64 MiB both ways between %s and %s, begun at either of them", async (a, b) => {
      const [one, other] = [sdkAt(a), sdkAt(b)];
      await exchangeThenEnd(await one.dial(other.name), 1, 64 * MIB);
      await exchangeThenEnd(await other.dial(one.name), 2, 64 * MIB);
    });

    it.each(EVERY_TWO)(
      "a stream between %s and %s goes on when their link breaks, and they link again",
      async (a, b) => {
        const stream = await sdkAt(a).dial(sdkAt(b).name);
        await echoed(stream, 1_000);
        const links = await linksBetween(cli, a, b);
        for (const { id } of links) await cli.run("fabric", "delete", "link", id);
        await echoed(stream, MIB);
        await allLinked(cli, ROUTERS, links);
        await echoed(stream, MIB);
        stream.destroy();
      },
    );

    it("our router drops no payload of theirs", async () => {
      for (const [from, to] of pairs(participants)) await carries(from, to);
      expect(await dropped(cli, ["r1"])).toEqual({});
    });
  },
);
