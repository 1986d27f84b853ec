import { createHash } from "node:crypto";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { decodeControl, edgeCtrlPb, silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { appendChange } from "../../store/changes/change-log.ts";
import { pruneChanges } from "../../store/changes/change-log-reads.ts";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import { Configs } from "../network/configs.ts";
import { Services } from "../network/services.ts";
import { Policies, SERVICE_POLICY } from "../policy/policies.ts";
import { seed } from "../seeds.ts";
import { Revocations } from "../session/revocations.ts";
import { testContext } from "../testing/test-context.ts";
import type { NetworkCertificates } from "./image.ts";
import { RouterDataModel } from "./router-data-model.ts";
import { ReceivedModel } from "./testing/received-model.ts";

const MANY = 20_000;

let test: TestStore;
let certificates: NetworkCertificates;
let services: Services;
let policies: Policies;
const models: RouterDataModel[] = [];

beforeAll(async () => {
  test = await testStore();
  await seed(test.store);
  const identity = await (await TestAuthority.create()).identity("controller");
  certificates = { server: identity.leaf, tokenKeys: [], authorities: identity.anchors };
  const ctx = testContext(test.store);
  services = new Services(ctx);
  policies = new Policies(ctx, SERVICE_POLICY);
});
// One at a time, as a controller has it: each writes down its own position.
afterEach(async () => {
  for (const model of models.splice(0)) await model.close();
});
afterAll(() => test.drop());

async function start(): Promise<RouterDataModel> {
  const model = new RouterDataModel(testContext(test.store), () => certificates);
  models.push(model);
  model.acquire();
  await model.ready();
  return model;
}

let count = 0;
const makeService = (): Promise<string> =>
  services.create({
    ...{ name: `service-${count++}`, encryptionRequired: true, terminatorStrategy: "smartrouting" },
    ...{ maxIdleTimeMillis: 0, configs: [], roleAttributes: ["a"], tags: {} },
  } as never);

/** Resolves when the model's index has grown past `index`. */
async function grown(model: RouterDataModel, index: bigint): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = model.onChange(() => model.index > index && resolve());
  if (model.index > index) resolve();
  await promise;
  stop();
}

describe("the index", () => {
  it("grows by one for a transaction, whatever it changes, and leads through change sets to the whole state", async () => {
    const model = await start();
    const received = new ReceivedModel((await model.state()).body);
    const before = model.index;
    expect(received.index).toBe(before);
    await test.store.transaction(async (trx) => {
      for (const id of ["t1", "t2"]) {
        await sql`INSERT INTO service (id, name, encryption_required) VALUES (${id}, ${id}, true)`.execute(trx);
        await appendChange(trx, { kind: "service", key: id, op: "create" });
      }
    });
    await grown(model, before);
    expect(model.index).toBe(before + 1n);
    for (const change of model.changesAfter(before) ?? []) received.change(change.body);
    expect(received.services).toContain("t1");
    expect(received.content()).toEqual(new ReceivedModel((await model.state()).body).content());
  });

  it("does not grow for what routers are not told", async () => {
    const model = await start();
    const before = model.index;
    const id = await makeService();
    await grown(model, before);
    const { index } = model;
    await services.update(id, { tags: { seen: "no" } } as never);
    await appendChange(test.store.db, { kind: "terminator", key: "x", op: "create" });
    const other = await makeService();
    await grown(model, index);
    const sets = (model.changesAfter(index) ?? []).map((change) =>
      decodeControl(edgeCtrlPb.DataState_ChangeSetSchema, change.body),
    );
    expect(sets.flatMap((set) => set.changes.map((event) => event.model.value))).toMatchObject([{ id: other }]);
  });

  it("stands when the controller starts again, and grows by what happened in between, also when that was pruned unseen", async () => {
    const first = await start();
    const id = await makeService();
    await grown(first, 0n);
    await test.store.changes.caughtUp();
    const settledAt = (await first.state()).index;
    await first.close();
    const second = await start();
    expect([second.timeline, second.index]).toEqual([first.timeline, settledAt]);
    expect(second.changesAfter(settledAt)).toEqual([]);
    await second.close();

    await services.delete(id);
    const third = await start();
    expect(third.timeline).toBe(first.timeline);
    expect(third.index).toBe(settledAt + 1n);
    expect(third.changesAfter(settledAt)).toBeUndefined();
    const { index } = third;
    await third.close();

    await makeService();
    await test.store.changes.caughtUp();
    await pruneChanges(test.store.db, -1);
    const fourth = await start();
    expect(fourth.index).toBeGreaterThan(index);
    expect(fourth.changesAfter(index)).toBeUndefined();
  });

  it("is never given out before it is stored: a controller that is killed right after takes nothing back", async () => {
    const model = await start();
    const seen: Promise<readonly [bigint, string]>[] = [];
    const stop = model.onChange(() => {
      const told = model.index;
      const { db } = test.store;
      const query = sql<{
        index: string;
      }>`SELECT value->>'index' AS index FROM setting WHERE name = 'router-data-model'`;
      seen.push(query.execute(db).then(({ rows }) => [told, rows[0]?.index ?? ""]));
    });
    for (let n = 0; n < 5; n++) await makeService();
    await test.store.changes.caughtUp();
    await model.state();
    stop();
    expect(seen.length).toBeGreaterThan(0);
    for (const [told, stored] of await Promise.all(seen)) expect(BigInt(stored)).toBeGreaterThanOrEqual(told);
  });
});

