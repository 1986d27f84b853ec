import { silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
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
    const { isLive: _, ...rest } = testReplica(id, own.port);
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
