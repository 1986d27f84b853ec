import { once } from "node:events";
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from "node:net";
import { connect } from "node:tls";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { Identity } from "../../identity/identity.ts";
import { TestAuthority } from "../../testing/authority.ts";
import { firstBytes } from "../../testing/client-hello.ts";
import { abandonedHandshake, type ClientOptions, costlyChain, outcome } from "../../testing/costly-handshake.ts";
import { RecordingLogger } from "../../testing/recording-logger.ts";
import { TlsPort } from "../tls-port.ts";
import { HandshakeDebts, HandshakeTurns, type TurnTaker } from "./handshake-turns.ts";

const costly = costlyChain();
const refusal = /took too long, none is accepted/;
let authority: TestAuthority;
let identity: Identity;
let ordinary: { certPem: string; keyPem: string };
let now: number;
let turns: HandshakeTurns;
let port: TlsPort;
let log: RecordingLogger;
const opened: { destroy(): void }[] = [];

beforeAll(async () => {
  authority = await TestAuthority.create();
  identity = await authority.identity("rtr");
  ordinary = await authority.issue({ commonName: "client" });
});
beforeEach(async () => {
  now = 0;
  log = new RecordingLogger();
  turns = new HandshakeTurns(new HandshakeDebts(() => now));
  port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity, turns, log });
  port.register({ name: "any", protocols: [], acceptsNoAlpn: true, onSocket: (socket) => void socket.end("welcome") });
});
afterEach(async () => {
  for (const socket of opened.splice(0)) socket.destroy();
  await port.close();
});

const served = (localAddress = "127.0.0.1") => outcome({ port: port.port, localAddress, ...ordinary });
type More = Partial<Pick<ClientOptions, "maxVersion" | "beforeCertificates">>;
const abandon = async (chain: typeof costly, more: More = {}): Promise<Socket> => {
  const socket = await abandonedHandshake({ port: port.port, ...chain, ...more });
  opened.push(socket);
  return socket;
};
/** Waits until the address is charged, which is known when the turn is over. */
const shut = () => expect.poll(() => turns.shutFor("127.0.0.1")).toBeGreaterThan(0);

describe("an address whose handshake was costly", () => {
  test("is refused until time has paid, others are not (the handshake was done)", async () => {
    expect(await served()).toBe("served");
    expect(await outcome({ port: port.port, ...costly })).toBe("served");
    await shut();
    expect(await served()).not.toBe("served");
    expect(log.entries.at(-1)?.fields.reason).toMatch(refusal);
    expect(await served("127.0.0.2")).toBe("served");
    now += turns.shutFor("127.0.0.1");
    expect(await served()).toBe("served");
  });

  test.each([undefined, "TLSv1.2"] as const)(
    "is refused when nothing followed the certificates, too (%s)",
    async (maxVersion) => {
      await abandon(costly, maxVersion === undefined ? {} : { maxVersion });
      await shut();
      expect(await served()).not.toBe("served");
      expect(await served("127.0.0.2")).toBe("served");
    },
  );

  test("costs no more with many handshakes at the same time", async () => {
    const cpu = async (count: number): Promise<number> => {
      const allAreThere = Promise.withResolvers<void>();
      let missing = count;
      const beforeCertificates = (): Promise<void> => {
        if (--missing === 0) allAreThere.resolve();
        return allAreThere.promise;
      };
      const before = process.threadCpuUsage();
      await Promise.all(Array.from({ length: count }, () => abandon(costly, { beforeCertificates })));
      await shut();
      const { user, system } = process.threadCpuUsage(before);
      now += turns.shutFor("127.0.0.1");
      return user + system;
    };
    const alone = await cpu(1);
    expect(await cpu(12)).toBeLessThan(4 * alone);
  });
});

describe("nothing is charged to an address", () => {
  test("for a hundred ordinary clients at the same time", async () => {
    expect(new Set(await Promise.all(Array.from({ length: 100 }, () => served())))).toEqual(new Set(["served"]));
    expect(turns.shutFor("127.0.0.1")).toBe(0);
  });

  test("for clients that refuse the certificate, probe the port, or stay silent behind their ClientHello", async () => {
    for (let i = 0; i < 30; i++) {
      const refusing = connect({
        host: "127.0.0.1",
        port: port.port,
        ...{ cert: ordinary.certPem, key: ordinary.keyPem },
      });
      const [error] = await once(refusing, "error");
      expect((error as NodeJS.ErrnoException).code).toMatch(/CERT|SELF_SIGNED|VERIFY/);
      const probe = connectTcp(port.port, "127.0.0.1");
      await once(probe, "connect");
      probe.destroy();
      opened.push(await silent());
    }
    expect(await served()).toBe("served");
    expect(turns.shutFor("127.0.0.1")).toBe(0);
  });

  test("that would shut it, for some handshakes of ordinary clients that were cut", async () => {
    for (let i = 0; i < 5; i++) (await abandon(ordinary)).destroy();
    expect(await served()).toBe("served");
  });
});

