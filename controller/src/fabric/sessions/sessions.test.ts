import { Listeners } from "@sallyport/async";
import {
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Message,
  RouterCapability,
  silentLogger,
} from "@sallyport/wire";
import { afterEach, describe, expect, test } from "vitest";
import { ALONE } from "../replicas.ts";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
afterEach(() => net.stop());

interface Chunk {
  readonly state: { id: string; isLast: boolean; sequence: number };
  readonly sessions: readonly edgeCtrlPb.ApiSession[];
}

function chunkOf(message: Message): Chunk {
  const body = decodeControl(edgeCtrlPb.ApiSessionAddedSchema, message.body);
  expect(body.isFullState).toBe(true);
  expect(message.headers.getString(EdgeCtrlHeader.SyncStrategyType)).toBe("instant");
  const state = message.headers.getString(EdgeCtrlHeader.SyncStrategyState) ?? "";
  return { state: JSON.parse(state), sessions: body.apiSessions };
}

async function synchronised(router: ScriptedRouter): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  do chunks.push(chunkOf(await router.next(EdgeCtrlType.ApiSessionAdded)));
  while (chunks.at(-1)?.state.isLast !== true);
  return chunks;
}

describe("full synchronisation", () => {
  test.each([
    [0, [0]],
    [100, [100]],
    [101, [100, 1]],
  ])("a router that reconnects to %i sessions gets chunks of %o, the last one marked", async (count, sizes) => {
    net = await TestFabric.start();
    const sessions = net.model.addApiSessions(count);
    const first = await net.connect("r1");
    await first.hello();
    const before = await synchronised(first);
    first.close();
    const again = await net.connect("r1", { previousConnection: first.channel.connectionId });
    await again.hello();
    const after = await synchronised(again);
    for (const chunks of [before, after]) {
      expect(chunks.map((c) => c.sessions.length)).toEqual(sizes);
      expect(chunks.map((c) => c.state.sequence)).toEqual(sizes.map((_, i) => i));
      expect(chunks.map((c) => c.state.isLast)).toEqual(sizes.map((_, i) => i === sizes.length - 1));
      expect(new Set(chunks.map((c) => c.state.id)).size).toBe(1);
      expect(chunks.flatMap((c) => c.sessions.map((s) => s.id))).toEqual(sessions.map((s) => s.id));
    }
    expect(after[0]!.state.id > before[0]!.state.id).toBe(true);
    await again.roundTrip();
    expect(again.pending(EdgeCtrlType.ApiSessionAdded)).toEqual([]);
  });

  test("nothing is sent before the router's hello; then its addresses are known", async () => {
    net = await TestFabric.start();
    net.model.addApiSessions(1);
    const router = await net.connect("r1");
    await router.roundTrip();
    expect(router.pending(EdgeCtrlType.ApiSessionAdded)).toEqual([]);
    expect(net.fabric.routerState("r1")?.syncStatus).toBe("SYNC_HELLO_WAIT");
    await router.hello(4022);
    await synchronised(router);
    expect(net.fabric.routerState("r1")).toMatchObject({
      syncStatus: "SYNC_DONE",
      hostname: "r1.example",
      supportedProtocols: { tls: "tls://r1.example:4022" },
    });
    await eventually(() => expect(net.model.reports).toMatchObject([{ routerId: "r1", hostname: "r1.example" }]));
  });

  test("a router may ask for it again", async () => {
    net = await TestFabric.start();
    net.model.addApiSessions(3);
    const router = await net.connect("r1");
    await router.hello();
    const [first] = await synchronised(router);
    const body = encodeControl(edgeCtrlPb.RequestClientReSyncSchema, { reason: "lost" });
    router.send(EdgeCtrlType.RequestClientReSync, body);
    const [second] = await synchronised(router);
    expect(second!.state.id > first!.state.id).toBe(true);
    expect(second!.sessions).toHaveLength(3);
  });

  test("a router of OpenZiti gets all of them again when another controller is gone, one of ours does not need them", async () => {
    const gone = new Listeners();
    const replicas = { ...ALONE, onSuccession: (listener: () => void) => gone.add(listener) };
    net = await TestFabric.start({}, silentLogger, { replicas });
    net.model.addApiSessions(3);
    const ours = await net.connect("r1", { generation: 2, capabilities: [RouterCapability.DataModel] });
    const theirs = await net.connect("r2");
    for (const router of [ours, theirs]) {
      await router.hello();
      await synchronised(router);
    }
    gone.emit();
    const [again] = await synchronised(theirs);
    expect(again!.sessions).toHaveLength(3);
    await ours.roundTrip();
    expect(ours.pending(EdgeCtrlType.ApiSessionAdded)).toEqual([]);
  });

  test("the server's hello offers the strategy and the data model", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    const hello = await router.next(EdgeCtrlType.ServerHello);
    expect(decodeControl(edgeCtrlPb.ServerHelloSchema, hello.body).data).toEqual({
      instant: "true",
      routerModel: "true",
    });
    expect(hello.headers.getBool(EdgeCtrlHeader.DataModel)).toBe(true);
  });

  test("a transit router gets no sessions", async () => {
    net = await TestFabric.start();
    net.model.addApiSessions(1);
    await net.enroll("t1", { kind: "transit" });
    const router = await net.connect("t1");
    await net.fabric.announceApiSession(...net.model.apiSessions.values());
    await router.roundTrip();
    expect(router.pending(EdgeCtrlType.ServerHello)).toEqual([]);
    expect(router.pending(EdgeCtrlType.ApiSessionAdded)).toEqual([]);
  });
});

