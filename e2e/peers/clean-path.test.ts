import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTcp } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { download, startOneWay, upload } from "../network/one-way.ts";
import { ProcessorShare } from "../network/processor-share.ts";
import { counted, dropped } from "./counted.ts";
import { type MixedNetwork, startMixedNetwork } from "./mixed-network.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;
/** What OpenZiti would wait before it repeats, one and a half round trips, if ours took no time at all to acknowledge. */
const PROMPT_MS = 150;
/** The same when ours took 50 ms longer. */
const LATE_MS = 225;
/** Bytes in a payload of these transfers. */
const PAYLOAD = 32 * 1024;
/** Part of the processors' time that other programs take from which on a late acknowledgement says nothing. */
const BUSY = 0.1;
/** Payloads that crossed each link end in each direction. */
const PAYLOADS = (1024 * MIB) / PAYLOAD;
/** How often it is tried until OpenZiti repeats nothing. */
const ATTEMPTS = 3;
/** What OpenZiti may repeat in a try that is made again: one was seen in one of six tries on a quiet machine, and why is not known. */
const STRAY = 3;
/** Part of the payloads that may be repeated on a machine that is too busy to judge. */
const FEW = 0.1;
/** Part of the payloads whose acknowledgements OpenZiti may lose anywhere: it has room for four, and drops the next. */
const LOST = 0.05;

// No other file of the suites with OpenZiti runs beside this one.
describe.skipIf(peer.isMissing)("our router and OpenZiti's on a clean path", () => {
  let network: MixedNetwork;
  beforeAll(async () => {
    network = await startMixedNetwork("ours", "mine", {
      serve: startOneWay,
      attempt: (socket) => upload(socket, 1, 100),
    });
  });
  afterAll(() => network?.close());

  // By OpenZiti's clock, and without a queue on the way: a busy machine meets this, too, if not at once.
  it("our end acknowledges at once what comes alone", async () => {
    const { cli } = network.controller;
    const circuits = async (): Promise<readonly string[]> =>
      (await cli.run("fabric", "list", "circuits")).match(/[0-9A-Za-z]{20,22}/g) ?? [];
    const known = await circuits();
    // Begins at OpenZiti's router and ends at ours.
    const socket = await openTcp(network.services[1].port);
    socket.on("error", () => {});
    const ping = async (): Promise<void> => {
      const answered = once(socket, "data");
      socket.write("get 1 1\n");
      await answered;
    };
    await ping();
    const circuit = (await circuits()).find((id) => !known.includes(id)) ?? "";
    await eventually("OpenZiti measures a round trip that is little longer than what we tell it to allow", async () => {
      for (let i = 0; i < 20; i++) await ping();
      const detail = await cli.run("fabric", "inspect", "circuit", circuit);
      const repeatsAfter = Number(/originator: Initiator[\s\S]*?retxThreshold: (\d+)/.exec(detail)?.[1]);
      expect(repeatsAfter).toBeGreaterThanOrEqual(PROMPT_MS);
      expect(repeatsAfter).toBeLessThan(LATE_MS);
      return true;
    });
    socket.end();
  });

  it("1 GiB each way: OpenZiti repeats nothing, and we what was not acknowledged", async () => {
    const METERS = ["retransmissions", "ack_duplicates"] as const;
    const countedNow = async () => {
      const sums = { theirs: 0, ours: 0, needless: 0 };
      for (const meter of METERS) {
        const { mine = 0, theirs = 0 } = await eventually("an answer of both routers", async () => {
          const count = await counted(network.controller.cli, `xgress.${meter}`);
          expect(Object.keys(count).toSorted()).toEqual(["mine", "theirs"]);
          return count;
        });
        if (meter === "retransmissions") Object.assign(sums, { ours: mine, theirs });
        // The acknowledgement came all the same, after the payload had been sent again.
        else sums.needless = mine;
      }
      return sums;
    };
    for (let attempt = 1; ; attempt++) {
      const share = new ProcessorShare();
      const before = await countedNow();
      let broken = "";
      try {
        for (const { port } of network.services) {
          await upload(await openTcp(port), 3, 512 * MIB);
          await download(await openTcp(port), 4, 512 * MIB);
        }
      } catch (error) {
        // OpenZiti's tunneler gives its router up when a probe takes 10 s.
        broken = `, until the stream broke (${error instanceof Error ? error.message : error})`;
      }
      const after = await countedNow();
      const theirs = after.theirs - before.theirs;
      const ours = after.ours - before.ours;
      const needless = after.needless - before.needless;
      const others = share.ofOthers();
      const said = `in 1 GiB each way OpenZiti repeated ${theirs} payloads, and we ${ours}, ${needless} of them needlessly${broken}`;
      console.info(`${said}; other programs took ${Math.round(100 * others)} % of the processors`);
      const isNearlyClean = theirs <= STRAY && needless < PAYLOADS / 1_000 && ours < LOST * PAYLOADS && broken === "";
      if (isNearlyClean && theirs === 0) {
        expect(await dropped(network.controller.cli, ["mine"])).toEqual({});
        return;
      }
      if (isNearlyClean) console.warn(`\n*** NOT CLEAN in try ${attempt} of ${ATTEMPTS}: ${said}\n`);
      // Acknowledgements of an end that gets no processor time are late, and either end then repeats.
      if (attempt < ATTEMPTS && (isNearlyClean || others > BUSY)) continue;
      expect(others, said).toBeGreaterThan(BUSY);
      console.warn(`\n*** NOT JUDGED, this machine is too busy with other programs: ${said}\n`);
      expect(Math.max(ours, theirs)).toBeLessThan(FEW * PAYLOADS);
      return;
    }
  }, 1_200_000);
});
