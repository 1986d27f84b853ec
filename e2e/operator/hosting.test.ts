/** Whether a service is hosted: the operator follows what a real controller knows. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestController, type TestController } from "../../controller/src/api/testing/test-controller.ts";
import { startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";

let controller: TestController;
let operator: TestOperator;
beforeAll(async () => {
  controller = await startTestController();
  const { port, pki } = controller;
  const main = { endpoint: `https://localhost:${port}`, ca: pki.caBundlePem };
  operator = await startOperator({ networks: { main } });
});
afterAll(async () => {
  await operator?.close();
  await controller?.close();
});

test("a service shows in a moment that it is hosted, and that it is not any more", async () => {
  await operator.apply("OverlayService", "web", {});
  await operator.apply("OverlayService", "other", {});
  const { status } = await operator.ready("OverlayService", "web");
  await operator.ready("OverlayService", "other");
  await operator.settled();
  expect(status).toMatchObject({ hosted: false, terminators: 0 });
  const router = await controller.make("edge-routers", { name: "r1" });
  const terminator = { service: status.id, router, binding: "edge_transport", address: "hosted:1" };
  const id = await controller.make("terminators", terminator);
  await operator.until("OverlayService", "web", ({ status: { hosted } }) => hosted === true);
  expect((await controller.admin("DELETE", `/terminators/${id}`)).status).toBe(200);
  await operator.until("OverlayService", "web", ({ status: { hosted } }) => hosted === false);
  expect(operator.read("OverlayService", "other")?.status).toMatchObject({ hosted: false });
  expect(await operator.writesOfAnotherLook()).toEqual([]);
});
