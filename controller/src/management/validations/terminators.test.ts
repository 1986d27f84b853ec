import {
  ControlType,
  ctrlPb,
  decodeControl,
  encodeControl,
  ManagementType,
  mgmtPb,
  silentLogger,
} from "@sallyport/wire";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";
import { Dispatcher } from "../../events/dispatcher.ts";
import { TestFabric } from "../../fabric/testing/test-fabric.ts";
import { startTestApi, type TestApi } from "../../http/testing/test-api.ts";
import { WholeNetwork } from "../../replicas/whole-network.ts";
import { Management } from "../management.ts";
import { ManagementClient } from "../testing/management-client.ts";

let c: TestController;
let net: TestFabric;
let api: TestApi;
let management: Management;
let admin: ManagementClient;

beforeEach(async () => {
  c = await startTestController();
  net = await TestFabric.start();
  management = new Management({
    controllerId: "ctrl1",
    db: c.ctx.store.db,
    changes: c.ctx.store.changes,
    fabric: net.fabric,
    network: new WholeNetwork(net.fabric),
    model: c.fabricModel,
    replicas: c.replicas,
    dispatcher: new Dispatcher({ sourceId: "ctrl1", log: silentLogger }),
    snapshot: async () => "",
    dataModelProblems: async () => [],
    log: silentLogger,
  });
  api = await startTestApi({ handlers: {}, upgrades: [management] });
});
afterEach(async () => {
  admin.socket.terminate();
  await management.close();
  await api.close();
  await net.stop();
  await c.close();
});

it("a repair deletes what the router does not have, but nothing that it has asked for again since it was asked", async () => {
  const routerId = await c.make("edge-routers", { name: "r" });
  const hostId = await c.make("identities", { name: "host", type: "User", isAdmin: true });
  const serviceId = await c.make("services", { name: "svc", encryptionRequired: false });
  const place = { serviceId, routerId, hostId, binding: "edge", address: "a", instanceId: "" };
  const create = (id: string, cost: number) =>
    c.fabricModel.createTerminator({ ...place, id, cost, precedence: "default", peerData: new Map() });
  for (const id of ["gone", "again"]) await create(id, 1);
  const router = await net.connect(routerId);
  admin = await ManagementClient.connect({ port: api.port, ca: api.authority.certPem, token: "admin" });
  const request = { filter: "true", fixInvalid: true };
  await admin.request({
    contentType: ManagementType.ValidateTerminators,
    body: encodeControl(mgmtPb.ValidateTerminatorsRequestSchema, request),
  });
  const question = await router.next(ControlType.ValidateTerminatorsV2Request);
  await create("again", 2);
  const { terminators } = decodeControl(ctrlPb.ValidateTerminatorsV2RequestSchema, question.body);
  expect(terminators.map(({ id }) => id).sort()).toEqual(["again", "gone"]);
  const invalid = { valid: false, reason: 1, detail: "not there" } as const;
  router.channel.reply(question, {
    contentType: ControlType.ValidateTerminatorsV2Response,
    body: encodeControl(ctrlPb.ValidateTerminatorsV2ResponseSchema, { states: { gone: invalid, again: invalid } }),
  });
  const fixed: Record<string, boolean> = {};
  for (let n = 0; n < 2; n++) {
    const { body } = await admin.nextOf(ManagementType.ValidateTerminators + 2);
    const detail = decodeControl(mgmtPb.TerminatorDetailSchema, body);
    fixed[detail.terminatorId] = detail.fixed;
  }
  expect(fixed).toEqual({ gone: true, again: false });
  expect(await c.fabricModel.findTerminator("gone")).toBeUndefined();
  expect(await c.fabricModel.findTerminator("again")).toMatchObject({ cost: 2 });
});
