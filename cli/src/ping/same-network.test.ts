import { expect, it } from "vitest";
import { isSameNetwork } from "./same-network.ts";

const pem = (...texts: string[]) =>
  texts.map((text) => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`).join("");

it.each([
  ["the same address", "https://a:1280", undefined, "https://a:1280", pem("AA"), true],
  [
    "an authority in common",
    "https://localhost:1280",
    pem("AA\r\nBB"),
    "https://192.0.2.2:1280",
    pem("CC", "AAB\nB"),
    true,
  ],
  ["other authorities", "https://localhost:1280", pem("AA"), "https://192.0.2.2:1280", pem("AB"), false],
  ["no authorities of their own", "https://a.example", undefined, "https://b.example", "", false],
])("networks with %s", (_name, controller, ca, otherController, otherCa, isSame) => {
  expect(isSameNetwork({ controller, ca }, { controller: otherController, ca: otherCa })).toBe(isSame);
});
