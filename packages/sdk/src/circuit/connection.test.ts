import { once } from "node:events";
import { ConnType, EdgeFlag, EdgeHeader, EdgeType, Headers } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadSodium } from "../crypto/load-sodium.ts";
import { dialThrough } from "../dial.ts";
import type { EdgeChannel } from "../edge-channel.ts";
import { Binding, type BindTerms } from "../hosting/binding.ts";
import { everyOrder, TinyRouter } from "../testing/tiny-router.ts";
import { EdgeConnection } from "./connection.ts";

let router: TinyRouter;
let client: EdgeChannel;
let host: EdgeChannel;
const never = new AbortController().signal;

beforeEach(async () => {
  router = await TinyRouter.start();
  client = await router.connect("client");
  host = await router.connect("host");
});

afterEach(() => router.close());

interface HostOptions {
  encrypted?: boolean;
  allowHalfOpen?: boolean;
}

async function serve(onConnection: (connection: EdgeConnection) => void, o: HostOptions = {}): Promise<Binding> {
  const sodium = o.encrypted === false ? undefined : await loadSodium();
  const hosting: BindTerms = {
    service: "svc",
    sessionToken: "svc",
    listenerId: "listener",
    identityName: "host",
    crypto: sodium === undefined ? undefined : { sodium, keys: sodium.createKeyPair() },
  };
  return new Promise((resolve, reject) => {
    const binding: Binding = new Binding(host, hosting, {
      established: () => resolve(binding),
      ended: (text) => reject(new Error(text)),
      dialled: async (dial) => {
        const connection = new EdgeConnection(await dial.accept(), { allowHalfOpen: o.allowHalfOpen ?? true });
        connection.on("error", () => {});
        onConnection(connection);
      },
    });
  });
}

async function dial(o: { encrypted?: boolean; signal?: AbortSignal; appData?: Buffer } = {}): Promise<EdgeConnection> {
  const sodium = o.encrypted === false ? undefined : await loadSodium();
  const messages = await dialThrough(
    client,
    { service: "svc", by: { sessionToken: "svc" }, callerId: "alice", sodium, appData: o.appData },
    o.signal ?? never,
  );
  return new EdgeConnection(messages, { allowHalfOpen: true }).on("error", () => {});
}

async function readAll(connection: EdgeConnection): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of connection.iterator({ destroyOnReturn: false })) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe.each([true, false])("a connection (encrypted: %s)", (encrypted) => {
  it("carries bytes both ways in order, and ends each direction by itself", async () => {
    router.order = everyOrder();
    await serve((connection) => connection.pipe(connection), { encrypted });
    const connection = await dial({ encrypted, appData: Buffer.from("hint") });
    expect([connection.isEncrypted, connection.circuitId]).toEqual([encrypted, "circuit-1"]);
    const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index & 0xff));
    for (let at = 0; at < bytes.length; at += 333) connection.write(bytes.subarray(at, at + 333));
    connection.end();
    expect((await readAll(connection)).equals(bytes)).toBe(true);
    expect([connection.bytesRead, connection.bytesWritten]).toEqual([100_000, 100_000]);
  });

  it("tells the host who dialled and what came along", async () => {
    const accepted = new Promise<EdgeConnection>((resolve) => void serve(resolve, { encrypted }));
    await dial({ encrypted, appData: Buffer.from("hint") });
    const connection = await accepted;
    expect([connection.callerId, connection.remoteAddress, connection.localAddress]).toEqual([
      "alice",
      "alice",
      "host",
    ]);
    expect(connection.appData?.toString()).toBe("hint");
  });

  it("works with a router that takes the host's connection ids", async () => {
    router.isLegacy = true;
    await serve((connection) => connection.end("welcome"), { encrypted });
    expect((await readAll(await dial({ encrypted }))).toString()).toBe("welcome");
  });

  it("sends frames that fill a TLS record behind a link", async () => {
    await serve((connection) => connection.resume(), { encrypted });
    const connection = await dial({ encrypted });
    connection.end(Buffer.alloc(100_000));
    await once(connection, "finish");
    await client.probe();
    const bodies = router.messages(EdgeType.Data).map((message) => message.body.length);
    expect(Math.max(...bodies)).toBe(encrypted ? 16_296 : 16_279);
  });
});

