import { createHash, randomBytes } from "node:crypto";
import { loadSodium } from "@sallyport/sdk";
import type { OverlayConnection, OverlayHandler, OverlayIncomingDial, OverlayService } from "@sallyport/tunnel";
import { PeerData, RouteErrorCode, silentLogger, xgressDefaults } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { CircuitCreated, TerminatorAnswer } from "../control/control-plane.ts";
import type { TunnelCircuitRequest } from "../control/tunnel/tunnel-circuits.ts";
import type { TunnelIdentity } from "../control/tunnel/tunnel-identity.ts";
import type { TunnelTerminatorRequest } from "../control/tunnel/tunnel-terminators.ts";
import { TestNetwork, type TestRouter } from "../testing/test-network.ts";
import { RouterOverlay, type RouterOverlayOptions } from "./router-overlay.ts";

const MIB = 1024 * 1024;

/** What a router's tunneler asks of the controllers, answered by the test's network. */
class TunnelNetwork {
  readonly created: TunnelTerminatorRequest[] = [];
  readonly removed: string[] = [];
  readonly updates: object[] = [];
  readonly requests: TunnelCircuitRequest[] = [];
  readonly #network: TestNetwork;
  readonly #router: TestRouter;
  #onIdentity: (identity: TunnelIdentity | undefined) => void = () => {};
  #onLost: (id: string, outcome: TerminatorAnswer) => void = () => {};

  constructor(network: TestNetwork, router: TestRouter) {
    this.#network = network;
    this.#router = router;
  }

  onIdentity(listener: (identity: TunnelIdentity | undefined) => void): () => void {
    this.#onIdentity = listener;
    return () => {};
  }

  identity(identity: TunnelIdentity | undefined): void {
    this.#onIdentity(identity);
  }

  createCircuit(request: TunnelCircuitRequest): Promise<CircuitCreated> {
    this.requests.push(request);
    const sessionToken = this.#network.session(request.serviceName, "Dial");
    const { peerData } = request;
    return this.#network.createCircuit(this.#router.id, {
      sessionToken,
      apiSessionToken: "",
      fingerprints: [],
      timeoutMs: 30_000,
      peerData,
    });
  }

  async createTerminator(request: TunnelTerminatorRequest): Promise<TerminatorAnswer> {
    this.created.push(request);
    this.#network.addTerminator({
      ...{ service: request.serviceName, routerId: this.#router.id, binding: "tunnel", address: request.address },
    });
    return { terminatorId: request.address, result: 0, message: "" };
  }

  async updateTerminator(id: string, update: object): Promise<void> {
    this.updates.push({ id, ...update });
  }

  removeTerminators(ids: readonly string[]): void {
    this.removed.push(...ids);
  }

  healthEvent(id: string, passed: boolean): void {
    this.updates.push({ id, passed });
  }

  onTerminatorLost(listener: (id: string, outcome: TerminatorAnswer) => void): () => void {
    this.#onLost = listener;
    return () => {};
  }

  lose(id: string): void {
    this.#onLost(id, { terminatorId: id, result: 1, message: "conflict" });
  }
}

/** Collects what arrives; can refuse to take it. */
class Received implements OverlayHandler {
  readonly hash = createHash("sha256");
  readonly messages: Buffer[] = [];
  bytes = 0;
  isBlocked = false;
  refusals = 0;
  readonly ended = Promise.withResolvers<void>();
  readonly over = Promise.withResolvers<Error | undefined>();
  writable: () => void = () => {};

  data(buffer: Buffer, start: number, end: number): boolean {
    if (this.isBlocked) {
      this.refusals++;
      return false;
    }
    this.hash.update(buffer.subarray(start, end));
    this.bytes += end - start;
    if (end - start < 100) this.messages.push(Buffer.from(buffer.subarray(start, end)));
    return true;
  }

  endOfData(): void {
    this.ended.resolve();
  }

  closed(error?: Error): void {
    this.over.resolve(error);
  }
}

