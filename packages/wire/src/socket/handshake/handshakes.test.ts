import { once } from "node:events";
import { type AddressInfo, connect as connectTcp, createServer, Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterEach, expect, test } from "vitest";
import { TestAuthority } from "../../testing/authority.ts";
import { firstBytes } from "../../testing/client-hello.ts";
import { RecordingLogger } from "../../testing/recording-logger.ts";
import type { SecureSocket } from "../stream-socket.ts";
import { TlsPort } from "../tls-port.ts";
import { HandshakeTurns } from "./handshake-turns.ts";
import { Handshakes } from "./handshakes.ts";

let port: TlsPort | undefined;
const opened: Socket[] = [];
afterEach(async () => {
  for (const socket of opened.splice(0)) socket.destroy();
  await port?.close();
});

test("connections that never do their handshake make room, first those of the address that has its share", async () => {
  const identity = await (await TestAuthority.create()).identity("listener");
  const log = new RecordingLogger();
  port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity, maxHandshakes: 4, log });
  const served: Socket[] = [];
  port.register({
    name: "all",
    protocols: [],
    acceptsNoAlpn: true,
    onSocket: (socket) => {
      served.push(socket);
      socket.write("welcome");
    },
  });
  const at = { host: "127.0.0.1", port: port.port };
  const silent = async (localAddress: string) => {
    const socket = connectTcp({ ...at, localAddress });
    opened.push(socket);
    socket.on("error", () => {}).resume();
    await once(socket, "connect");
    return { socket, closed: once(socket, "close") };
  };
  const greeted = async (localAddress: string) => {
    const options = { ...at, localAddress, rejectUnauthorized: false };
    const socket = connectTls(options);
    opened.push(socket);
    const [bytes] = await once(socket, "data");
    return String(bytes);
  };
  const other = await silent("127.0.0.2");
  const flood = [await silent("127.0.0.1"), await silent("127.0.0.1")];
  expect(await greeted("127.0.0.1")).toBe("welcome");
  await flood[0]?.closed;
  // A connection whose handshake is done has no place any more.
  for (let i = 0; i < 5; i++) expect(await greeted("127.0.0.3")).toBe("welcome");
  for (let i = 0; i < 3; i++) await silent("127.0.0.1");
  await flood[1]?.closed;
  expect(other.socket.readyState).toBe("open");
  expect(served.every((socket) => !socket.destroyed)).toBe(true);
  expect(log.entries.some(({ fields }) => String(fields.reason).startsWith("too many handshakes"))).toBe(true);
});

test("each handshake ends with its connection, though a client came from one port to two addresses", async () => {
  const identity = await (await TestAuthority.create()).identity("listener");
  const counted = new CountedTurns();
  port = await TlsPort.listen({ host: "0.0.0.0", port: 0, identity, turns: counted });
  port.register({ name: "all", protocols: [], acceptsNoAlpn: true, onSocket: (socket) => void socket.end("welcome") });
  const at = { port: port.port, localAddress: "127.0.0.1" };
  const one = connectTcp({ ...at, host: "127.0.0.1" });
  opened.push(one);
  await once(one, "connect");
  const other = connectTcp({ ...at, host: "127.0.0.2", localPort: (one.address() as AddressInfo).port });
  opened.push(other);
  for (const socket of [other, one]) {
    socket.write(await firstBytes());
    await once(socket, "data");
  }
  for (const socket of [other, one]) socket.destroy();
  await expect.poll(() => counted.ended.size).toBe(2);
  expect(counted.taken).toBe(2);
});

test("a connection that its client has reset already is closed, and counts for no address", () => {
  const socket = new Socket();
  expect(new Handshakes(new RecordingLogger()).begin(socket)).toBe(false);
  expect(socket.destroyed).toBe(true);
});

test("a TLS socket that does not tell what is below it is known by its addresses", async () => {
  const handshakes = new Handshakes(new RecordingLogger(), { max: 2 });
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const accept = async (): Promise<Socket> => {
    const client = connectTcp((server.address() as AddressInfo).port, "127.0.0.1").on("error", () => {});
    const [socket] = (await once(server, "connection")) as [Socket];
    opened.push(client, socket);
    expect(handshakes.begin(socket)).toBe(true);
    return socket;
  };
  const first = await accept();
  const { remoteAddress, remotePort, localAddress, localPort } = first;
  const secure = { remoteAddress, remotePort, localAddress, localPort, getPeerX509Certificate: () => undefined };
  handshakes.done(secure as unknown as SecureSocket);
  const second = await accept();
  await accept();
  expect([first.destroyed, second.destroyed]).toEqual([false, true]);
  server.close();
});

class CountedTurns extends HandshakeTurns {
  taken = 0;
  readonly ended = new Set<number>();

  override take(...taker: Parameters<HandshakeTurns["take"]>): ReturnType<HandshakeTurns["take"]> {
    const turn = super.take(...taker);
    const number = this.taken++;
    return {
      end: (isOrdinary) => {
        this.ended.add(number);
        turn.end(isOrdinary);
      },
    };
  }
}
