import { silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { appendChange } from "../../store/changes/change-log.ts";
import { openStore, type Store } from "../../store/database.ts";
import { testDatabase } from "../../store/testing/test-store.ts";
import type { Db } from "../context.ts";
import { testReplica } from "../testing/changing-replicas.ts";
import { SharedReplicas } from "./shared-replicas.ts";

let database: Awaited<ReturnType<typeof testDatabase>>;
let stops: (() => Promise<unknown>)[];
/** Ids of the processes of which everything is removed. */
let forgotten: string[];
beforeEach(async () => {
  forgotten = [];
  database = await testDatabase();
  stops = [];
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  await database.drop();
});

async function start(
  id: string,
  port: number,
): Promise<{ store: Store; replicas: SharedReplicas; own: { port: number } }> {
  const store = await openStore({ connection: database.connection, replica: { id }, poolSize: 4, log: silentLogger });
  stops.push(() => store.close());
  const own = { port };
  const record = () => {
    const { isLive: _, leads: __, ...rest } = testReplica(id, own.port);
    return rest;
  };
  const forget = async (_trx: Db, id: string) => forgotten.push(id);
  const replicas = await SharedReplicas.start({ store, own: record, forget, seenEveryMs: 100, log: silentLogger });
  stops.push(() => replicas.close());
  return { store, replicas, own };
}

const shown = (replicas: SharedReplicas) =>
  replicas.replicas().map(({ id, ctrlAddress, isLive }) => `${id} ${ctrlAddress} ${isLive}`);

it("every process learns where the others are, that one has gone or moved, and who leads", async () => {
  const one = await start("one", 1);
  const two = await start("two", 2);
  const all = ["one tls:localhost:1 true", "two tls:localhost:2 true"];
  for (const { replicas } of [one, two]) await vi.waitFor(() => expect(shown(replicas)).toEqual(all), 10_000);
  await vi.waitFor(() => expect(one.replicas.index).toBe(two.replicas.index));
  expect([one.replicas.isLeader, two.replicas.isLeader]).toEqual([true, false]);

  const before = two.replicas.index;
  two.own.port = 3;
  await vi.waitFor(() => expect(shown(one.replicas)).toContain("two tls:localhost:3 true"), 10_000);
  expect(one.replicas.index).toBeGreaterThan(before);

  const told = vi.fn();
  two.replicas.onChange(told);
  await one.replicas.close();
  await one.store.close();
  await vi.waitFor(
    () => expect(shown(two.replicas)).toEqual(["one tls:localhost:1 false", "two tls:localhost:3 true"]),
    10_000,
  );
  await vi.waitFor(() => expect(two.replicas.isLeader).toBe(true), 10_000);
  await vi.waitFor(() => expect(two.replicas.index).toBeGreaterThan(before + 1n), 10_000);
  expect(told).toHaveBeenCalled();
});

it("a process that stays away for long is forgotten, and is a member again when it comes back", async () => {
  const one = await start("one", 1);
  const two = await start("two", 2);
  await two.replicas.close();
  await two.store.close();
  await vi.waitFor(() => expect(shown(one.replicas)).toContain("two tls:localhost:2 false"), 10_000);
  const { index } = one.replicas;
  await sql`UPDATE replica SET seen_at = now() - interval '1 hour' WHERE id = 'two'`.execute(one.store.db);
  await vi.waitFor(() => expect(shown(one.replicas)).toEqual(["one tls:localhost:1 true"]), 10_000);
  expect(one.replicas.index).toBeGreaterThan(index);
  expect(forgotten).toEqual(["two"]);
  await start("two", 2);
  await vi.waitFor(() => expect(shown(one.replicas)).toContain("two tls:localhost:2 true"), 10_000);
});

const leases = async ({ db }: Store) =>
  (await sql<{ id: string }>`SELECT replica_id AS id FROM replica_lease ORDER BY 1`.execute(db)).rows.map(
    ({ id }) => id,
  );

it("every process knows who leads", async () => {
  const one = await start("one", 1);
  const two = await start("two", 2);
  const leader = ({ replicas }: typeof one) => replicas.replicas().flatMap(({ id, leads }) => (leads ? [id] : []));
  for (const each of [one, two]) await vi.waitFor(() => expect(leader(each)).toEqual(["one"]), 10_000);
  await one.replicas.close();
  await one.store.close();
  await vi.waitFor(() => expect(leader(two)).toEqual(["two"]), 10_000);
});

it("an administrator removes a process that is gone, at whichever process, but none that runs", async () => {
  const one = await start("one", 1);
  const two = await start("two", 2);
  const three = await start("three", 3);
  await vi.waitFor(() => expect(shown(two.replicas)).toHaveLength(3), 10_000);
  for (const id of ["one", "two", "three"]) {
    await expect(two.replicas.remove(id), id).rejects.toMatchObject({
      code: "ENTITY_CAN_NOT_BE_DELETED",
      cause: { message: `controller ${id} runs: stop it first, then remove it` },
    });
  }
  await expect(two.replicas.remove("four")).rejects.toMatchObject({ code: "NOT_FOUND" });
  await three.replicas.close();
  await three.store.close();
  // As after a crash: one lease that ran out long ago, and one that its process may still count with.
  const crashed = (instance: string, ago: string) =>
    sql`
    INSERT INTO replica_lease (instance, replica_id, name, pid, leads, until, level, version)
    VALUES (${instance}, 'three', 'x', 1, false, now() - ${ago}::interval, 1, 'v')`.execute(one.store.db);
  await crashed("00000000-0000-4000-8000-000000000001", "1 minute");
  await crashed("00000000-0000-4000-8000-000000000002", "5 seconds");
  const { index } = one.replicas;
  await two.replicas.remove("three");
  const rest = ["one tls:localhost:1 true", "two tls:localhost:2 true"];
  expect(shown(two.replicas)).toEqual(rest);
  await vi.waitFor(() => expect(shown(one.replicas)).toEqual(rest), 10_000);
  expect(one.replicas.index).toBeGreaterThan(index);
  expect(forgotten).toEqual(["three"]);
  expect(await leases(one.store)).toEqual(["one", "three", "two"]);
  await expect(two.replicas.remove("three")).rejects.toMatchObject({ code: "NOT_FOUND" });
});

it("a process that was removed while it stood still is a member again when it goes on", async () => {
  const one = await start("one", 1);
  const two = await start("two", 2);
  await vi.waitFor(() => expect(shown(one.replicas)).toHaveLength(2), 10_000);
  const { index } = two.replicas;
  await one.store.transaction(async (trx) => {
    await sql`DELETE FROM replica WHERE id = 'two'`.execute(trx);
    await appendChange(trx, { kind: "replica", key: "two", op: "delete" });
  });
  await vi.waitFor(() => expect(one.replicas.index).toBeGreaterThan(index), 10_000);
  for (const { replicas } of [one, two]) {
    await vi.waitFor(() => expect(shown(replicas)).toContain("two tls:localhost:2 true"), 10_000);
  }
});
