import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { connect } from "node:tls";
import { dialChannel, type Identity, TlsPort } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { ReplicaSilentError } from "./called-replica.ts";
import { type Call, CallType, question, REPLICA_ALPN } from "./calls.ts";
import { TestReplicas } from "./testing/test-replicas.ts";

const GREET: Call<{ name: string }, string, number> = {
  name: "greet",
  question: z.object({ name: z.string() }),
  answer: z.string(),
  item: z.number(),
};

let replicas: TestReplicas;
let stops: (() => unknown)[];
beforeEach(async () => {
  replicas = await TestReplicas.create();
  stops = [];
});
afterEach(async () => {
  for (const stop of stops) stop();
  await replicas.close();
});

async function greeting(id: string, items = 0, silentMs?: number) {
  const replica = await replicas.start(id, silentMs);
  replica.calls.serve(GREET, async ({ name }, asker) => ({
    value: `${name} of ${asker.id}, here is ${id}`,
    items: Array.from({ length: items }, (_, n) => n),
  }));
  return replica;
}

describe("a call", () => {
  it("asks every other live replica, and gets lists of any length", async () => {
    const one = await greeting("one");
    await greeting("two", 1_234);
    await greeting("three");
    const { answers, silent } = await one.calls.askAll(GREET, { name: "Ada" });
    expect(silent).toEqual([]);
    expect(answers.map(({ replicaId, value, items }) => [replicaId, value, items.length])).toEqual([
      ["three", "Ada of one, here is three", 0],
      ["two", "Ada of one, here is two", 1_234],
    ]);
    expect(answers[1]?.items).toEqual(Array.from({ length: 1_234 }, (_, n) => n));
  });

  it("goes over one connection that is kept, however many are made at once", async () => {
    const one = await greeting("one");
    const two = await greeting("two");
    let connections = 0;
    const register = vi.spyOn(two.port, "register");
    expect(register).not.toHaveBeenCalled();
    one.calls.onConnected(() => connections++);
    await Promise.all(Array.from({ length: 50 }, () => one.calls.askAll(GREET, { name: "x" })));
    await one.calls.askAll(GREET, { name: "x" });
    expect(connections).toBe(1);
  });

  it("asks nobody when there is nobody, and nothing is listened for then", async () => {
    const one = await greeting("one");
    expect(one.calls.hasOthers).toBe(false);
    expect(await one.calls.askAll(GREET, { name: "x" })).toEqual({ answers: [], silent: [] });
    await expect(dial(one.port.port, one.identity, "two")).rejects.toThrow();
  });

  it("leaves out a replica that is not there, that hangs, or that fails, and names it", async () => {
    const one = await greeting("one", 0, 3_000);
    await greeting("two");
    const failing = await replicas.start("failing");
    failing.calls.serve(GREET, () => Promise.reject(new Error("not now")));
    const old = await replicas.start("old");
    const hanging = await replicas.start("hanging");
    hanging.calls.serve(GREET, () => new Promise(() => {}));
    const odd = await replicas.start("odd");
    odd.calls.serve({ ...GREET, answer: z.any() }, async () => ({ value: 5 as never, items: [] }));
    const sockets: Socket[] = [];
    const mute = createServer((socket) => sockets.push(socket)).listen(0, "127.0.0.1");
    await once(mute, "listening");
    stops.push(() => {
      for (const socket of sockets) socket.destroy();
      mute.close();
    });
    replicas.set({ id: "mute", ctrlAddress: `tls:localhost:${(mute.address() as { port: number }).port}` });
    replicas.set({ id: "nowhere", ctrlAddress: "tls:localhost:1" });
    replicas.set({ id: "ended", ctrlAddress: "tls:localhost:1", isLive: false });
    const { answers, silent } = await one.calls.askAll(GREET, { name: "x" });
    expect(answers.map(({ replicaId }) => replicaId)).toEqual(["two"]);
    expect(silent).toEqual(["failing", "hanging", "mute", "nowhere", "odd", old.id]);
    await expect(one.calls.ask("nowhere", GREET, { name: "x" })).rejects.toThrow(ReplicaSilentError);
    expect(await one.calls.ask("ended", GREET, { name: "x" })).toBeUndefined();
  });

  it("reaches a replica again that was away, or has another certificate or address", async () => {
    const one = await greeting("one");
    const two = await greeting("two");
    const ask = async () => (await one.calls.askAll(GREET, { name: "x" })).answers.map(({ replicaId }) => replicaId);
    expect(await ask()).toEqual(["two"]);
    replicas.set({ id: "two", isLive: false });
    expect(await ask()).toEqual([]);
    replicas.set({ id: "two", isLive: true });
    expect(await ask()).toEqual(["two"]);
    const other = await replicas.authority.identity("two");
    two.port.setIdentity(other);
    replicas.set({ id: "two", fingerprint: other.leafFingerprint });
    await vi.waitFor(async () => expect(await ask()).toEqual(["two"]), { timeout: 10_000 });
  });

  it("goes to the control address, and to that of the API where a replica of an earlier version answers there alone", async () => {
    const one = await greeting("one");
    const old = await greeting("old");
    const ctrl = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: old.identity });
    stops.push(() => ctrl.close());
    ctrl.register({
      name: "ctrl",
      protocols: ["ziti-ctrl"],
      acceptsNoAlpn: false,
      onSocket: (socket) => socket.destroy(),
    });
    replicas.set({ id: "old", ctrlAddress: `tls:localhost:${ctrl.port}` });
    const worker = await greeting("worker");
    // Several workers share the address of the API: another one answers there.
    replicas.set({ id: "worker", apiAddress: `localhost:${old.port.port}` });
    const { answers } = await one.calls.askAll(GREET, { name: "x" });
    expect(answers.map(({ replicaId }) => replicaId)).toEqual(["old", worker.id]);
  });

  it("fails at a replica with the name of another, or a certificate that is not the one known", async () => {
    const one = await greeting("one");
    const two = await greeting("two");
    replicas.set({ id: "two", isLive: false });
    const { leafFingerprint } = await replicas.authority.identity("three");
    const ctrlAddress = `tls:localhost:${two.port.port}`;
    replicas.set({ id: "three", ctrlAddress, fingerprint: two.identity.leafFingerprint });
    replicas.set({ id: "four", ctrlAddress, fingerprint: leafFingerprint });
    expect((await one.calls.askAll(GREET, { name: "x" })).silent).toEqual(["four", "three"]);
  });

  it("of which too many come at once fails", async () => {
    const one = await replicas.start("one");
    const two = await replicas.start("two");
    const release = Promise.withResolvers<void>();
    two.calls.serve(GREET, async () => {
      await release.promise;
      return { value: "late", items: [] };
    });
    const asked = Array.from({ length: 65 }, () => one.calls.askAll(GREET, { name: "x" }));
    expect((await Promise.race(asked)).silent).toEqual(["two"]);
    release.resolve();
    const answered = (await Promise.all(asked)).filter(({ answers }) => answers.length === 1);
    expect(answered).toHaveLength(64);
  });
});

