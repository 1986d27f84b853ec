import { pause } from "@sallyport/async";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchangeSome } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { ReplicaNetwork } from "../../network/replica-network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { Random } from "../../soak/random.ts";
import { Recorder } from "../../system/replicas/history/recorder.ts";
import { Workloads } from "../../system/replicas/history/workloads.ts";
import { hasNamespaces, Site } from "../network-namespace.ts";
import { CUTS, RemoteMember } from "./remote-member.ts";

/** Longer than a lease, what a pool waits for a connection, and what an answer of the database may take. */
const CUT_MS = 12_000;
const REMOTE = 2;

describe.skipIf(!hasNamespaces)("a controller that a packet filter cuts off", { timeout: 600_000 }, () => {
  const folder = makeScratch("partitions");
  const site = new Site();
  const recorder = new Recorder();
  let member: RemoteMember;
  let set: ReplicaNetwork;
  let workloads: Workloads;

  beforeAll(async () => {
    set = await ReplicaNetwork.start(folder, {
      last: async (network, others) => {
        member = await RemoteMember.make(site, network, others);
        return member.place;
      },
    });
    workloads = new Workloads(set, recorder, new Random(1));
    await workloads.prepare();
    await set.whole(workloads.token);
    workloads.start();
  }, 900_000);
  afterAll(async () => {
    await workloads?.stop();
    await set?.stop();
    member?.close();
    await site.close();
    removeScratch(folder);
  });

  const get = (at: number, path: string) => set.call(at, "GET", path, { token: workloads.token });
  const services = "/edge/management/v1/services?limit=1";

  /** Makes the controller in its own namespace the leader, or another one. */
  async function lead(leads: boolean): Promise<void> {
    const { token } = workloads;
    const isLeader = async () => (await set.leader(token)) === REMOTE;
    if ((await isLeader()) === leads) return;
    const ended = leads ? [0, 1] : [REMOTE];
    for (const at of ended) await set.end(at, "SIGKILL");
    await eventually("the other leads", async () => (await isLeader()) === leads, 60_000);
    for (const at of ended) await set.start(at);
    await set.whole(token);
  }

  /** What must be so during the cut, besides what histories and the open circuit show. */
  const meanwhile = {
    "the database": async () => {
      await eventually("it answers 503", async () => (await get(REMOTE, services)).status === 503, 60_000);
      await eventually("another one leads", async () => (await set.leader(workloads.token)) !== REMOTE, 60_000);
    },
    "the routers": async () => {
      expect((await get(REMOTE, services)).status).toBe(200);
    },
    "the other controllers": async () => {
      // It shows what it knows itself.
      const { status } = await get(REMOTE, "/fabric/v1/circuits");
      expect(status).toBe(200);
      expect((await get(0, "/fabric/v1/circuits")).status).toBe(200);
    },
  };

  it.each(
    CUTS.flatMap((from) => [false, true].map((leads) => ({ from, leads, as: leads ? "the leader" : "a follower" }))),
  )("from $from, as $as: circuits go on, and afterwards everything is as before", async ({ from, leads }) => {
    await lead(leads);
    const { token } = workloads;
    const open = await set.dial();
    open.setMaxListeners(0);
    const cut = await member.cut(from);
    const began = performance.now();
    await meanwhile[from]();
    while (performance.now() - began < CUT_MS) {
      await exchangeSome(open, 1, 50_000);
      await set.echoes();
      await pause(100);
    }
    await cut.end();
    const ended = performance.now();
    await set.whole(token);
    console.info(`cut off from ${from}: whole again after ${Math.round(performance.now() - ended)} ms`);
    await set.echoes();
    await exchangeSome(open, 2, 50_000);
    open.end();
    await set.withoutCircuits(token);
  });

  it("and all the while nobody has answered what was out of date, and nothing acknowledged is lost", async () => {
    await workloads.stop();
    await workloads.readAll();
    console.info(`partitions: ${JSON.stringify(recorder.counts)}`);
    expect(recorder.problems()).toEqual([]);
    expect(recorder.counts.registerOperations).toBeGreaterThan(20);
    expect(recorder.counts.views).toBeGreaterThan(100);
  });
});
