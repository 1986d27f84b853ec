import {
  ControlHeader,
  ControlType,
  ctrlPb,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Message,
  RetryHint,
} from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

const { Success, FailedIdConflict, FailedOther, FailedBusy, FailedInvalidSession } = edgeCtrlPb.CreateTerminatorResult;
const { Required, Failed } = ctrlPb.TerminatorPrecedence;

let net: TestFabric;
let router: ScriptedRouter;
beforeEach(async () => {
  net = await TestFabric.start();
  net.model.addService("svc");
  net.model.sessions.set("bind", { id: "s1", type: "Bind", serviceId: "svc", identityId: "host" });
  net.model.sessions.set("dial", { id: "s2", type: "Dial", serviceId: "svc", identityId: "client" });
  net.model.sessions.set("other", { id: "s3", type: "Bind", serviceId: "svc", identityId: "other-host" });
  router = await net.connect("r1");
});
afterEach(() => net.stop());

async function bind(fields: Parameters<typeof encodeControl<typeof edgeCtrlPb.CreateTerminatorV2RequestSchema>>[1]) {
  const body = encodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, {
    address: "t1",
    sessionToken: "bind",
    apiSessionToken: "api",
    ...fields,
  });
  const answer = await router.request({ contentType: EdgeCtrlType.CreateTerminatorV2Request, body });
  expect(answer.contentType).toBe(EdgeCtrlType.CreateTerminatorV2Response);
  return decodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, answer.body);
}

async function fabricRequest(contentType: number, body: Uint8Array): Promise<[boolean, string]> {
  const answer = await router.request({ contentType, body });
  expect(answer.contentType).toBe(2);
  return [answer.headers.getBool(2) === true, answer.body.toString()];
}