test("certificates right behind the ClientHello are not looked at", async () => {
  const hello = await firstBytes({ maxVersion: "TLSv1.2" });
  const more = Buffer.alloc(4_096);
  more.set([22, 3, 3, (more.length - 5) >> 8, (more.length - 5) & 0xff, 11]);
  const socket = connectTcp(port.port, "127.0.0.1").on("error", () => {});
  socket.resume().write(Buffer.concat([hello, more]));
  await once(socket, "close");
  expect(log.entries.map(({ fields }) => fields.reason)).toContain("not a ClientHello alone");
});

/** A client that has sent its ClientHello and reads what comes. */
async function silent(): Promise<Socket> {
  const socket = connectTcp(port.port, "127.0.0.1").on("error", () => {});
  socket.write(await firstBytes());
  await once(socket, "data");
  return socket.resume();
}

test("of the handshakes of an address that have to wait, the oldest make room", () => {
  const many = new HandshakeTurns();
  const refused: number[] = [];
  const begun: number[] = [];
  const take = (number: number, ip: string) =>
    many.take({ ...still, ip, begin: () => void begun.push(number), refuse: () => void refused.push(number) });
  const taken = Array.from({ length: 256 + 4_096 }, (_, number) => take(number, "192.0.2.1"));
  expect(refused).toEqual([]);
  expect(begun).toHaveLength(256);
  taken.push(take(taken.length, "192.0.2.1"), take(-1, "192.0.2.2"));
  expect(refused).toEqual([256]);
  expect(begun.at(-1)).toBe(-1);
  for (const turn of taken) turn.end();
});

/** A handshake of which nothing comes. */
const still: TurnTaker = { ip: "192.0.2.1", bytesRead: 0, begin() {}, read() {}, stopReading() {}, refuse() {} };

describe("a turn in which nothing comes", () => {
  afterEach(() => void vi.useRealTimers());

  test("ends early when others wait, and lasts as long as something comes", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setImmediate"] });
    const some = new HandshakeTurns();
    const reads: string[] = [];
    let bytesRead = 0;
    const take = (name: string) =>
      some.take({
        ip: still.ip,
        get bytesRead() {
          return bytesRead;
        },
        begin() {},
        read: () => void reads.push(name),
        stopReading() {},
        refuse() {},
      });
    take("first");
    await nextTick();
    // None waits.
    vi.advanceTimersByTime(20);
    expect(reads).toEqual(["first"]);
    take("second");
    await nextTick();
    vi.advanceTimersByTime(4);
    expect(reads.slice(0, 2)).toEqual(["first", "second"]);
    const count = reads.length;
    for (let ms = 0; ms < 20; ms++) {
      bytesRead++;
      vi.advanceTimersByTime(1);
    }
    expect(reads.length).toBe(count);
    vi.advanceTimersByTime(8);
    expect(reads.length).toBeGreaterThan(count);
  });

  test("costs a handshake its place when it began long ago and no other can begin", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setImmediate", "performance"] });
    const many = new HandshakeTurns();
    const refused: number[] = [];
    const begun: number[] = [];
    const take = (number: number) =>
      many.take({ ...still, begin: () => void begun.push(number), refuse: () => void refused.push(number) });
    for (let number = 0; number < 256; number++) take(number);
    await nextTick();
    take(256);
    vi.advanceTimersByTime(900);
    expect(begun).toHaveLength(256);
    vi.advanceTimersByTime(200);
    expect(begun.at(-1)).toBe(256);
    expect(refused).toHaveLength(1);
  });

  test("keeps no ordinary client out, however many such clients its address has", async () => {
    await port.close();
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity, turns, handshakeTimeoutMs: 60_000 });
    port.register({
      name: "any",
      protocols: [],
      acceptsNoAlpn: true,
      onSocket: (socket) => void socket.end("welcome"),
    });
    for (let i = 0; i < 200; i++) opened.push(await silent());
    for (let i = 0; i < 8; i++) expect(await slowlyServed()).toBe("served");
  });
});

