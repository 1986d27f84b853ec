/** A network that takes most requests and breaks others off, as behind a proxy that dislikes something. */
import { afterEach, expect, test } from "vitest";
import {
  answer,
  FakeController,
  refusal,
  session,
} from "../../../operator/src/controller-client/testing/fake-controller.ts";
import { overlayServiceReconciler } from "../../../operator/src/kinds/overlay-service/reconcile.ts";
import type { KindReconciler } from "../../../operator/src/loop/kind-reconciler.ts";
import { kindNamed, startOperator } from "../../../operator/src/testing/start-operator.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

interface Service {
  readonly id: string;
  readonly name: string;
}

test("what always fails is tried ever more rarely, and wakes no resource that is in order", {
  timeout: 60_000,
}, async () => {
  const services: Service[] = [];
  const attempts: number[] = [];
  const list = (data: readonly unknown[]) =>
    answer(data, { pagination: { limit: 500, offset: 0, totalCount: data.length } });
  const server = await FakeController.start(({ method, path, body }) => {
    if (path.startsWith("/authenticate")) return session("t");
    const [, collection, id, part] = new URL(path, "http://fake").pathname.split("/");
    if (collection !== "services" || part !== undefined) return list([]);
    if (method === "GET") return list(services.filter(({ name }) => path.includes(encodeURIComponent(`"${name}"`))));
    const service = { ...(body as { name: string }), id: `s${services.length}` };
    if (service.name === "bad") {
      attempts.push(performance.now());
      return undefined;
    }
    if (id === undefined) services.push(service);
    return answer({ id: service.id });
  });
  closing.push(() => server.close());
  const operator = await startOperator({
    networks: { main: { endpoint: server.url, ca: server.ca } },
    reconcilers: [overlayServiceReconciler] as unknown as KindReconciler[],
  });
  closing.push(() => operator.close());
  const good = Array.from({ length: 10 }, (_each, index) => `good-${index}`);
  for (const name of good) await operator.apply("OverlayService", name);
  for (const name of good) await operator.ready("OverlayService", name);
  await operator.settled();
  const looksAtGood = () => server.log.filter((line) => line.includes("good-") || /services\/s\d/.test(line)).length;
  const before = looksAtGood();

  await operator.apply("OverlayService", "bad");
  await expect.poll(() => attempts.length, { timeout: 30_000 }).toBeGreaterThanOrEqual(11);
  // 5 ms, 10 ms, …: the waits before the eleventh attempt, one of which the recovery has cut short.
  expect((attempts[10] ?? 0) - (attempts[0] ?? 0)).toBeGreaterThan(5 * (2 ** 9 - 1));
  expect(looksAtGood()).toBe(before);
});

test("a status that another client writes while the operator is at work is put right after it", {
  timeout: 60_000,
}, async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  let isHolding = false;
  let service: object = {};
  const server = await FakeController.start(async ({ method, path }) => {
    if (path.startsWith("/authenticate")) return session("t");
    if (method === "POST") return answer({ id: "s1" });
    if (/^\/services\/s1$/.test(path)) {
      if (isHolding) await held;
      return answer({ ...service, id: "s1" });
    }
    if (/^\/services\/\w+$/.test(path)) return refusal(404, "NOT_FOUND");
    return answer([], { pagination: { limit: 500, offset: 0, totalCount: 0 } });
  });
  closing.push(() => server.close());
  const operator = await startOperator({
    networks: { main: { endpoint: server.url, ca: server.ca } },
    reconcilers: [overlayServiceReconciler] as unknown as KindReconciler[],
  });
  closing.push(() => operator.close());
  await operator.apply("OverlayService", "web");
  await operator.ready("OverlayService", "web");
  await operator.settled();
  service = server.asked.find(({ method, path }) => method === "POST" && path === "/services")?.body as object;
  isHolding = true;
  const asked = server.log.length;
  await operator.annotate("OverlayService", "web", { any: "look" });
  await expect.poll(() => server.log.length).toBeGreaterThan(asked);
  const ref = { kind: kindNamed("OverlayService"), namespace: "default", name: "web" };
  operator.server.change(ref, { status: { id: "nonsense" } }, "status");
  isHolding = false;
  release();
  await operator.until("OverlayService", "web", ({ status }) => status.id === "s1");
});
