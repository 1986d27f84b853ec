import { decodeControl, EdgeType, edgeClientPb, encodeControl, type Message } from "@sallyport/wire";
import { beforeEach, expect, test } from "vitest";
import { check, identity, member, service } from "../../access/testing/test-model.ts";
import { routerPerTest } from "../../testing/router-per-test.ts";
import type { TestNetwork, TestRouter } from "../../testing/test-network.ts";
import { TestSdk } from "../../testing/test-sdk.ts";
import { MIN_PAUSE_MS } from "./service-subscriptions.ts";

const { Op } = edgeClientPb;

let network: TestNetwork;
let router: TestRouter;
let sdk: TestSdk;

const connected = routerPerTest((...started) => {
  [network, router] = started;
});

beforeEach(async () => {
  const client = await network.tokenClient("alice");
  await network.grant("web", "Dial", "alice");
  sdk = await connected(client);
});

function subscribe(): void {
  const body = encodeControl(edgeClientPb.SubscribeToServiceUpdatesSchema, { index: -1n });
  sdk.channel.send({ contentType: EdgeType.SubscribeToServiceUpdates, body });
}

async function services(): Promise<edgeClientPb.ServiceChangeSet> {
  const { contentType, body } = await sdk.nextMessage();
  expect(contentType).toBe(EdgeType.ServiceChangeSet);
  return decodeControl(edgeClientPb.ServiceChangeSetSchema, body);
}

async function posture(): Promise<edgeClientPb.PostureStateChange> {
  const { contentType, body } = await sdk.nextMessage();
  expect(contentType).toBe(EdgeType.PostureStateChange);
  return decodeControl(edgeClientPb.PostureStateChangeSchema, body);
}

test("a subscriber is told of everything, then of what changes, in sets that follow each other", async () => {
  subscribe();
  const all = await services();
  expect(all).toMatchObject({ previousIndex: -1n, services: [{ op: Op.Added, id: "web", policyIds: ["Dial-web"] }] });
  expect(await posture()).toMatchObject({ seq: 1n, policyStates: [{ policyId: "Dial-web", isPassing: true }] });

  await network.grant("more", "Bind", "alice");
  const more = await services();
  expect(more.previousIndex).toBe(all.index);
  expect(more.index).toBeGreaterThan(all.index);
  expect(more.services).toMatchObject([{ op: Op.Added, id: "more", name: "name of more" }]);
  expect(await posture()).toMatchObject({ seq: 2n });

  await network.model.put(member("Dial-web", "identity", ["alice"], false));
  const less = await services();
  expect(less).toMatchObject({ previousIndex: more.index, services: [{ op: Op.Removed, id: "web" }] });
  expect(less.policies).toMatchObject([{ op: Op.Removed, id: "Dial-web" }]);
});

test("what concerns others is not told, and does not break the sequence", async () => {
  subscribe();
  const all = await services();
  await posture();
  await network.tokenClient("bob");
  await network.grant("theirs", "Dial", "bob");
  await network.grant("ours", "Dial", "alice");
  const next = await services();
  expect(next.previousIndex).toBe(all.index);
  expect(next.services.map(({ id }) => id)).toEqual(["ours"]);
});

test("posture is told when the device reports, when it is asked for, and when a check changes", async () => {
  await network.model.put(check("c1", { case: "domains", value: { domains: ["corp"] } }));
  await network.model.put(member("Dial-web", "check", ["c1"]));
  subscribe();
  expect(await services()).toMatchObject({ postureChecks: [{ id: "c1", type: "DOMAIN" }] });
  expect(await posture()).toMatchObject({ seq: 1n, checkStates: [{ checkId: "c1", isPassing: false }] });
  sdk.report({ type: { case: "domain", value: { name: "corp" } } });
  expect(await posture()).toMatchObject({
    seq: 2n,
    checkStates: [{ isPassing: true }],
    policyStates: [{ isPassing: true }],
  });
  sdk.channel.send({ contentType: EdgeType.ResyncPostureState });
  expect(await posture()).toMatchObject({ seq: 3n, checkStates: [{ isPassing: true }] });
  await network.model.put(check("c1", { case: "domains", value: { domains: ["other"] } }));
  expect(await services()).toMatchObject({ services: [], postureChecks: [{ op: Op.Updated, id: "c1" }] });
  expect(await posture()).toMatchObject({ seq: 4n, checkStates: [{ isPassing: false }] });
});

test("subscribing again starts again, and ends when the SDK says so", async () => {
  subscribe();
  const { index } = await services();
  await posture();
  subscribe();
  expect(await services()).toMatchObject({ index, previousIndex: -1n });
  expect(await posture()).toMatchObject({ seq: 2n });
  sdk.channel.send({ contentType: EdgeType.UnsubscribeFromServiceUpdates });
  sdk.channel.send({ contentType: EdgeType.ResyncPostureState });
  await network.grant("more", "Dial", "alice");
  // Only a new subscription is answered: nothing came before it.
  subscribe();
  expect(await services()).toMatchObject({ previousIndex: -1n, services: [{}, {}] });
});

