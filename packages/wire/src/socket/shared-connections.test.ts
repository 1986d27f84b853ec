import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { expect, test } from "vitest";
import { SharedConnections } from "./shared-connections.ts";

test("the oldest connection is ended for a new one, first of the address that has its share; who closes makes room", async () => {
  let ended = 0;
  const connections = new SharedConnections(4, () => ended++);
  const server = createServer((socket) => {
    connections.add(socket);
    socket.on("error", () => {}).write("hello");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const open = async (localAddress: string) => {
    const socket = connect({ host: "127.0.0.1", port: (server.address() as AddressInfo).port, localAddress });
    socket.on("error", () => {});
    const closed = once(socket, "close");
    await once(socket, "data");
    return { socket, closed };
  };
  try {
    const other = await open("127.0.0.2");
    const first = await open("127.0.0.1");
    const second = await open("127.0.0.1");
    const third = await open("127.0.0.1");
    await first.closed;
    third.socket.destroy();
    await third.closed;
    await expect.poll(async () => (await countOf(server)) <= 2).toBe(true);
    const fourth = await open("127.0.0.1");
    expect([other, second, fourth].map(({ socket }) => socket.readyState)).toEqual(["open", "open", "open"]);
    expect(ended).toBe(1);
    for (const { socket } of [other, second, fourth]) socket.destroy();
  } finally {
    server.close();
  }
});

function countOf(server: ReturnType<typeof createServer>): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  );
}