describe.each([true, false])("the overlay of routers (end-to-end encryption: %s)", (isEncrypted) => {
  let network: TestNetwork;
  let a: { router: TestRouter; overlay: RouterOverlay; control: TunnelNetwork };
  let b: typeof a;
  const service: OverlayService = {
    ...{ id: "s1", name: "svc", canDial: true, canBind: true, isEncrypted, configs: new Map() },
  };

  const start = async (id: string, more: Partial<RouterOverlayOptions> = {}): Promise<typeof a> => {
    const router = await network.addRouter(id);
    const control = new TunnelNetwork(network, router);
    const settings = { xgress: xgressDefaults, mtu: 0 };
    const overlay = new RouterOverlay({
      ...{ routerId: id, control, forwarder: router.forwarder, secret: id, log: silentLogger },
      ...{ sodium: await loadSodium(), dialed: settings, hosted: settings },
      ...more,
    });
    router.forwarder.registerEgress("tunnel", overlay.egress);
    return { router, overlay, control };
  };

  /** Hosts the service at b. */
  const host = (onDial: (dial: OverlayIncomingDial) => Promise<void>) =>
    b.overlay.host(service, { index: 0, cost: 3, precedence: "default", onDial });

  /** A circuit, and both of its ends. */
  const joined = async (kind: "stream" | "datagrams" = "stream") => {
    const accepted = Promise.withResolvers<OverlayConnection>();
    await host(async (dial) => accepted.resolve(await dial.accept({ kind })));
    const dialed = await a.overlay.dial(service, { kind, appData: {}, timeoutMs: 5000 });
    const ends = { dialed, hosted: await accepted.promise, atDialed: new Received(), atHosted: new Received() };
    ends.dialed.start(ends.atDialed);
    ends.hosted.start(ends.atHosted);
    return ends;
  };

  const send = async (connection: OverlayConnection, received: Received, bytes: Buffer): Promise<void> => {
    for (let at = 0; at < bytes.length; at += 100_000) {
      const room = Promise.withResolvers<void>();
      received.writable = room.resolve;
      if (!connection.write(bytes, at, Math.min(bytes.length, at + 100_000))) await room.promise;
    }
    connection.endWriting();
  };

  beforeEach(async () => {
    network = await TestNetwork.create();
    a = await start("rA");
    b = await start("rB");
    await network.link(a.router, b.router);
  });

  afterEach(async () => {
    await a.overlay.close();
    await b.overlay.close();
    await network.close();
  });

  it("carries bytes both ways, each direction ending on its own", async () => {
    const { dialed, hosted, atDialed, atHosted } = await joined();
    const up = randomBytes(5 * MIB);
    const down = randomBytes(3 * MIB);
    await send(dialed, atDialed, up);
    await atHosted.ended.promise;
    expect(atHosted.hash.digest("hex")).toBe(createHash("sha256").update(up).digest("hex"));
    await send(hosted, atHosted, down);
    await atDialed.ended.promise;
    expect(atDialed.hash.digest("hex")).toBe(createHash("sha256").update(down).digest("hex"));
    expect(await atDialed.over.promise).toBeUndefined();
    expect(await atHosted.over.promise).toBeUndefined();
    expect([a.overlay.counts.connections, b.overlay.counts.connections]).toEqual([0, 0]);
  });

  it("gives again what found no room, in order, and the end behind it", async () => {
    const { dialed, hosted, atDialed, atHosted } = await joined();
    atHosted.isBlocked = true;
    const up = randomBytes(2 * MIB);
    const sent = send(dialed, atDialed, up);
    while (atHosted.refusals === 0) await new Promise(setImmediate);
    expect(atHosted.bytes).toBe(0);
    atHosted.isBlocked = false;
    hosted.resume();
    await sent;
    await atHosted.ended.promise;
    expect(atHosted.hash.digest("hex")).toBe(createHash("sha256").update(up).digest("hex"));
    hosted.close();
    // Closed here is over there.
    await atDialed.over.promise;
  });

  it("keeps datagrams apart, the largest included", async () => {
    const { dialed, hosted, atDialed, atHosted } = await joined("datagrams");
    for (const text of ["one", "", "three"]) dialed.write(Buffer.from(text), 0, text.length);
    const largest = randomBytes(dialed.maxMessage);
    dialed.write(largest, 0, largest.length);
    while (atHosted.bytes < 8 + largest.length) await new Promise(setImmediate);
    expect(atHosted.messages.map(String).filter((text) => text !== "")).toEqual(["one", "three"]);
    hosted.write(Buffer.from("back"), 0, 4);
    while (atDialed.bytes < 4) await new Promise(setImmediate);
    dialed.close();
    await atHosted.over.promise;
  });

  it("tells the host what the dialer gave along, and the network the addresses", async () => {
    const seen = Promise.withResolvers<OverlayIncomingDial>();
    await host(async (dial) => {
      seen.resolve(dial);
      await dial.accept({ kind: "stream", localAddress: "10.0.0.1:1", remoteAddress: "10.0.0.2:2" });
    });
    const appData = { dst_port: "80" };
    const addresses = { localAddress: "127.0.0.1:5", remoteAddress: "127.0.0.1:6" };
    const connection = await a.overlay.dial(service, { kind: "stream", appData, timeoutMs: 5000, ...addresses });
    expect((await seen.promise).appData?.toString()).toBe('{"dst_port":"80"}');
    const [request] = a.control.requests;
    expect(request?.peerData.get(PeerData.InitiatorLocalAddress)?.toString()).toBe("127.0.0.1:5");
    expect(request?.peerData.get(PeerData.InitiatorRemoteAddress)?.toString()).toBe("127.0.0.1:6");
    expect(request?.peerData.get(PeerData.PublicKey)?.length).toBe(isEncrypted ? 32 : undefined);
    connection.close();
  });

  it("fails a dial with the host's words and the network's code", async () => {
    await host(async (dial) => {
      dial.reject("nobody answers", Object.assign(new Error("connect"), { code: "ECONNREFUSED" }));
    });
    const route = (destination: string, peerData: Record<number, Buffer> = {}) =>
      b.router.forwarder.route(
        {
          ...{ circuitId: "c1", attempt: 0, forwards: [], tags: {}, timeout: 500_000_000n },
          egress: { binding: "tunnel", address: "x1", destination, peerData },
        },
        "ctrl",
      );
    const key = isEncrypted ? { [PeerData.PublicKey]: Buffer.alloc(32, 9) } : {};
    const id = b.control.created[0]?.address ?? "";
    expect(await route(id, key)).toMatchObject({
      errorCode: RouteErrorCode.ConnectionRefused,
      error: "nobody answers",
    });
    expect(await route("unknown", key)).toMatchObject({ errorCode: RouteErrorCode.InvalidTerminator });
    expect(await route(id, { [PeerData.PublicKey]: Buffer.alloc(5) })).toMatchObject({ ok: false });
    if (isEncrypted) expect(await route(id)).toMatchObject({ error: expect.stringContaining("sent no key") });
    await host(() => new Promise(() => {}));
    const silent = b.control.created[1]?.address ?? "";
    expect(await route(silent, key)).toMatchObject({ errorCode: RouteErrorCode.DialTimedOut });
  });

  it("gives a circuit back whose client has left", async () => {
    const abort = new AbortController();
    await host(async (dial) => {
      abort.abort(new Error("the client left"));
      await dial.accept({ kind: "stream" });
    });
    const dial = a.overlay.dial(service, { kind: "stream", appData: {}, timeoutMs: 5000, signal: abort.signal });
    await expect(dial).rejects.toThrow("the client left");
    expect(network.faults.map(({ subject }) => subject)).toContain(0);
  });

  it("keeps terminators under ids of its own, and takes another one when that belongs to another host", async () => {
    const terminator = await host(async (dial) => dial.reject("no"));
    const [first] = b.control.created;
    expect(first).toMatchObject({ serviceId: "s1", serviceName: "svc", cost: 3, precedence: 0 });
    expect(first?.address).toMatch(/^[0-9A-Za-z]{22}$/);
    b.control.lose(first?.address ?? "");
    const [, second] = b.control.created;
    expect(second?.address).not.toBe(first?.address);
    expect(await b.overlay.hasTerminator(second?.address ?? "")).toBe(true);
    await terminator.update({ cost: 9, precedence: "failed" });
    terminator.healthEvent(false);
    const id = second?.address;
    expect(b.control.updates).toEqual([
      { id, cost: 9, precedence: 2 },
      { id, passed: false },
    ]);
    await terminator.close();
    expect(b.control.removed).toEqual([id]);
    // The same router and service: the same id as before, as after a restart.
    const again = await start("rC", { secret: "rB" });
    await again.overlay.host(service, { index: 0, cost: 3, precedence: "default", onDial: async () => {} });
    expect(again.control.created[0]?.address).toBe(first?.address);
    await again.overlay.close();
  });

  it("answers whether a terminator is here only when the services are known", async () => {
    const late = await start("rC", { settleMs: 20 });
    let answer: boolean | undefined;
    const asked = late.overlay.hasTerminator("t9").then((is) => {
      answer = is;
    });
    await new Promise(setImmediate);
    expect(answer).toBeUndefined();
    late.overlay.onServices(() => {});
    late.control.identity(undefined);
    await asked;
    expect(answer).toBe(false);
    await late.overlay.close();
  });
});