describe("reading", () => {
  it("is given the messages of one turn as one chunk, in order, whatever their size", async () => {
    const bytes = Buffer.from(Array.from({ length: 500_000 }, (_, index) => (index * 7) & 0xff));
    await serve((connection) => {
      for (let at = 0, size = 1; at < bytes.length; at += size, size = (size * 5) % 9_973) {
        connection.write(bytes.subarray(at, at + size));
      }
      connection.end(bytes);
    });
    const connection = await dial();
    const chunks: Buffer[] = [];
    connection.on("data", (chunk: Buffer) => chunks.push(chunk));
    await once(connection, "end");
    expect(Buffer.concat(chunks).equals(Buffer.concat([bytes, bytes]))).toBe(true);
    expect(Math.max(...chunks.map((chunk) => chunk.length))).toBeGreaterThan(16_384);
  });

  it("gives everything that came before the other end closed, then the end", async () => {
    await serve((connection) => {
      connection.write(Buffer.alloc(300_000, 7));
      connection.once("data", () => connection.destroy());
    });
    const connection = await dial();
    connection.write("go");
    expect((await readAll(connection)).length).toBe(300_000);
    if (!connection.closed) await once(connection, "close");
    expect(connection.errored).toBeNull();
  });

  it("takes a stream header together with the first message, and messages of many parts", async () => {
    await serve((connection) => connection.end("x"), { encrypted: false });
    let held: Buffer = Buffer.alloc(0);
    router.tamper = (body, flags) => ({ body: Buffer.concat([held, body]), flags });
    expect((await readAll(await dial({ encrypted: false }))).toString()).toBe("x");
    router.tamper = (body, flags) => ({
      body: body.length === 0 ? body : Buffer.concat([Buffer.of(1, 0), body, Buffer.of(2, 0), Buffer.from("yz")]),
      flags: body.length === 0 ? flags : flags | EdgeFlag.MultipartMessage,
    });
    expect((await readAll(await dial({ encrypted: false }))).toString()).toBe("xyz");
    router.tamper = (body, flags) => {
      if (body.length === 24) {
        held = body;
        return { body: Buffer.alloc(0), flags: 0 };
      }
      const joined = Buffer.concat([held, body]);
      held = Buffer.alloc(0);
      return { body: joined, flags };
    };
    await serve((connection) => connection.end("sealed"));
    const socket = await dial();
    expect((await readAll(socket)).toString()).toBe("sealed");
  });

  it("closes the connection on a message of very many parts, each of which would take many times its bytes", async () => {
    await serve((connection) => connection.write("x"), { encrypted: false });
    router.tamper = () => ({ body: Buffer.alloc(8 * 1024 * 1024), flags: EdgeFlag.MultipartMessage });
    await expect(dial({ encrypted: false }).then(readAll)).rejects.toThrow(/more than 32768 parts/);
  });

  it("closes the connection when a byte was changed on the way", async () => {
    await serve((connection) => connection.write("secret"));
    router.tamper = (body, flags) => {
      if (body.length !== 24 && body.length > 0) body[body.length - 1] = (body.at(-1) ?? 0) ^ 1;
      return { body, flags };
    };
    // The failure may come before the dialer has its hands on the connection.
    await expect(dial().then(readAll)).rejects.toMatchObject({ code: "DECRYPTION_FAILED" });
  });

  it("slows the sender down when the application does not read, and lets the others go on afterwards", async () => {
    const total = 12 * 1024 * 1024;
    await serve((connection) => {
      connection.once("data", (name: Buffer) => {
        if (name.toString() === "much") connection.end(Buffer.alloc(total, 1));
        else connection.end("little");
      });
    });
    const slow = await dial();
    const other = await dial();
    slow.write("much");
    await once(slow, "readable");
    other.write("few");
    const reading = readAll(other);
    // What one connection leaves unread is bounded; when it is read, the data of every connection flows again.
    expect(slow.readableLength).toBeLessThan(5 * 1024 * 1024);
    expect((await readAll(slow)).length).toBe(total);
    expect((await reading).toString()).toBe("little");
  });
});

