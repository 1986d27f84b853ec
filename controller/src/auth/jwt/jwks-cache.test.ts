import { silentLogger } from "@sallyport/wire";
import { exportJWK, generateKeyPair, type JWK } from "jose";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { JwksCache } from "./jwks-cache.ts";
import { JwksFetchError } from "./jwks-fetcher.ts";

const URL = "https://idp.example/jwks";
let key: JWK;
beforeAll(async () => {
  key = await exportJWK((await generateKeyPair("ES256", { extractable: true })).publicKey);
});

let now: number;
let fetches: number;
let answer: () => unknown;
let cache: JwksCache;
beforeEach(() => {
  now = 1_000;
  fetches = 0;
  answer = () => ({ keys: [{ ...key, kid: "a" }] });
  cache = new JwksCache(
    async () => {
      fetches += 1;
      return answer();
    },
    silentLogger,
    () => now,
  );
});
const knows = async (kid: string) => (await cache.find(URL, kid)) !== undefined;
const fails = () => {
  throw new JwksFetchError("down");
};

describe("key sets are kept", () => {
  test("for five minutes, and one fetch serves all who wait for it", async () => {
    expect(await Promise.all([knows("a"), knows("a"), knows("b")])).toEqual([true, true, false]);
    expect(fetches).toBe(1);
    now += 299_000;
    expect(await knows("a")).toBe(true);
    expect(fetches).toBe(1);
    now += 1_000;
    expect(await knows("a")).toBe(true);
    expect(fetches).toBe(2);
  });

  test("and fetched for an unknown key id at most once a second", async () => {
    await knows("a");
    expect(await knows("b")).toBe(false);
    expect(fetches).toBe(1);
    now += 1_000;
    answer = () => ({ keys: [{ ...key, kid: "b" }] });
    expect(await knows("b")).toBe(true);
    expect(fetches).toBe(2);
    for (const kid of ["c", "d", "e"]) expect(await knows(kid)).toBe(false);
    expect(fetches).toBe(2);
  });

  test("so that a key that is taken away is not used for longer than that", async () => {
    await knows("a");
    answer = () => ({ keys: [] });
    now += 300_000;
    expect(await knows("a")).toBe(false);
  });

  test("and used on for an hour when they cannot be fetched again, then no longer", async () => {
    await knows("a");
    answer = fails;
    now += 300_000;
    expect(await knows("a")).toBe(true);
    expect(fetches).toBe(2);
    now += 9_000;
    expect(await knows("a")).toBe(true);
    expect(fetches).toBe(2);
    now += 1_000;
    expect(await knows("a")).toBe(true);
    expect(fetches).toBe(3);
    now += 3_290_000;
    expect(await knows("a")).toBe(false);
    answer = () => ({ keys: [{ ...key, kid: "a" }] });
    now += 10_000;
    expect(await knows("a")).toBe(true);
  });

  test.each([[null], [[]], ["text"], [{}], [{ keys: {} }]])("an answer of %j is no key set", async (document) => {
    answer = () => document;
    expect(await knows("a")).toBe(false);
  });

  test("entries of no use are left out: secrets, encryption keys, keys without an id, broken ones", async () => {
    answer = () => ({
      keys: [
        { kty: "oct", k: "c2VjcmV0", kid: "oct" },
        { ...key, kid: "enc", use: "enc" },
        { ...key },
        { ...key, kid: "short", crv: "P-384" },
        { ...key, kid: "hs", alg: "HS256" },
        null,
        7,
        { ...key, kid: "good" },
      ],
    });
    expect(await Promise.all(["oct", "enc", "short", "hs", "good"].map(knows))).toEqual([
      false,
      false,
      false,
      false,
      true,
    ]);
  });
});
