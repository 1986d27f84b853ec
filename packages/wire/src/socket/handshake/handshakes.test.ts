import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterEach, expect, test } from "vitest";
import { TestAuthority } from "../../testing/authority.ts";
import { RecordingLogger } from "../../testing/recording-logger.ts";
import { TlsPort } from "../tls-port.ts";

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
