import { setTimeout as delay } from "node:timers/promises";
import { silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { sql } from "kysely";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { appendChange } from "../../store/changes/change-log.ts";
import { openStore, type Store } from "../../store/database.ts";
import { testDatabase } from "../../store/testing/test-store.ts";
import { Services } from "../network/services.ts";
import { Policies, SERVICE_POLICY } from "../policy/policies.ts";
import { seed } from "../seeds.ts";
import { testContext } from "../testing/test-context.ts";
import type { NetworkCertificates } from "./image.ts";
import { isWithin } from "./position.ts";
import { RouterDataModel } from "./router-data-model.ts";
import { ReceivedModel } from "./testing/received-model.ts";

/** One of several controllers, as far as routers see its model. */
interface Side {
  readonly store: Store;
  readonly model: RouterDataModel;
}

let database: Awaited<ReturnType<typeof testDatabase>>;
let certificates: NetworkCertificates;
let sides: Side[];
beforeAll(async () => {
  const identity = await (await TestAuthority.create()).identity("controller");
  certificates = { server: identity.leaf, tokenKeys: [], authorities: identity.anchors };
});
beforeEach(async () => {
  database = await testDatabase();
  sides = [];
});
afterEach(async () => {
  for (const side of [...sides]) await stop(side);
  await database.drop();
});

async function start(id: string): Promise<Side> {
  const store = await openStore({ connection: database.connection, replica: { id }, poolSize: 4, log: silentLogger });
  if (sides.length === 0) await seed(store);
  const model = new RouterDataModel(testContext(store), () => certificates);
  const side = { store, model };
  sides.push(side);
  model.acquire();
  await model.ready();
  return side;
}

async function stop(side: Side): Promise<void> {
  sides = sides.filter((each) => each !== side);
  await side.model.close();
  await side.store.close();
}

let count = 0;
function makeService({ store }: Side): Promise<string> {
  return new Services(testContext(store)).create({
    ...{ name: `service-${count++}`, encryptionRequired: true, terminatorStrategy: "smartrouting" },
    ...{ maxIdleTimeMillis: 0, configs: [], roleAttributes: ["a"], tags: {} },
  } as never);
}

/** A router that takes a whole model once, and then changes from whichever controller it is asked to. */
class Router {
  #received: ReceivedModel | undefined;
  wholes = 0;

  async take({ model }: Side): Promise<void> {
    const from = this.#received;
    if (from !== undefined) await model.reach(from.index);
    const isKnown = from !== undefined && model.continues(from.timeline, from.index) && from.index <= model.index;
    const changes = isKnown ? model.changesAfter(from.index) : undefined;
    if (changes === undefined) {
      const { body, rest } = await model.state();
      this.#received = new ReceivedModel(body, { mayRepeat: true });
      for (const part of rest) this.#received.change(part);
      this.wholes++;
      return;
    }
    for (const { body } of changes) from?.change(body);
  }

  content(): unknown {
    return this.#received?.content();
  }
}

/** Nothing is on its way: what was committed before is in the model of each. */
async function agreed(...all: Side[]): Promise<void> {
  // In the first round the leader makes its changes, in the second the others take them.
  for (const { store, model } of [...all, ...all]) {
    await store.changes.wake();
    await model.state();
  }
  const places = new Set(all.map(({ model }) => `${model.timeline} ${model.index}`));
  expect([...places]).toHaveLength(1);
}

async function whole(side: Side): Promise<unknown> {
  const router = new Router();
  await router.take(side);
  return router.content();
}

describe("the model of several controllers", { timeout: 60_000 }, () => {
  it("has one index and one timeline, wherever a change is made and whichever of them a router asks", async () => {
    const [one, two] = [await start("one"), await start("two")];
    expect(two.model.timeline).toBe(one.model.timeline);
    const router = new Router();
    await router.take(one);
    const before = one.model.index;
    for (const side of [one, two, two, one]) await makeService(side);
    await agreed(one, two);
    expect(one.model.index).toBe(before + 4n);
    await router.take(two);
    expect(router.wholes).toBe(1);
    expect(router.content()).toEqual(await whole(one));
    expect(router.content()).toEqual(await whole(two));
  });

  it("loses nothing for a router that goes from one to the other while both write", async () => {
    const [one, two] = [await start("one"), await start("two")];
    const policies = new Policies(testContext(two.store), SERVICE_POLICY);
    const policy = await policies.create({
      ...{ name: "p", type: "Dial", semantic: "AnyOf", identityRoles: [], serviceRoles: ["#a"], postureCheckRoles: [] },
      tags: {},
    } as never);
    const router = new Router();
    let isWriting = true;
    const write = async (side: Side) => {
      const made: string[] = [];
      for (let n = 0; n < 30; n++) {
        made.push(await makeService(side));
        const id = made[n % made.length]!;
        const attributes = n % 3 === 0 ? ["b"] : ["a"];
        await side.store.transaction(async (trx) => {
          await sql`UPDATE service SET attrs = ${attributes} WHERE id = ${id}`.execute(trx);
          await appendChange(trx, { kind: "service", key: id, op: "update", before: { attrs: ["a"] } });
        });
        if (n % 7 === 6) await new Services(testContext(side.store)).delete(made.shift()!);
      }
    };
    const reader = (async () => {
      for (let n = 0; isWriting; n++) {
        await router.take(n % 2 === 0 ? one : two);
        await delay(3);
      }
    })();
    try {
      await Promise.all([write(one), write(two)]);
    } finally {
      isWriting = false;
      await reader;
    }
    await agreed(one, two);
    await router.take(two);
    await router.take(one);
    expect(router.wholes).toBe(1);
    expect(router.content()).toEqual(await whole(one));
    expect(router.content()).toEqual(await whole(two));
    expect(JSON.stringify(router.content())).toContain(policy);
  });

  it("goes on at another one when the leader ends, without a whole model for those who had one", async () => {
    const [one, two, three] = [await start("one"), await start("two"), await start("three")];
    expect(one.store.replica.isLeader).toBe(true);
    const router = new Router();
    await router.take(two);
    await makeService(two);
    await agreed(one, two, three);
    await one.store.close();
    const made = [await makeService(three)];
    await vi.waitFor(() => expect(two.store.replica.isLeader || three.store.replica.isLeader).toBe(true), {
      timeout: 20_000,
    });
    made.push(await makeService(two));
    await vi.waitFor(
      async () => {
        await router.take(three);
        for (const id of made) expect(JSON.stringify(router.content())).toContain(id);
      },
      { timeout: 20_000 },
    );
    expect(router.wholes).toBe(1);
    await agreed(two, three);
    await router.take(two);
    expect(router.content()).toEqual(await whole(two));
    expect(router.content()).toEqual(await whole(three));
  });

  it("begins a timeline of its own in a new life of the database, on all of them", async () => {
    const [one, two] = [await start("one"), await start("two")];
    const { timeline } = one.model;
    await sql`UPDATE controller_epoch SET wal_timeline = '000000FF', epoch = 'former'`.execute(one.store.db);
    await vi.waitFor(
      () => {
        expect(one.model.timeline).not.toBe(timeline);
        expect(two.model.timeline).toBe(one.model.timeline);
      },
      { timeout: 30_000 },
    );
    await makeService(two);
    await agreed(one, two);
    expect(await whole(one)).toEqual(await whole(two));
  });
});

it.each([
  ["5:5:", "5:5:", true],
  ["5:5:", "5:6:5", true],
  ["5:6:", "5:6:5", false],
  ["5:6:5", "5:6:5", true],
  ["5:6:5", "6:6:", true],
  ["5:7:5", "5:7:6", false],
  ["5:7:5,6", "5:7:6", true],
  ["5:8:", "5:7:", false],
])("all that the snapshot %s shows is visible in %s: %s", (one, other, expected) => {
  expect(isWithin(one, other)).toBe(expected);
});
