import { createPublicKey } from "node:crypto";
import { fingerprint } from "@sallyport/wire";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ChangeSubscriber } from "../../store/changes/change-log.ts";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import { SecretsError } from "../../store/secrets.ts";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import { TEST_LIVES, testKeyOptions } from "./testing/test-tokens.ts";
import { PUBLISH_MS, TokenKeys, type TokenKeysOptions, type TokenStore } from "./token-keys.ts";

const HOUR_MS = 3_600_000;

let test: TestStore;
let options: TokenKeysOptions;
let at: number;
const started: TokenKeys[] = [];
beforeAll(async () => {
  test = await testStore();
  options = await testKeyOptions(test.store, { now: () => new Date(at) });
});
afterAll(() => test.drop());
beforeEach(async () => {
  at = Date.now();
  await test.store.pool.query("DELETE FROM token_key; DELETE FROM change_log");
});
afterEach(() => {
  for (const keys of started.splice(0)) keys.close();
});

async function start(more: Partial<TokenKeysOptions> = {}): Promise<TokenKeys> {
  const keys = new TokenKeys({ ...options, ...more });
  started.push(keys);
  await keys.start();
  return keys;
}
const removed = (kid: string): ChangeRow => ({
  ...{ seq: "1", xid: "1", at: new Date(at), before: null },
  ...{ kind: "token_key", key: kid, op: "delete" },
});
/** A store whose reader is told of removed keys by the test alone. */
function toldByHand() {
  let reader: ChangeSubscriber | undefined;
  const changes = {
    noticed: () => test.store.changes.noticed(),
    subscribe: (subscriber: ChangeSubscriber) => {
      reader = subscriber;
      return () => undefined;
    },
  };
  const transaction: TokenStore["transaction"] = (work) => test.store.transaction(work);
  const store: TokenStore = { db: test.store.db, changes, transaction };
  return { store, tell: async (kid: string) => reader?.onChanges([removed(kid)], "") };
}
const kids = (keys: TokenKeys) => keys.published().map(({ kid }) => kid);
const noticed = () => test.store.changes.caughtUp();
/** Resolves when this reader has loaded what another one wrote. */
async function until(keys: TokenKeys, isSo: () => boolean): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = keys.onChange(() => isSo() && resolve());
  await noticed();
  if (isSo()) resolve();
  await promise;
  stop();
}

it("a new database gets one key, whoever starts first, and every controller signs with it", async () => {
  const both = await Promise.all([start(), start()]);
  const [kid] = kids(both[0]!);
  expect(both.map(kids)).toEqual([[kid], [kid]]);
  expect(both.map((keys) => keys.signer().kid)).toEqual([kid, kid]);
  const [key] = both[0]!.published();
  expect(kid).toBe(fingerprint(key!.certificate));
  expect(key).toMatchObject({ algorithm: "ES256", endsAt: undefined, jwk: { kid, alg: "ES256", use: "sig" } });
  expect(Object.keys(key!.jwk).sort()).toEqual(["alg", "crv", "kid", "kty", "use", "x", "y"]);
  expect(createPublicKey({ key: key!.jwk, format: "jwk" }).equals(key!.certificate.publicKey)).toBe(true);
});

it("has started when its keys are read, also if one is told of meanwhile", async () => {
  const { store, tell } = toldByHand();
  const transaction: TokenStore["transaction"] = async (work) => {
    const result = await store.transaction(work);
    setImmediate(() => tell("another"));
    return result;
  };
  let reads = 0;
  const db = store.db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      const isOfKeys = result.rows.some((row) => "key_box" in row);
      // The second read of the keys takes longer than all else that a start waits for.
      if (isOfKeys && ++reads === 2) for (let n = 0; n < 20; n += 1) await test.store.pool.query("SELECT 1");
      return result;
    },
  });
  const keys = await start({ store: { ...store, db, transaction } });
  expect(kids(keys)).toHaveLength(1);
  expect(keys.signer().kid).toBe(kids(keys)[0]);
});