describe("changes", () => {
  async function synced(): Promise<ScriptedRouter> {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    await router.hello();
    await synchronised(router);
    return router;
  }

  test("a session is announced to every edge router before the announcement resolves", async () => {
    const router = await synced();
    const other = await net.connect("r2");
    await other.hello();
    await synchronised(other);
    const [session] = net.model.addApiSessions(1);
    await net.fabric.announceApiSession(session!);
    for (const r of [router, other]) {
      const message = await r.next(EdgeCtrlType.ApiSessionAdded);
      const body = decodeControl(edgeCtrlPb.ApiSessionAddedSchema, message.body);
      expect(body.isFullState).toBe(false);
      expect(body.apiSessions).toMatchObject([
        { id: session!.id, token: session!.token, identityId: "identity", certFingerprints: ["0".repeat(40)] },
      ]);
      expect(message.headers.getString(EdgeCtrlHeader.SyncStrategyType)).toBe("instant");
      expect(message.headers.get(EdgeCtrlHeader.SyncStrategyState)?.length).toBe(0);
    }
  });

  test("the change about an announced session is not passed on again, one of another controller is", async () => {
    const router = await synced();
    const [own, other] = net.model.addApiSessions(2);
    await net.fabric.announceApiSession(own!);
    net.model.emit({ kind: "api-session-added", session: own! });
    net.model.emit({ kind: "api-session-added", session: other! });
    for (const session of [own!, other!]) {
      const message = await router.next(EdgeCtrlType.ApiSessionAdded);
      const body = decodeControl(edgeCtrlPb.ApiSessionAddedSchema, message.body);
      expect(body.apiSessions.map((s) => s.id)).toEqual([session.id]);
    }
    await router.roundTrip();
    expect(router.pending(EdgeCtrlType.ApiSessionAdded)).toEqual([]);
  });

  test("lost changes lead to a full synchronisation", async () => {
    const router = await synced();
    net.model.addApiSessions(2);
    net.model.emit({ kind: "changes-lost" });
    const [chunk] = await synchronised(router);
    expect(chunk!.sessions).toHaveLength(2);
  });

  test("a full synchronisation that failed at its first page is tried again", async () => {
    const router = await synced();
    net.model.addApiSessions(2);
    failOnce("apiSessionsAfter");
    net.model.emit({ kind: "changes-lost" });
    const [chunk] = await synchronised(router);
    expect(chunk!.sessions).toHaveLength(2);
  });

  test("a router that was disabled is disconnected, also when it could not be looked up at first", async () => {
    const router = await synced();
    const record = net.model.routers.get(router.id)!;
    net.model.routers.set(router.id, { ...record, isDisabled: true });
    failOnce("findRouter");
    net.model.emit({ kind: "router-changed", routerId: router.id });
    await router.channel.closed;
  });

  const failOnce = (method: "apiSessionsAfter" | "findRouter") => {
    net.model[method] = async () => {
      // The method of its class again.
      Reflect.deleteProperty(net.model, method);
      throw new Error("the database cannot be used now");
    };
  };

  test("an announcement does not wait for a router that is not there", async () => {
    net = await TestFabric.start();
    await net.fabric.announceApiSession(...net.model.addApiSessions(1));
  });

  test("updates and removals are passed on", async () => {
    const router = await synced();
    const [session] = net.model.addApiSessions(1);
    net.model.emit({ kind: "api-session-updated", session: { ...session!, certFingerprints: ["f".repeat(40)] } });
    const updated = await router.next(EdgeCtrlType.ApiSessionUpdated);
    expect(updated.headers.getString(EdgeCtrlHeader.SyncStrategyType)).toBe("instant");
    expect(decodeControl(edgeCtrlPb.ApiSessionUpdatedSchema, updated.body).apiSessions).toMatchObject([
      { id: session!.id, certFingerprints: ["f".repeat(40)] },
    ]);
    net.model.emit({ kind: "api-session-removed", id: session!.id, token: session!.token });
    const removed = await router.next(EdgeCtrlType.ApiSessionRemoved);
    expect(decodeControl(edgeCtrlPb.ApiSessionRemovedSchema, removed.body)).toMatchObject({
      tokens: [session!.token],
      ids: [session!.id],
    });
    net.model.emit({ kind: "session-removed", id: "s1", token: "st" });
    const session1 = await router.next(EdgeCtrlType.SessionRemoved);
    expect(decodeControl(edgeCtrlPb.SessionRemovedSchema, session1.body)).toMatchObject({
      tokens: ["st"],
      ids: ["s1"],
    });
  });

  test("a heartbeat keeps known sessions alive and returns the unknown ones", async () => {
    const router = await synced();
    const [session] = net.model.addApiSessions(1);
    const body = encodeControl(edgeCtrlPb.ApiSessionHeartbeatSchema, { tokens: [session!.token, "unknown"] });
    router.send(EdgeCtrlType.ApiSessionHeartbeat, body);
    const removed = await router.next(EdgeCtrlType.ApiSessionRemoved);
    expect(decodeControl(edgeCtrlPb.ApiSessionRemovedSchema, removed.body).tokens).toEqual(["unknown"]);
    expect(net.model.touched).toEqual([session!.token]);
  });

  test("a router that asks after its sessions hears of the unknown ones only", async () => {
    const router = await synced();
    net.model.sessions.set("known", { id: "s", type: "Dial", serviceId: "svc", identityId: "i" });
    const ask = (sessionTokens: string[]) =>
      router.send(
        EdgeCtrlType.ValidateSessionsRequest,
        encodeControl(edgeCtrlPb.ValidateSessionsRequestSchema, { sessionTokens }),
      );
    ask(["known"]);
    ask(["known", "gone"]);
    const removed = await router.next(EdgeCtrlType.SessionRemoved);
    expect(decodeControl(edgeCtrlPb.SessionRemovedSchema, removed.body).tokens).toEqual(["gone"]);
    expect(router.pending(EdgeCtrlType.SessionRemoved)).toEqual([]);
  });
});

