import { afterAll, beforeAll, expect, test } from "vitest";
import type { ApiDependencies } from "../dependencies.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";
import { renderEdgeRouters, renderRouters } from "./router.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

test("a router that enrolls while it is read is shown with its token or with its certificate, never without either", async () => {
  const { db } = c.ctx.store;
  const deps = { ctx: c.ctx, model: c.model, fabric: { routerState: () => undefined } } as unknown as ApiDependencies;
  const id = await c.make("edge-routers", { name: "eu" });
  const stale = await db.selectFrom("router").selectAll().where("id", "=", id).execute();
  expect(await renderEdgeRouters(deps, stale)).toMatchObject([
    { isVerified: false, enrollmentJwt: expect.any(String) },
  ]);
  await db.deleteFrom("enrollment").where("router_id", "=", id).execute();
  await db.updateTable("router").set({ is_verified: true, fingerprint: "ab" }).where("id", "=", id).execute();
  expect(await renderEdgeRouters(deps, stale)).toMatchObject([{ isVerified: true, fingerprint: "ab" }]);
  expect(await renderRouters(deps, stale)).toMatchObject([{ isVerified: true, fingerprint: "ab" }]);
});
