import { FINALIZER } from "@sallyport/resources";
import { beforeEach, expect, test } from "vitest";
import { KINDS, keyOf, type ResourceKind } from "../kube/kinds.ts";
import { serverPerTest } from "../kube/testing/server-per-test.ts";
import type { AnyResource } from "./kind-reconciler.ts";
import { ResourceWriter } from "./resource-writer.ts";

const api = serverPerTest();

// The finalizer of any kind is dropped in the same way.
const kind: ResourceKind = KINDS.ConfigMap;
const ref = { kind, namespace: "edge", name: "web" };
const { signal } = new AbortController();

let writer: ResourceWriter<AnyResource>;
beforeEach(async () => {
  writer = new ResourceWriter(api.client, kind);
});
const put = (finalizers: readonly string[]): AnyResource =>
  api.server.put(kind, { apiVersion: "v1", kind: kind.kind, metadata: { name: "web", namespace: "edge", finalizers } });

test("what was let go is known for as long as the watch is behind, and its successor is another one", async () => {
  put([FINALIZER]);
  api.server.remove(ref);
  const deleting = api.server.read(ref) as unknown as AnyResource;
  expect(writer.hasReleased(deleting)).toBe(false);
  await writer.dropFinalizer(deleting, signal);
  expect(api.server.read(ref)).toBeUndefined();
  expect(writer.hasReleased(deleting)).toBe(true);
  expect(writer.hasReleased(put([FINALIZER]))).toBe(false);
  writer.forget(keyOf(deleting));
  expect(writer.hasReleased(deleting)).toBe(false);
});

test("of what is gone already there is nothing to let go", async () => {
  const there = put([]);
  api.server.remove(ref);
  await writer.dropFinalizer(there, signal);
  expect(writer.hasReleased(there)).toBe(true);
});

test("what another client changed meanwhile is not let go", async () => {
  const before = put([FINALIZER]);
  api.server.change(ref, { metadata: { labels: { a: "b" } } });
  await expect(writer.dropFinalizer(before, signal)).rejects.toMatchObject({ status: 409 });
  expect(writer.hasReleased(before)).toBe(false);
});
