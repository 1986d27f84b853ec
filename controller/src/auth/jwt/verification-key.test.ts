import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { forgedRsaKey } from "@sallyport/wire/testing/forged-certificate";
import { expect, test } from "vitest";
import { keysOf } from "./verification-key.ts";

test("a key set is used without the keys with which one check takes as long as a hundred", () => {
  const rsa = (exponentBits: number) =>
    createPublicKey({ key: forgedRsaKey(3_072, exponentBits), format: "der", type: "spki" }).export({ format: "jwk" });
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" });
  const keys = [
    { kid: "usual", ...rsa(24) },
    { kid: "slow", ...rsa(3_000) },
    { kid: "ec", ...ec },
  ];
  expect([...(keysOf({ keys })?.keys() ?? [])]).toEqual(["usual", "ec"]);
});
