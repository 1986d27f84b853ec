import { ControlType, ctrlPb, decodeControl, type Message } from "@sallyport/wire";
import { afterEach, expect, it } from "vitest";
import { ChangingReplicas, testReplica } from "../../model/testing/changing-replicas.ts";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { TestFabric } from "../testing/test-fabric.ts";

const [one, two] = [testReplica("ctrl1", 1), testReplica("ctrl2", 2)];
const { UpdateCtrlAddresses, UpdateClusterLeader, RequestClusterMembers } = ControlType;

let net: TestFabric;
afterEach(() => net.stop());

async function start(controllers: ChangingReplicas): Promise<void> {
  net = await TestFabric.start({ controllers });
}

const told = (message: Message) => decodeControl(ctrlPb.UpdateCtrlAddressesSchema, message.body);
const next = async (router: ScriptedRouter) => told(await router.next(UpdateCtrlAddresses));
const leader = async (router: ScriptedRouter) =>
  decodeControl(ctrlPb.UpdateClusterLeaderSchema, (await router.next(UpdateClusterLeader)).body).index;

const BOTH = {
  addresses: ["tls:localhost:1", "tls:localhost:2"],
  controllers: [
    { id: "ctrl1", endpoints: [{ address: "tls:localhost:1" }] },
    { id: "ctrl2", endpoints: [{ address: "tls:localhost:2" }] },
  ],
};

it("a controller that is alone tells routers of no others, also when they ask", async () => {
  await start(new ChangingReplicas([one]));
  const router = await net.connect("r1");
  router.send(RequestClusterMembers);
  await router.roundTrip();
  expect(router.pending(UpdateCtrlAddresses)).toEqual([]);
  expect(router.pending(UpdateClusterLeader)).toEqual([]);
});

it("routers learn of all controllers when they connect, when the set changes, and when they ask", async () => {
  const replicas = new ChangingReplicas([one]);
  await start(replicas);
  const router = await net.connect("r1");
  replicas.set([one, two], 4n);
  expect(await next(router)).toMatchObject({ ...BOTH, index: 4n, isLeader: true });
  expect(await leader(router)).toBe(4n);
  router.send(RequestClusterMembers);
  expect(await next(router)).toMatchObject({ ...BOTH, index: 4n });
  const later = await net.connect("r2");
  expect(await next(later)).toMatchObject({ ...BOTH, index: 4n });
  replicas.set([two], 5n);
  for (const each of [router, later]) {
    expect(await next(each)).toMatchObject({
      addresses: ["tls:localhost:2"],
      controllers: [{ id: "ctrl2" }],
      index: 5n,
    });
  }
});

it("routers hear from one controller that it leads, and only of what is new", async () => {
  const replicas = new ChangingReplicas([one, two]);
  replicas.lead(false);
  replicas.set([one, two], 7n);
  await start(replicas);
  const router = await net.connect("r1");
  expect(await next(router)).toMatchObject({ ...BOTH, index: 7n, isLeader: false });
  replicas.set([one, two], 7n);
  await router.roundTrip();
  expect(router.pending(UpdateCtrlAddresses)).toEqual([]);
  expect(router.pending(UpdateClusterLeader)).toEqual([]);
  replicas.lead(true);
  expect(await next(router)).toMatchObject({ index: 7n, isLeader: true });
  expect(await leader(router)).toBe(7n);
});