describe("ending", () => {
  it("fails writes after the other end has closed, with a typed error", async () => {
    await serve((connection) => connection.destroy());
    const connection = await dial();
    await readAll(connection);
    connection.on("error", () => {});
    const error = await new Promise((resolve) => connection.write("late", resolve));
    expect(error).toBeInstanceOf(Error);
  });

  it("closes everything on a router that goes away", async () => {
    await serve(() => {});
    const connection = await dial();
    const failed = once(connection, "error");
    router.dropAll();
    expect((await failed)[0]).toMatchObject({ code: "CONNECTION_CLOSED" });
  });

  it("fails nothing on a connection that both ends have ended, when its router goes away", async () => {
    const accepted = new Promise<EdgeConnection>((resolve) => void serve(resolve));
    const connection = (await dial()).removeAllListeners("error");
    const hosted = await accepted;
    hosted.end(Buffer.alloc(100_000, 3));
    connection.end();
    hosted.resume();
    await once(hosted, "end");
    // Everything has come to the router, and then from there.
    await host.probe();
    await client.probe();
    router.dropAll();
    await client.channel.closed;
    expect(connection.errored).toBeNull();
    expect((await readAll(connection)).length).toBe(100_000);
    if (!connection.closed) await once(connection, "close");
    expect(connection.errored).toBeNull();
  });

  it("fails no write that waits when the context itself closes the router connection", async () => {
    await serve((connection) => connection.pause());
    const connection = (await dial()).removeAllListeners("error");
    const failed: unknown[] = [];
    connection.write(Buffer.alloc(2 * 1024 * 1024), (error) => failed.push(error));
    expect(connection.writableNeedDrain).toBe(true);
    const closed = once(connection, "close");
    client.channel.close();
    expect(await closed).toEqual([false]);
    expect(failed).toEqual([expect.objectContaining({ code: "CONNECTION_CLOSED" })]);
  });

  it("says with its close whether it was a failure, after the error", async () => {
    await serve(() => {});
    const connection = await dial();
    const seen: unknown[] = [];
    connection.on("error", () => seen.push("error")).on("close", (hadError: boolean) => seen.push(hadError));
    router.dropAll();
    await once(connection, "close").catch(() => {});
    await new Promise(setImmediate);
    expect(seen).toEqual(["error", true]);
    expect([connection.readyState, connection.pending, connection.destroyed]).toEqual(["closed", false, true]);
  });

  it("no longer tells of idleness once it is closed", async () => {
    await serve(() => {});
    const connection = await dial();
    connection.setTimeout(5);
    connection.destroy();
    connection.setTimeout(5, () => expect.unreachable());
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(connection.timeout).toBe(5);
  });

  it("says so when nothing happens for a while, without closing", async () => {
    await serve(() => {});
    const connection = await dial();
    const idle = once(connection, "timeout");
    connection.setTimeout(20);
    await idle;
    expect(connection.destroyed).toBe(false);
    connection.destroy();
  });

  it("leaves the close to the end that ended first, so that nothing on its way is lost", async () => {
    const accepted = new Promise<EdgeConnection>((resolve) => void serve(resolve));
    const connection = await dial();
    const hosted = await accepted;
    connection.end("last words");
    expect((await readAll(hosted)).toString()).toBe("last words");
    hosted.end();
    await once(hosted, "close");
    await host.probe();
    expect(router.messages(EdgeType.StateClosed)).toHaveLength(0);
    connection.resume();
    if (!connection.closed) await once(connection, "close");
    await client.probe();
    await host.probe();
    expect(router.messages(EdgeType.StateClosed)).toHaveLength(1);
    expect(host.isTaken(0x8000_0000)).toBe(false);
  });

  it("is an error when the network takes the circuit down before the other end has ended", async () => {
    await serve((connection) => connection.write("half of it"));
    const connection = await dial();
    await once(connection, "readable");
    router.unroute(0);
    const failed = once(connection, "error");
    connection.resume();
    const [error] = await failed;
    expect(error).toMatchObject({ code: "CONNECTION_CLOSED", message: expect.stringContaining("may be missing") });
    expect(connection.readableEnded).toBe(false);
  });

  it("sends exactly FIN, then Close", async () => {
    await serve((connection) => connection.resume(), { encrypted: false });
    const connection = await dial({ encrypted: false });
    connection.end();
    await once(connection, "finish");
    connection.destroy();
    await once(connection, "close");
    await client.probe();
    const [fin] = router.messages(EdgeType.Data);
    const [closed] = router.messages(EdgeType.StateClosed);
    expect([...(fin?.headers.entries() ?? [])].map(([key, value]) => [key, value.toString("hex")])).toEqual([
      [EdgeHeader.ConnId, "01000000"],
      [EdgeHeader.Flags, "01000000"],
    ]);
    expect(fin?.body.length).toBe(0);
    expect(closed?.headers.getU32(EdgeHeader.ConnId)).toBe(1);
  });
});