test("an SDK that does not read gets one set of all that has changed meanwhile", async () => {
  subscribe();
  const all = await services();
  await posture();
  const [channel] = router.edge.sdks().map((each) => each.channel);
  if (channel === undefined) throw new Error("the SDK has a channel");
  let isFull = true;
  const drained: (() => void)[] = [];
  Object.defineProperty(channel, "isFull", { configurable: true, get: () => isFull });
  Object.defineProperty(channel, "onDrain", { configurable: true, value: (cb: () => void) => drained.push(cb) });
  for (let i = 0; i < 1_000; i++) await network.model.put(service("web", [`config ${i}`]));
  await expect.poll(() => drained.length).toBe(1);
  await network.grant("more", "Dial", "alice");
  expect(sdk.messages).toEqual([]);
  isFull = false;
  for (const cb of drained.splice(0)) cb();
  const next = await services();
  expect(next.previousIndex).toBe(all.index);
  expect(next.services.map(({ id, op }) => [id, op])).toEqual([
    ["web", Op.Updated],
    ["more", Op.Added],
  ]);
});

/** What an SDK holds that does as the sets say. @throws Error where it would have to start again */
class Follower {
  index = -1n;
  seq = 0n;
  readonly services = new Map<string, edgeClientPb.ServiceDef>();
  readonly policies = new Map<string, edgeClientPb.PolicyDef>();
  states: string[] = [];

  take({ contentType, body }: Message): void {
    if (contentType === EdgeType.PostureStateChange) {
      const { seq, policyStates } = decodeControl(edgeClientPb.PostureStateChangeSchema, body);
      if (seq !== this.seq + 1n) throw new Error(`expected states ${this.seq + 1n}, got ${seq}`);
      this.seq = seq;
      this.states = policyStates.map(({ policyId }) => policyId);
      return;
    }
    const set = decodeControl(edgeClientPb.ServiceChangeSetSchema, body);
    if (set.previousIndex === -1n) {
      this.services.clear();
      this.policies.clear();
    } else if (set.previousIndex !== this.index || set.index <= this.index) {
      throw new Error(`expected what follows ${this.index}, got ${set.previousIndex} to ${set.index}`);
    }
    this.index = set.index;
    for (const each of set.services) {
      if (each.op === Op.Removed) this.services.delete(each.id);
      else this.services.set(each.id, each);
    }
    for (const each of set.policies) {
      if (each.op === Op.Removed) this.policies.delete(each.id);
      else this.policies.set(each.id, each);
    }
  }

  get known(): object {
    const services = [...this.services.values()].map(({ id, configs, policyIds }) => ({ id, configs, policyIds }));
    return { services: services.sort((a, b) => (a.id < b.id ? -1 : 1)), policies: [...this.policies.keys()].sort() };
  }
}

test("whatever changes while an SDK subscribes, also again, it comes to know what the router knows", async () => {
  const follower = new Follower();
  const changes = [
    (i: number) => network.grant(`s${i % 7}`, "Dial", "alice"),
    (i: number) => network.model.put(member(`Dial-s${(i * 3) % 7}`, "identity", ["alice"], i % 2 === 0)),
    (i: number) => network.model.put(service(`s${i % 5}`, [`config ${i}`])),
    (i: number) => network.model.remove(service(`s${(i * 5) % 7}`)),
    () => network.model.put(identity("bob")),
  ];
  for (let i = 0; i < 60; i++) {
    if (i % 20 === 0) subscribe();
    await changes[(i * i + i) % changes.length]?.(i);
    await changes[i % changes.length]?.(i);
    if (i % 5 === 0) follower.take(await sdk.nextMessage());
  }
  await network.grant("last", "Dial", "alice");
  while (!follower.services.has("last") || !follower.states.includes("Dial-last"))
    follower.take(await sdk.nextMessage());
  const view = network.access.view("alice", "s-alice");
  const services = [...view.services.values()].map(({ id, configIds, policyIds }) => ({
    ...{ id, configs: [...configIds], policyIds: [...policyIds] },
  }));
  expect(follower.known).toEqual({
    services: services.sort((a, b) => (a.id < b.id ? -1 : 1)),
    policies: [...view.policies.keys()].sort(),
  });
  expect(services.length).toBeGreaterThan(2);
});

test("another model with a lower index takes the place of all that was told", async () => {
  for (let i = 0; i < 10; i++) await network.model.put(service("web", [`config ${i}`]));
  subscribe();
  const all = await services();
  await posture();
  await network.model.replaceBy(identity("alice"));
  expect(await services()).toMatchObject({ previousIndex: -1n, services: [], policies: [] });
  await posture();
  await network.grant("new", "Dial", "alice");
  const next = await services();
  expect(next.index).toBeLessThan(all.index);
  expect(next.services.map(({ id }) => id)).toEqual(["new"]);
});

test("an SDK with an opaque session is not answered: it asks the controller", async () => {
  sdk.close();
  sdk = await TestSdk.connect(router.port.port, await network.client("dave"));
  subscribe();
  await network.model.put(identity("dave"));
  await network.grant("web", "Dial", "dave");
  const { answer } = await sdk.requestConnect("none");
  expect(answer.contentType).toBe(EdgeType.StateClosed);
  expect(sdk.messages).toEqual([]);
});

test("an SDK that asks all the time is answered ten times a second", async () => {
  subscribe();
  await services();
  await posture();
  const started = performance.now();
  for (let i = 0; i < 1_000; i++) subscribe();
  // Behind all of them: what it waits for is told in the last answer.
  await sdk.requestConnect("none");
  await network.grant("more", "Dial", "alice");
  let answers = 0;
  for (let count = 0; count < 2; answers++) {
    const set = await services();
    // All of them at first, or the new one alone.
    count = set.previousIndex === -1n ? set.services.length : 2;
    await posture();
  }
  expect(answers).toBeLessThanOrEqual(1 + (performance.now() - started) / MIN_PAUSE_MS);
});