describe("a session that comes about while a synchronisation runs", () => {
  const record = (id: string) => ({ id, token: `token-${id}`, identityId: "i", certFingerprints: [] });
  const added = (id: string) => {
    net.model.apiSessions.set(id, record(id));
    net.model.emit({ kind: "api-session-added", session: record(id) });
  };

  test("is listed, although its message was sent before the first chunk and its page was read before it", async () => {
    net = await TestFabric.start();
    net.model.addApiSessions(150);
    const page = net.model.apiSessionsAfter.bind(net.model);
    // Its id is below all others: a one-time code completes an old session.
    net.model.apiSessionsAfter = async (afterId, limit) => {
      const sessions = await page(afterId, limit);
      if (afterId === "") added("0");
      return sessions;
    };
    const router = await net.connect("r1");
    await router.hello();
    const message = await router.next(EdgeCtrlType.ApiSessionAdded);
    expect(decodeControl(edgeCtrlPb.ApiSessionAddedSchema, message.body)).toMatchObject({
      isFullState: false,
      apiSessions: [{ id: "0" }],
    });
    const chunks = await synchronised(router);
    expect(chunks.map(({ sessions }) => sessions.length)).toEqual([100, 51]);
    expect(chunks[1]!.sessions.map(({ id }) => id)).toContain("0");
  });

  test("is listed when another controller has announced it, and this one reads of it only now", async () => {
    net = await TestFabric.start();
    net.model.addApiSessions(1);
    net.model.changesRead = async () => added("0");
    const router = await net.connect("r1");
    await router.hello();
    await router.next(EdgeCtrlType.ApiSessionAdded);
    const [chunk] = await synchronised(router);
    expect(chunk!.sessions.map(({ id }) => id)).toContain("0");
  });

  test("is announced again when the router has dropped what was not listed, unless it has ended", async () => {
    net = await TestFabric.start();
    net.model.addApiSessions(1);
    const router = await net.connect("r1");
    await router.hello();
    await synchronised(router);
    added("0");
    added("1");
    net.model.emit({ kind: "api-session-removed", id: "1", token: "token-1" });
    const announced: string[][] = [];
    for (let n = 0; n < 3; n++) {
      const { body } = await router.next(EdgeCtrlType.ApiSessionAdded);
      const { isFullState, apiSessions } = decodeControl(edgeCtrlPb.ApiSessionAddedSchema, body);
      expect(isFullState).toBe(false);
      announced.push(apiSessions.map(({ id }) => id));
    }
    expect(announced).toEqual([["0"], ["1"], ["0"]]);
  });
});

test("a router that asks for all sessions again and again has one synchronisation at a time, and gets the last one whole", async () => {
  net = await TestFabric.start();
  const { model } = net;
  let running = 0;
  let most = 0;
  const page = model.apiSessionsAfter.bind(model);
  model.apiSessionsAfter = async (...args) => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    return page(...args);
  };
  const router = await net.connect("insistent");
  await router.hello();
  for (let n = 0; n < 200; n++) {
    router.send(EdgeCtrlType.RequestClientReSync, encodeControl(edgeCtrlPb.RequestClientReSyncSchema, { reason: "x" }));
  }
  await router.roundTrip();
  await eventually(() => expect(net.fabric.routerState("insistent")?.syncStatus).toBe("SYNC_DONE"));
  expect(most).toBe(1);
});