it("certificates come and go as changes", async () => {
  const model = await start();
  const received = new ReceivedModel((await model.state()).body);
  expect(received.keys.size).toBe(certificates.authorities.length + 1);
  const before = model.index;
  const other = await (await TestAuthority.create()).identity("controller");
  const old = certificates;
  certificates = { server: other.leaf, tokenKeys: [], authorities: [...old.authorities, ...other.anchors] };
  await grown(model, before);
  for (const change of model.changesAfter(before) ?? []) received.change(change.body);
  expect(received.content()).toEqual(new ReceivedModel((await model.state()).body).content());
  certificates = old;
}, 15_000);

it("what could not be stored when its time came is told once the database takes it", async () => {
  const failed = Promise.withResolvers<void>();
  const log = { ...silentLogger, warn: () => failed.resolve() };
  const model = new RouterDataModel({ ...testContext(test.store), log }, () => certificates);
  models.push(model);
  model.acquire();
  await model.ready();
  const known = [...new ReceivedModel((await model.state()).body).keys.keys()];
  const { index } = model;
  await sql`ALTER TABLE setting ADD CONSTRAINT full_disk CHECK (name <> 'router-data-model') NOT VALID`.execute(
    test.store.db,
  );
  const old = certificates;
  const other = await (await TestAuthority.create()).identity("controller");
  certificates = { server: other.leaf, tokenKeys: [], authorities: other.anchors };
  await failed.promise;
  await sql`ALTER TABLE setting DROP CONSTRAINT full_disk`.execute(test.store.db);
  await grown(model, index);
  expect(model.changesAfter(index)).toBeUndefined();
  expect([...new ReceivedModel((await model.state()).body).keys.keys()]).not.toEqual(known);
  certificates = old;
}, 60_000);

it("keys that sign tokens are told at once when they change, and certify no one", async () => {
  const model = await start();
  const key = (await (await TestAuthority.create()).identity("token key")).leaf;
  const kid = createHash("sha1").update(key.raw).digest("hex");
  const received = new ReceivedModel((await model.state()).body);
  const follow = async (change: () => void) => {
    const { index } = model;
    change();
    model.certificatesChanged();
    await grown(model, index);
    for (const { body } of model.changesAfter(index) ?? []) received.change(body);
  };
  const old = certificates;
  await follow(() => {
    certificates = { ...old, tokenKeys: [key] };
  });
  const { JwtValidation } = edgeCtrlPb.DataState_PublicKey_Usage;
  expect(received.keys.get(kid)).toMatchObject({ usages: [JwtValidation], data: key.raw });
  expect(received.content()).toEqual(new ReceivedModel((await model.state()).body).content());
  await follow(() => {
    certificates = old;
  });
  expect(received.keys.has(kid)).toBe(false);
});

it("revocations are in the state until their tokens have ended, and come and go as changes", async () => {
  const ctx = testContext(test.store);
  const revocations = new Revocations(ctx);
  await test.store.pool.query("INSERT INTO identity (id, name, type_id) VALUES ('revoked', 'revoked', 'Default')");
  await test.store.pool.query(
    "INSERT INTO revocation (id, type, expires_at) VALUES ('over', 'JTI', now() - interval '1 s')",
  );
  const until = new Date(Date.now() + 60_000);
  await revocations.create({ id: "token", type: "JTI", until });
  const model = await start();
  const received = new ReceivedModel((await model.state()).body);
  expect([...received.revocations.keys()]).toEqual(["token"]);
  expect(received.revocations.get("token")).toMatchObject({ type: "JTI", expiresAt: timestampFromDate(until) });
  const { index } = model;
  await revocations.create({ id: "revoked", type: "IDENTITY" });
  await grown(model, index);
  const later = new Revocations({ ...ctx, now: () => new Date(until.getTime()) });
  const said = model.index;
  await later.sweep(new AbortController().signal);
  await grown(model, said);
  for (const change of model.changesAfter(index) ?? []) received.change(change.body);
  const { issued_before: issuedBefore } = await revocations.get("revoked");
  expect([...received.revocations.values()]).toMatchObject([
    { id: "revoked", type: "IDENTITY", issuedBefore: timestampFromDate(issuedBefore!) },
  ]);
  expect(received.content()).toEqual(new ReceivedModel((await model.state()).body).content());
});

