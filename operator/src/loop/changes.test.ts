import { expect, test } from "vitest";
import { type Place, ReferenceIndex } from "./changes.ts";

const place = (kind: string, name: string): Place => ({ kind, key: `edge/${name}` });
const [policy, other, web, api] = [
  place("ServicePolicy", "p"),
  place("ServicePolicy", "q"),
  place("OverlayService", "web"),
  place("OverlayService", "api"),
];

test("is asked in both directions, also for what does not exist", () => {
  const index = new ReferenceIndex();
  index.set(policy, [web, api]);
  index.set(other, [web]);
  expect(index.sourcesOf(web)).toEqual([policy, other]);
  expect(index.sourcesOf(api)).toEqual([policy]);
  expect(index.targetsOf(policy)).toEqual([web, api]);
  expect(index.sourcesOf(policy)).toEqual([]);
});

test("forgets what is not referred to any more", () => {
  const index = new ReferenceIndex();
  index.set(policy, [web, api]);
  index.set(policy, [api]);
  expect(index.sourcesOf(web)).toEqual([]);
  expect(index.sourcesOf(api)).toEqual([policy]);
  index.set(policy, []);
  expect(index.targetsOf(policy)).toEqual([]);
  expect(index.sourcesOf(api)).toEqual([]);
});

test("keeps kinds and namespaces apart", () => {
  const index = new ReferenceIndex();
  index.set(policy, [web]);
  expect(index.sourcesOf({ kind: "ServiceConfig", key: "edge/web" })).toEqual([]);
  expect(index.sourcesOf({ kind: "OverlayService", key: "other/web" })).toEqual([]);
});