it("the private key lies sealed, and opens with the network's secret only", async () => {
  const keys = await start();
  const { rows } = await test.store.pool.query("SELECT * FROM token_key");
  expect(JSON.stringify(rows)).not.toContain("PRIVATE KEY");
  expect(rows[0].key_box.includes("PRIVATE")).toBe(false);
  const { secrets } = await testKeyOptions(test.store);
  await expect(start({ secrets })).rejects.toThrow(SecretsError);
  await test.store.pool.query("UPDATE token_key SET kid = $1", ["0".repeat(40)]);
  await expect(start()).rejects.toThrow(SecretsError);
  expect(kids(keys)).toHaveLength(1);
});

describe("rotation", () => {
  it("publishes a key before it signs, and keeps the former one until its last token has ended", async () => {
    const keys = await start();
    const [first = ""] = kids(keys);
    at += TEST_LIVES.keyMs - PUBLISH_MS - HOUR_MS;
    expect(await keys.rotateIfDue()).toBe(false);
    at += HOUR_MS;
    expect(await keys.rotateIfDue()).toBe(true);
    await until(keys, () => kids(keys).length === 2);
    const second = kids(keys).find((kid) => kid !== first) ?? "";
    expect(keys.signer().kid).toBe(first);
    expect(await keys.rotateIfDue()).toBe(false);
    at += PUBLISH_MS - 1;
    expect(keys.signer().kid).toBe(first);
    at += 1;
    expect(keys.signer().kid).toBe(second);
    expect(keys.find(first)?.algorithms).toEqual(["ES256"]);
    at += TEST_LIVES.refreshMs + HOUR_MS - 1;
    expect(keys.find(first)).toBeDefined();
    expect(await keys.sweep()).toBe(0);
    at += 1;
    expect([keys.find(first), kids(keys)]).toEqual([undefined, [second]]);
    expect(await keys.sweep()).toBe(1);
  });

  it("is done once, by whichever controller finds it due", async () => {
    const all = [await start(), await start()];
    at += TEST_LIVES.keyMs;
    expect((await Promise.all(all.map((keys) => keys.rotateIfDue()))).sort()).toEqual([false, true]);
    for (const keys of all) await until(keys, () => kids(keys).length === 2);
  });

  it("by hand begins at once when others may know the key: no former one counts", async () => {
    const [keys, other] = [await start(), await start()];
    const [first = ""] = kids(keys);
    const planned = await keys.rotate({ atOnce: false });
    expect(planned.signsFrom.getTime()).toBe(at + PUBLISH_MS);
    await until(other, () => kids(other).length === 2);
    const { kid, signsFrom } = await keys.rotate({ atOnce: true });
    expect(signsFrom.getTime()).toBe(at);
    for (const each of [keys, other]) {
      await until(each, () => kids(each).includes(kid));
      expect([kids(each), each.find(first), each.signer().kid]).toEqual([[kid], undefined, kid]);
    }
    const { rows } = await test.store.pool.query("SELECT key, op FROM change_log WHERE op = 'delete' ORDER BY seq");
    expect(rows.map(({ key }) => key).sort()).toEqual([first, planned.kid].sort());
  });

  it("a key that is removed counts no more as soon as that is noticed", async () => {
    const keys = await start();
    const [first = ""] = kids(keys);
    await keys.rotate({ atOnce: true });
    await test.store.changes.noticed();
    expect(keys.find(first)).toBeUndefined();
  });

  it("until the new key is read after all were removed, requests are answered 503, and nobody is told of no key", async () => {
    const { store, tell } = toldByHand();
    const keys = await start({ store });
    const [first = ""] = kids(keys);
    const told: number[] = [];
    keys.onChange(() => told.push(kids(keys).length));
    const { kid } = await keys.rotate({ atOnce: true });
    const reading = tell(first);
    expect(kids(keys)).toEqual([]);
    expect(() => keys.signer()).toThrow(expect.objectContaining({ status: 503, headers: { "retry-after": "1" } }));
    expect(() => keys.requirePublished()).toThrow(expect.objectContaining({ status: 503 }));
    await reading;
    expect([told, keys.signer().kid]).toEqual([[1], kid]);
  });
});

it("a network with an RSA key signs RS256", async () => {
  const keys = await start(await testKeyOptions(test.store, { keyType: "rsa" }));
  expect(keys.published()).toMatchObject([{ algorithm: "RS256", jwk: { kty: "RSA", alg: "RS256" } }]);
  expect(keys.find(kids(keys)[0]!)?.algorithms).toEqual(["RS256"]);
});