describe("a stranger", () => {
  it("is closed before it can ask, whatever name it gives itself", async () => {
    const one = await greeting("one");
    const two = await replicas.start("two");
    const handler = vi.fn(async () => ({ value: "", items: [] }));
    two.calls.serve(GREET, handler);
    const otherNetwork = await (await TestAuthority.create()).identity("one");
    const strangers: [string, Identity][] = [
      ["another certificate of the network", await replicas.authority.identity("one")],
      ["a certificate of another network", { ...otherNetwork, clientContext: otherNetwork.clientContext }],
    ];
    for (const [, identity] of strangers) {
      await expect(dial(two.port.port, identity, "one", replicas.authority)).rejects.toThrow();
    }
    // A replica's own certificate does not make it another one, and one that ended is none.
    await expect(dial(two.port.port, one.identity, "three")).rejects.toThrow();
    await expect(dial(two.port.port, two.identity, "two")).rejects.toThrow();
    replicas.set({ id: "one", isLive: false });
    await expect(dial(two.port.port, one.identity, "one")).rejects.toThrow();
    replicas.set({ id: "one", isLive: true });
    const channel = await dial(two.port.port, one.identity, "one");
    channel.send(question(1, "greet", { name: "x" }));
    await vi.waitFor(() => expect(handler).toHaveBeenCalledOnce());
    const ended = channel.closed;
    replicas.set({ id: "one", isLive: false });
    await ended;
  });

  it("with hundreds of connections that say nothing keeps no replica out", async () => {
    const one = await greeting("one");
    const two = await greeting("two");
    const odd = await (await TestAuthority.create()).identity("odd");
    const { certPem: cert, keyPem: key } = odd.defaultServerCertificate;
    const silent = Array.from({ length: 200 }, () => {
      const options = { port: two.port.port, ALPNProtocols: [REPLICA_ALPN], cert, key, rejectUnauthorized: false };
      return connect({ host: "127.0.0.1", ...options }).on("error", () => undefined);
    });
    stops.push(() => {
      for (const socket of silent) socket.destroy();
    });
    await Promise.race(silent.map((socket) => once(socket, "secureConnect")));
    expect((await one.calls.askAll(GREET, { name: "x" })).answers).toHaveLength(1);
    // Those that were not displaced are closed when they have said nothing in time.
    await Promise.all(silent.map((socket) => socket.destroyed || once(socket, "close")));
  });

  it("that is a replica and asks for nonsense gets a failure", async () => {
    const one = await greeting("one");
    const two = await greeting("two");
    const channel = await dial(two.port.port, one.identity, "one");
    const answers: (string | undefined)[] = [];
    channel.handle(CallType.Answer, ({ headers }) => void answers.push(headers.getString(1_202)));
    channel.send(question(1, "nothing", {}));
    channel.send(question(2, "greet", { name: 5 }));
    channel.send({ ...question(3, "greet", {}), body: Buffer.from("{") });
    await vi.waitFor(() => expect(answers).toHaveLength(3));
    expect(answers).toEqual(expect.arrayContaining([expect.stringContaining("knows no call nothing")]));
    channel.close();
  });
});

function dial(port: number, identity: Identity, as: string, trusts?: TestAuthority) {
  const of = trusts === undefined ? identity : { ...identity, clientContext: identity.clientContext };
  return dialChannel({
    address: `tls:localhost:${port}`,
    identity: of,
    alpn: REPLICA_ALPN,
    hello: { idToken: as },
    timeoutMs: 3_000,
  });
}