describe("dialling", () => {
  it("reports the router's words when it is refused", async () => {
    await expect(dial()).rejects.toMatchObject({ code: "DIAL_REFUSED", text: "service has no terminators" });
  });

  it("fails when the service is encrypted and the host gave no key", async () => {
    await serve(() => {}, { encrypted: false });
    await expect(dial()).rejects.toMatchObject({ code: "NO_HOST_KEY" });
  });

  it("is refused by a host whose service is encrypted when it sends no key", async () => {
    await serve(() => {});
    await expect(dial({ encrypted: false })).rejects.toThrow(/requires encryption/);
  });

  it("can be given up; the connection is closed when the router has made it", async () => {
    const hosted = new Promise<EdgeConnection>((resolve) => void serve(resolve));
    const abort = new AbortController();
    const dialling = dial({ signal: abort.signal });
    await router.asked(EdgeType.Connect);
    abort.abort(new Error("changed my mind"));
    await expect(dialling).rejects.toThrow("changed my mind");
    const connection = await hosted;
    connection.resume();
    if (!connection.closed) await once(connection, "close");
    expect(client.isTaken(1)).toBe(false);
  });

  it("fails at once when the router goes away", async () => {
    client.channel.close();
    await expect(dial()).rejects.toMatchObject({ code: "ROUTER_LOST" });
  });
});

describe("a trace route", () => {
  it("measures how long a hop takes, and gives up on one that does not answer", async () => {
    await serve(() => {});
    const connection = await dial();
    const hop = await connection.traceRoute(1);
    expect(hop).toEqual({ type: "xgress/edge", id: "", milliseconds: expect.any(Number) });
    expect(hop.milliseconds).toBeGreaterThan(0);
    await expect(connection.traceRoute(2, { timeoutMs: 20 })).rejects.toThrow("no reply");
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(connection.traceRoute(1, { signal })).rejects.toThrow("enough");
    client.channel.close();
    await expect(connection.traceRoute(1)).rejects.toThrow();
  });
});

describe("questions of a router", () => {
  const ask = async (index: number, type: number, headers: Headers) => {
    const edge = index === 0 ? client : host;
    router.send(index, type, headers);
    // The first answer comes behind the question, the second one behind our answer.
    await edge.probe();
    await edge.probe();
  };

  it("are answered for bindings, connections and unknown ids", async () => {
    await serve(() => {});
    await dial();
    await ask(1, EdgeType.ConnInspectRequest, new Headers().setU32(EdgeHeader.ConnId, 1));
    await ask(0, EdgeType.ConnInspectRequest, new Headers().setU32(EdgeHeader.ConnId, 1));
    await ask(0, EdgeType.ConnInspectRequest, new Headers().setU32(EdgeHeader.ConnId, 77));
    const answers = router.messages(EdgeType.ConnInspectResponse);
    expect(answers.map((answer) => answer.headers.getByte(EdgeHeader.ConnType))).toEqual([
      ConnType.Bind,
      ConnType.Dial,
      ConnType.Invalid,
    ]);
    expect(answers[2]?.body.toString()).toBe("invalid conn id [77]");
  });

  it("end a trace here", async () => {
    const headers = new Headers()
      .setU32(EdgeHeader.ConnId, 5)
      .setU32(EdgeHeader.TraceHopCount, 3)
      .setU64(EdgeHeader.Timestamp, 1n)
      .setU32(EdgeHeader.TraceSourceRequestId, 9);
    await ask(0, EdgeType.TraceRoute, headers);
    const [answer] = router.messages(EdgeType.TraceRouteResponse);
    expect(answer?.headers.getU32(EdgeHeader.TraceHopCount)).toBe(2);
    expect(answer?.headers.getU32(EdgeHeader.TraceSourceRequestId)).toBe(9);
  });
});
