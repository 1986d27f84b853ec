import { decodeControl, EdgeCtrlType, edgeCtrlPb } from "@sallyport/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AccessQuestion } from "../change-port.ts";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
beforeEach(async () => {
  net = await TestFabric.start();
  net.model.addService("svc");
});
afterEach(() => net.stop());

/** A signed token, as far as the fabric looks at it. */
const SIGNED = ['{"alg":"ES256"}', '{"jti":"s1"}', ""].map((part) => Buffer.from(part).toString("base64url")).join(".");
const HOSTS: AccessQuestion = { identityId: "host", serviceId: "svc", type: "Bind" };
const ends = (token: string, session: AccessQuestion | undefined = HOSTS) =>
  net.model.emit({ kind: "session-removed", id: "s1", token, session });

test("a router of the first generation is told that the session of what it hosts is invalid", async () => {
  const router = await net.connect("r1");
  net.model.addTerminator("t1", "svc", "r1");
  net.model.addTerminator("of another host", "svc", "r1", { hostId: "other" });
  net.model.addTerminator("of a tunneler", "svc", "r1", { binding: "tunnel" });
  ends(SIGNED);
  const message = await router.next(EdgeCtrlType.CreateTerminatorV2Response);
  expect(decodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, message.body)).toMatchObject({
    terminatorId: "t1",
    result: edgeCtrlPb.CreateTerminatorResult.FailedInvalidSession,
    msg: "session ended",
  });
  await eventually(() => expect([...net.model.terminators.keys()]).toEqual(["of another host", "of a tunneler"]));
  await router.roundTrip();
  expect(router.pending(EdgeCtrlType.CreateTerminatorV2Response)).toEqual([]);
});

test("one of the second generation ends it by the session's id, and one that is away when it comes back", async () => {
  const router = await net.connect("r2", { generation: 2 });
  net.model.addTerminator("t1", "svc", "r2");
  net.model.addTerminator("t2", "svc", "away");
  ends(SIGNED);
  await eventually(() => expect(net.model.terminators.size).toBe(0));
  await router.roundTrip();
  expect(router.pending(EdgeCtrlType.CreateTerminatorV2Response)).toEqual([]);
});

test.each<[string, () => void]>([
  ["its token was opaque: routers close what they host under it", () => ends("opaque")],
  ["it was a session to dial", () => ends(SIGNED, { ...HOSTS, type: "Dial" })],
  [
    "its identity has another one to host the service",
    () => {
      net.model.sessions.set("another", { id: "s2", type: "Bind", serviceId: "svc", identityId: "host" });
      ends(SIGNED);
    },
  ],
])("nothing is ended with a session when %s", async (_, end) => {
  const router = await net.connect("r1");
  net.model.addTerminator("t1", "svc", "r1");
  net.model.addTerminator("t2", "other service", "r1");
  end();
  // What ends after it has been looked up after it.
  ends(SIGNED, { ...HOSTS, serviceId: "other service" });
  await router.next(EdgeCtrlType.CreateTerminatorV2Response);
  expect(net.model.terminators.has("t1")).toBe(true);
});

test("what is hosted again while it ends stays", async () => {
  net.model.addTerminator("t1", "svc", "r1");
  net.model.addTerminator("t2", "svc", "r1");
  const find = net.model.hostedWithoutSession.bind(net.model);
  net.model.hostedWithoutSession = async (of) => {
    const found = await find(of);
    await net.model.updateTerminator("t1", { cost: 1 });
    return found;
  };
  ends(SIGNED);
  await eventually(() => expect([...net.model.terminators.keys()]).toEqual(["t1"]));
});

test("what could not be looked up is looked up with the next session that ends", async () => {
  net.model.addTerminator("t1", "svc", "r1");
  net.model.storeFailure = new Error("the database cannot be used now");
  ends(SIGNED);
  await eventually(() => expect(net.model.storeFailure).toBeUndefined());
  expect(net.model.terminators.size).toBe(1);
  ends(SIGNED);
  await eventually(() => expect(net.model.terminators.size).toBe(0));
});