test("a handshake that ends well gives back no more than is still owed for it", async () => {
  /** A handshake that costs its address `ms`. */
  const costs = async (ms: number) => {
    let bytesRead = 0;
    const isRead = Promise.withResolvers<void>();
    const used = () => process.threadCpuUsage().user + process.threadCpuUsage().system;
    const turn = turns.take({
      ...{ ip: still.ip, begin() {}, stopReading() {}, refuse() {} },
      get bytesRead() {
        return bytesRead;
      },
      read() {
        const until = used() + (ms + 10) * 1_000;
        while (used() < until) bytesRead = ms * 100;
        isRead.resolve();
      },
    });
    await isRead.promise;
    return turn;
  };
  const first = await costs(40);
  const second = await costs(40);
  now += 800;
  second.end();
  first.end(() => true);
  (await costs(80)).end();
  expect(turns.shutFor(still.ip)).toBe(400);
});

const nextTick = () => new Promise<void>((resolve) => process.nextTick(resolve));

/** The outcome for a client whose second flight leaves when its first turn is over. */
async function slowlyServed(): Promise<string> {
  const hadTurn = Promise.withResolvers<void>();
  const take = turns.take.bind(turns);
  turns.take = (taker) => {
    turns.take = take;
    let isRead = false;
    return take({
      ...{ ip: taker.ip, begin: () => taker.begin(), refuse: (why) => taker.refuse(why) },
      get bytesRead() {
        return taker.bytesRead;
      },
      read() {
        isRead = true;
        taker.read();
      },
      stopReading() {
        if (isRead) hadTurn.resolve();
        taker.stopReading();
      },
    });
  };
  const way = createServer((near) => {
    const far = connectTcp(port.port, "127.0.0.1");
    opened.push(near, far);
    for (const socket of [near, far]) socket.on("error", () => {});
    far.on("data", (bytes: Buffer) => void near.write(bytes)).once("close", () => near.destroy());
    let ready: Promise<void> | undefined;
    near.on("data", async (bytes: Buffer) => {
      await ready;
      ready = hadTurn.promise;
      far.write(bytes);
    });
  }).listen(0, "127.0.0.1");
  await once(way, "listening");
  const result = await outcome({ port: (way.address() as AddressInfo).port, ...ordinary });
  way.close();
  return result;
}

test("an address is shut while it owes too much, and time pays", () => {
  let now = 0;
  const debts = new HandshakeDebts(() => now);
  debts.charge("192.0.2.1", 90);
  expect(debts.shutFor("192.0.2.1")).toBe(0);
  debts.charge("192.0.2.1", 310);
  expect(debts.shutFor("192.0.2.1")).toBe(6_000);
  expect(debts.shutFor("192.0.2.2")).toBe(0);
  now += 2_000;
  expect(debts.shutFor("::ffff:192.0.2.1")).toBe(4_000);
  now += 4_000;
  expect(debts.shutFor("192.0.2.1")).toBe(0);
  debts.charge("192.0.2.1", 1);
  expect(debts.shutFor("192.0.2.1")).toBe(20);
  expect(debts.shutFor("192.0.2.1", 9)).toBe(200);
});

test("who has waited as long as he was told is served, whatever fractions he owed", () => {
  let now = 0;
  const debts = new HandshakeDebts(() => now);
  for (let ms = 100.1; ms < 400; ms += 0.37) {
    debts.charge("192.0.2.1", ms);
    now += debts.shutFor("192.0.2.1");
    expect(debts.shutFor("192.0.2.1")).toBe(0);
    now += 10_000;
  }
});

test("an IPv6 network of 64 bits is one address", () => {
  const debts = new HandshakeDebts(() => 0);
  for (let host = 1; host <= 4; host++) debts.charge(`2001:db8:1:2::${host}`, 50);
  expect(debts.shutFor("2001:db8:1:2:a:b:c:d")).toBe(2_000);
  expect(debts.shutFor("2001:db8:1:3::1")).toBe(0);
});

test("it keeps a bounded number of addresses, those charged last", () => {
  const debts = new HandshakeDebts(() => 0);
  debts.charge("192.0.2.1", 200);
  debts.charge("192.0.2.2", 200);
  debts.charge("192.0.2.1", 1);
  for (let i = 0; i < 4_095; i++) debts.charge(`10.0.${i >> 8}.${i & 255}`, 200);
  expect(debts.shutFor("192.0.2.2")).toBe(0);
  expect(debts.shutFor("192.0.2.1")).toBeGreaterThan(0);
});