function expectEdgeError(message: Message, code: number): void {
  expect(message.contentType).toBe(EdgeCtrlType.Error);
  expect(message.headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(code);
}

describe("hosting by an SDK", () => {
  test("peer data that would not fit into the answer of a dial is refused", async () => {
    const answer = await bind({ peerData: { 1003: Buffer.alloc(60_000) } });
    expect(answer).toMatchObject({ result: FailedOther, msg: expect.stringContaining("60000 bytes of peer data") });
    expect(net.model.terminators.get("t1")).toBeUndefined();
  });

  test("a terminator is stored under the id the router chose; asking again changes only cost and precedence", async () => {
    const key = Buffer.from("key");
    const answer = await bind({
      peerData: { 1003: key },
      cost: 7,
      precedence: Required,
      instanceId: "i1",
      instanceSecret: key,
    });
    expect(answer).toMatchObject({ terminatorId: "t1", result: Success, msg: "" });
    expect(net.model.terminators.get("t1")).toMatchObject({
      id: "t1",
      address: "t1",
      binding: "edge",
      serviceId: "svc",
      routerId: "r1",
      hostId: "host",
      cost: 7,
      precedence: "required",
      instanceId: "i1",
      instanceSecret: key,
      peerData: new Map([[1003, key]]),
    });
    expect(await bind({ cost: 9 })).toMatchObject({ result: Success });
    expect(net.model.terminators.get("t1")).toMatchObject({ cost: 9, precedence: "default", instanceId: "i1" });
  });

  test.each([
    ["an unknown session", { sessionToken: "unknown" }, FailedInvalidSession],
    ["a dial session", { sessionToken: "dial" }, FailedOther],
    ["no address", { address: " " }, FailedOther],
    ["a cost over the limit", { cost: 65_536 }, FailedOther],
    ["an unknown precedence", { precedence: 9 as ctrlPb.TerminatorPrecedence }, FailedOther],
    ["the id of another router's terminator", { sessionToken: "other", address: "taken" }, FailedIdConflict],
  ])("%s", async (_name, fields, result) => {
    await bind({ address: "taken" });
    expect((await bind(fields)).result).toBe(result);
    expect([...net.model.terminators.keys()]).toEqual(["taken"]);
  });

  test.each([
    ["an unknown session", { sessionToken: "none" }, 3, RetryHint.StartOver],
    ["a session for dials", { sessionToken: "dial" }, 4, RetryHint.StartOver],
    ["a cost out of range", { cost: 65_536 }, 10, RetryHint.NotRetriable],
    ["no address", { address: "" }, 8, RetryHint.NotRetriable],
    ["the id of another's", { sessionToken: "other" }, 8, RetryHint.NotRetriable],
  ])("%s is refused with a code and what to do about it", async (_name, fields, errorCode, retryHint) => {
    expect(await bind({})).toMatchObject({ result: Success, errorCode: 0, retryHint: 0 });
    expect(await bind(fields)).toMatchObject({ errorCode, retryHint });
  });

  test("a failing store makes the router try again later", async () => {
    net.model.storeFailure = new Error("no database");
    expect((await bind({})).result).toBe(FailedBusy);
    expect((await bind({})).result).toBe(Success);
  });

  test("requests keep their order: a removal never overtakes its creation", async () => {
    const all = Array.from({ length: 50 }, (_, i) => `t${i}`);
    const created = all.map((address) => bind({ address }));
    const body = encodeControl(ctrlPb.RemoveTerminatorsRequestSchema, { terminatorIds: [...all, "absent"] });
    expect(await fabricRequest(ControlType.RemoveTerminatorsRequest, body)).toEqual([true, "terminators removed"]);
    await Promise.all(created);
    expect(net.model.terminators.size).toBe(0);
  });

  test("the first version answers with the id", async () => {
    const body = encodeControl(edgeCtrlPb.CreateTerminatorRequestSchema, { sessionToken: "bind" });
    const answer = await router.request({ contentType: EdgeCtrlType.CreateTerminatorRequest, body });
    expect(answer.contentType).toBe(EdgeCtrlType.CreateTerminatorResponse);
    expect(net.model.terminators.get(answer.body.toString())).toMatchObject({ address: "hosted:bind" });
    const refused = encodeControl(edgeCtrlPb.CreateTerminatorRequestSchema, { sessionToken: "dial" });
    expectEdgeError(await router.request({ contentType: EdgeCtrlType.CreateTerminatorRequest, body: refused }), 4);
  });

  test("updates and removals", async () => {
    await bind({ cost: 5 });
    net.model.addTerminator("foreign", "svc", "r2");
    net.model.addTerminator("tunnelled", "svc", "r1", { binding: "tunnel" });
    const update = (fields: object) =>
      router.request({
        contentType: EdgeCtrlType.UpdateTerminatorRequest,
        body: encodeControl(edgeCtrlPb.UpdateTerminatorRequestSchema, {
          sessionToken: "bind",
          terminatorId: "t1",
          ...fields,
        }),
      });
    expect(await update({ cost: 9, updateCost: true, precedence: Failed })).toMatchObject({
      contentType: EdgeCtrlType.UpdateTerminatorResponse,
      body: Buffer.alloc(0),
    });
    expect(net.model.terminators.get("t1")).toMatchObject({ cost: 9, precedence: "default" });
    await update({ precedence: Failed, updatePrecedence: true });
    expect(net.model.terminators.get("t1")).toMatchObject({ cost: 9, precedence: "failed" });
    expectEdgeError(await update({ sessionToken: "dial" }), 4);
    expectEdgeError(await update({ sessionToken: "unknown" }), 3);
    expectEdgeError(await update({ cost: 65_536, updateCost: true }), 10);
    expectEdgeError(await update({ precedence: 7, updatePrecedence: true }), 9);
    for (const terminatorId of ["foreign", "tunnelled", "absent"]) {
      expectEdgeError(await update({ terminatorId }), 8);
      const body = encodeControl(edgeCtrlPb.RemoveTerminatorRequestSchema, { terminatorId });
      expectEdgeError(await router.request({ contentType: EdgeCtrlType.RemoveTerminatorRequest, body }), 8);
    }
    const body = encodeControl(edgeCtrlPb.RemoveTerminatorRequestSchema, { terminatorId: "t1" });
    const removed = await router.request({ contentType: EdgeCtrlType.RemoveTerminatorRequest, body });
    expect(removed.contentType).toBe(EdgeCtrlType.RemoveTerminatorResponse);
    expect(net.model.terminators.has("t1")).toBe(false);
  });
});

describe("terminators of routers", () => {
  test("creation answers with the id, refusals with text", async () => {
    const create = (fields: object) =>
      fabricRequest(
        ControlType.CreateTerminatorRequest,
        encodeControl(ctrlPb.CreateTerminatorRequestSchema, {
          serviceId: "svc",
          binding: "transport",
          address: "tcp:localhost:80",
          ...fields,
        }),
      );
    expect(await create({})).toEqual([false, "tunneling not enabled"]);
    net.model.tunnelSession = { id: "a", token: "t", identityId: "r1" } as never;
    const [ok, id] = await create({ cost: 3 });
    expect(ok).toBe(true);
    const created = { binding: "transport", routerId: "r1", cost: 3, hostId: "r1" };
    expect(net.model.terminators.get(id)).toMatchObject(created);
    expect(await create({ serviceId: "gone" })).toEqual([false, "invalid service"]);
    net.model.denied.add("r1/svc");
    expect(await create({})).toEqual([false, "access denied"]);
    net.model.denied.clear();
    expect((await create({ cost: 70_000 }))[0]).toBe(false);
    expect((await create({ address: "x".repeat(5_000) }))[1]).toMatch(/address has a length of 5000; at most 4096/);
    net.model.storeFailure = new Error("secret detail");
    expect(await create({})).toEqual([false, "internal error"]);
  });

  test("#4237: update and removal are for the owner only", async () => {
    net.model.addTerminator("own", "svc", "r1");
    net.model.addTerminator("foreign", "svc", "r2");
    const update = (fields: object) =>
      fabricRequest(ControlType.UpdateTerminatorRequest, encodeControl(ctrlPb.UpdateTerminatorRequestSchema, fields));
    const remove = (terminatorId: string) =>
      fabricRequest(
        ControlType.RemoveTerminatorRequest,
        encodeControl(ctrlPb.RemoveTerminatorRequestSchema, { terminatorId }),
      );
    expect((await update({ terminatorId: "own", cost: 4, updateCost: true }))[0]).toBe(true);
    expect(net.model.terminators.get("own")?.cost).toBe(4);
    expect((await update({ terminatorId: "own", cost: 5 }))[0]).toBe(true);
    expect(net.model.terminators.get("own")?.cost).toBe(4);
    expect((await update({ terminatorId: "own", cost: 70_000, updateCost: true }))[0]).toBe(false);
    for (const answer of [await update({ terminatorId: "foreign" }), await remove("foreign")]) {
      expect(answer).toEqual([false, "terminator not owned by requesting router"]);
    }
    expect((await update({ terminatorId: "absent" }))[0]).toBe(false);
    expect((await remove("absent"))[0]).toBe(false);
    expect((await remove("own"))[0]).toBe(true);
    const body = encodeControl(ctrlPb.RemoveTerminatorsRequestSchema, { terminatorIds: ["foreign"] });
    expect((await fabricRequest(ControlType.RemoveTerminatorsRequest, body))[0]).toBe(true);
    expect([...net.model.terminators.keys()]).toEqual(["foreign"]);
  });
});

describe("validation", () => {
  const asked = async (of: ScriptedRouter) => {
    const message = await of.next(ControlType.ValidateTerminatorsV2Request);
    return decodeControl(ctrlPb.ValidateTerminatorsV2RequestSchema, message.body);
  };
  const states = (entries: Record<string, object>) =>
    encodeControl(ctrlPb.ValidateTerminatorsV2ResponseSchema, { states: entries });

  test("a connecting router is asked for what it hosts; what it does not know is deleted", async () => {
    for (const id of ["good", "bad", "old", "wrong"]) net.model.addTerminator(id, "svc", "r2", { address: `at-${id}` });
    net.model.addTerminator("elsewhere", "svc", "r1");
    net.model.addTerminator("young", "svc", "r2", { createdAt: new Date(Date.now() + 60_000) });
    const r2 = await net.connect("r2");
    const request = await asked(r2);
    expect(request.fixInvalid).toBe(true);
    expect(request.terminators.map((t) => [t.id, t.binding, t.address]).sort()).toEqual([
      ["bad", "edge", "at-bad"],
      ["good", "edge", "at-good"],
      ["old", "edge", "at-old"],
      ["wrong", "edge", "at-wrong"],
    ]);
    const markers = new Map(request.terminators.map((t) => [t.id, t.marker]));
    const body = states({
      good: { valid: true, marker: markers.get("good") },
      bad: { valid: false, marker: markers.get("bad") },
      old: { valid: false, marker: 0n },
      wrong: { valid: false, marker: 99n },
      elsewhere: { valid: false, marker: 0n },
    });
    r2.send(ControlType.ValidateTerminatorsV2Response, body);
    await eventually(() =>
      expect([...net.model.terminators.keys()].sort()).toEqual(["elsewhere", "good", "wrong", "young"]),
    );
    // What was not answered properly is asked for again, but not at once.
    net.fabric.tick(Date.now(), performance.now());
    await r2.roundTrip();
    expect(r2.pending(ControlType.ValidateTerminatorsV2Request)).toEqual([]);
    net.fabric.tick(Date.now() + 66_000, performance.now());
    const again = await asked(r2);
    expect(again.terminators.map((t) => t.id).sort()).toEqual(["wrong", "young"]);
    // The router says that one is gone which it has created again since.
    await net.model.deleteTerminators("r2", ["wrong"]);
    const create = encodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, {
      address: "wrong",
      sessionToken: "bind",
    });
    await r2.request({ contentType: EdgeCtrlType.CreateTerminatorV2Request, body: create });
    const gone = { valid: false, marker: 0n };
    r2.send(ControlType.ValidateTerminatorsV2Response, states({ wrong: gone, young: gone }));
    await eventually(() => expect([...net.model.terminators.keys()].sort()).toEqual(["elsewhere", "good", "wrong"]));
  });

  test("the router is asked on while what it does not know is deleted, in few statements", async () => {
    for (let i = 0; i < 6_000; i++) net.model.addTerminator(`t${i}`, "svc", "r2");
    const deletions: number[] = [];
    const gate = Promise.withResolvers<void>();
    const deleteUnchanged = net.model.deleteUnchanged.bind(net.model);
    net.model.deleteUnchanged = async (routerId, terminators) => {
      deletions.push(terminators.length);
      await gate.promise;
      return deleteUnchanged(routerId, terminators);
    };
    const r2 = await net.connect("r2");
    const named: string[] = [];
    for (let i = 0; i < 12; i++) {
      const { terminators } = await asked(r2);
      named.push(...terminators.map(({ id }) => id));
      const gone = terminators.map(({ id, marker }) => [id, { valid: false, marker }] as const);
      r2.send(ControlType.ValidateTerminatorsV2Response, states(Object.fromEntries(gone)));
    }
    await r2.roundTrip();
    expect([new Set(named).size, deletions]).toEqual([6_000, [1_000]]);
    // The router creates one again that it has called unknown.
    const last = named.at(-1) ?? "";
    const create = encodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, { address: last, sessionToken: "bind" });
    net.model.terminators.delete(last);
    await r2.request({ contentType: EdgeCtrlType.CreateTerminatorV2Request, body: create });
    gate.resolve();
    await eventually(() => expect([...net.model.terminators.keys()]).toEqual([last]));
    expect(deletions).toEqual([...Array(5).fill(1_000), 999]);
  });

  test("what one answer has named is deleted although the next answer does not come", async () => {
    for (let i = 0; i < 600; i++) net.model.addTerminator(`t${i}`, "svc", "r2");
    const r2 = await net.connect("r2");
    const { terminators } = await asked(r2);
    const gone = terminators.map(({ id, marker }) => [id, { valid: false, marker }] as const);
    r2.send(ControlType.ValidateTerminatorsV2Response, states(Object.fromEntries(gone)));
    await asked(r2);
    net.fabric.tick(Date.now(), performance.now());
    await eventually(() => expect(net.model.terminators.size).toBe(100));
  });

  test("what could not be deleted is asked about again", async () => {
    net.model.addTerminator("bad", "svc", "r2");
    const r2 = await net.connect("r2");
    const first = await asked(r2);
    net.model.storeFailure = new Error("the database is away");
    const gone = { bad: { valid: false, marker: first.terminators[0]?.marker ?? 0n } };
    r2.send(ControlType.ValidateTerminatorsV2Response, states(gone));
    await r2.roundTrip();
    net.model.storeFailure = undefined;
    net.fabric.tick(Date.now() + 66_000, performance.now());
    const { terminators } = await asked(r2);
    expect(terminators.map(({ id }) => id)).toEqual(["bad"]);
    r2.send(ControlType.ValidateTerminatorsV2Response, states({ bad: { valid: false, marker: 0n } }));
    await eventually(() => expect(net.model.terminators.size).toBe(0));
  });
});

test("a flood is answered as busy by one router's own queue", async () => {
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const authorizeBind = net.model.authorizeBind.bind(net.model);
  net.model.authorizeBind = async (claim) => {
    await gate;
    return authorizeBind(claim);
  };
  const body = encodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, { address: "t", sessionToken: "bind" });
  for (let i = 0; i < 10_001; i++) router.send(EdgeCtrlType.CreateTerminatorV2Request, body);
  const busy = await bind({ address: "t" });
  expect(busy.result).toBe(FailedBusy);
  const remove = encodeControl(ctrlPb.RemoveTerminatorsRequestSchema, { terminatorIds: ["t"] });
  const answer = await router.request({ contentType: ControlType.RemoveTerminatorsRequest, body: remove });
  expect(answer.headers.getBool(2)).toBe(false);
  expect(answer.headers.getU32(ControlHeader.RateLimited)).toBe(1);
  expect(answer.body.toString()).toBe("server too busy");
  const other = await net.connect("r2");
  await other.roundTrip();
  open();
});