it("other certificates at the next start are a change", async () => {
  const first = await start();
  const { index } = first;
  await first.close();
  const old = certificates;
  const other = await (await TestAuthority.create()).identity("controller");
  certificates = { server: other.leaf, tokenKeys: [], authorities: other.anchors };
  const second = await start();
  expect([second.timeline, second.index]).toEqual([first.timeline, index + 1n]);
  expect(second.changesAfter(index)).toBeUndefined();
  await second.close();
  certificates = old;
});

it("a policy for many is told in pieces, and everything else goes on meanwhile", async () => {
  for (let from = 1; from <= MANY; from += 2_000) {
    await sql`INSERT INTO identity (id, name, type_id, attrs)
      SELECT 'many-' || n, 'many-' || n, 'Default', ARRAY['many']
      FROM generate_series(${from}::int, ${from + 1_999}::int) n`.execute(test.store.db);
  }
  const model = await start();
  const before = model.index;
  // Processor time of this process, so that what else the machine does counts little.
  const worked = (): number => process.threadCpuUsage().user / 1_000;
  let longest = 0;
  let last = worked();
  const beat = setInterval(() => {
    longest = Math.max(longest, worked() - last);
    last = worked();
  }, 1);
  await policies.create({
    name: "many",
    type: "Dial",
    semantic: "AnyOf",
    identityRoles: ["#many"],
    serviceRoles: ["#all"],
  });
  await grown(model, before);
  await model.state();
  clearInterval(beat);
  const [change] = model.changesAfter(before) ?? [];
  const { changes = [] } = change === undefined ? {} : decodeControl(edgeCtrlPb.DataState_ChangeSetSchema, change.body);
  const ids = changes.flatMap(({ model: { value } }) =>
    value && "relatedEntityIds" in value ? value.relatedEntityIds : [],
  );
  expect(ids.filter((id) => id.startsWith("many-")).length).toBe(MANY);
  // Without slices it is a quarter of a second and more.
  expect(longest).toBeLessThan(200);
}, 60_000);

it("configs of an identity's own go with their service", async () => {
  const ctx = testContext(test.store);
  const typeId = await new Configs(ctx).createType({ name: "own", schema: { type: "object" } } as never);
  const configId = await new Configs(ctx).create({ name: "own", configTypeId: typeId, data: {}, tags: {} } as never);
  const serviceId = await makeService();
  await sql`INSERT INTO identity (id, name, type_id) VALUES ('overriding', 'overriding', 'Default')`.execute(
    test.store.db,
  );
  await sql`INSERT INTO identity_service_config VALUES ('overriding', ${serviceId}, ${typeId}, ${configId})`.execute(
    test.store.db,
  );
  const model = await start();
  const received = new ReceivedModel((await model.state()).body);
  expect(received.identities.get("overriding")?.serviceConfigs[serviceId]?.configs).toEqual({ [typeId]: configId });
  const before = model.index;
  await services.delete(serviceId);
  await grown(model, before);
  for (const change of model.changesAfter(before) ?? []) received.change(change.body);
  expect(received.identities.get("overriding")?.serviceConfigs).toEqual({});
});

/** Indices are no JSON. */
const plain = (_key: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);

it("configs for routers go to no router that they are not of", async () => {
  const configs = new Configs(testContext(test.store));
  const model = await start();
  const received = new ReceivedModel((await model.state()).body);
  const { index } = model;
  for (const target of ["service", "router"]) {
    const typeId = await configs.createType({ name: `for ${target}`, schema: { type: "object" }, target } as never);
    const config = { name: `of ${target}`, configTypeId: typeId, data: {}, tags: {} };
    await configs.create(config as never);
  }
  await grown(model, index);
  const last = model.index;
  await makeService();
  await grown(model, last);
  for (const { body } of model.changesAfter(index) ?? []) received.change(body);
  const whole = new ReceivedModel((await model.state()).body);
  for (const { content } of [received, whole].map((each) => ({ content: JSON.stringify(each.content(), plain) }))) {
    expect([content.includes('"of service"'), content.includes('"of router"')]).toEqual([true, false]);
  }
});

it("a large state goes out in parts, and in one message to routers that need it whole", async () => {
  const configs = new Configs(testContext(test.store));
  const typeId = await configs.createType({ name: "large", schema: { type: "object" } } as never);
  for (const name of ["a", "b", "c", "d", "e"]) {
    const data = { text: name.repeat(1024 * 1024) };
    await configs.create({ name: `large-${name}`, configTypeId: typeId, data, tags: {} } as never);
  }
  const model = await start();
  const [parts, whole] = [await model.state(), await model.state({ isWhole: true })];
  expect(parts.rest.length).toBeGreaterThan(0);
  expect(whole.rest).toEqual([]);
  const received = new ReceivedModel(parts.body);
  for (const part of parts.rest) received.change(part);
  expect(received.content()).toEqual(new ReceivedModel(whole.body).content());
  // Each form is made once.
  expect((await model.state({ isWhole: true })).body).toBe(whole.body);
  expect((await model.state()).body).toBe(parts.body);
  const own = await model.state({ timeline: "own", isWhole: true });
  expect([own.rest, new ReceivedModel(own.body).timeline]).toEqual([[], "own"]);
});
