import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { expect, test } from "vitest";
import { SharedConnections, type SharedPlace, SharedPlaces } from "./shared-places.ts";

/** Places whose holders are named, and who had to give way so far. */
function named(limits: { places: number; perAddress: number }) {
  const places = new SharedPlaces(limits);
  const gone: string[] = [];
  const held = new Map<string, SharedPlace>();
  const take = (name: string, ip: string, weight?: number): boolean => {
    const place = places.take(ip, () => gone.push(name), weight);
    if (place !== undefined) held.set(name, place);
    return place !== undefined;
  };
  return { places, gone, held, take };
}

test("an address that has its share makes room for itself only", () => {
  const { places, gone, take } = named({ places: 10, perAddress: 2 });
  take("other", "192.0.2.1");
  for (let i = 0; i < 5; i++) take(`flood ${i}`, `2001:db8:0:1::${i}`);
  expect(gone).toEqual(["flood 0", "flood 1", "flood 2"]);
  expect([places.taken, places.takenBy("2001:db8:0:1::99"), places.takenBy("::ffff:192.0.2.1")]).toEqual([3, 2, 1]);
});

test("when all places are taken the oldest gives way; who is settled does not", () => {
  const { gone, held, take } = named({ places: 3, perAddress: 3 });
  for (const name of ["a", "b", "c"]) take(name, name);
  held.get("a")?.settle();
  expect([take("d", "d"), take("e", "e")]).toEqual([true, true]);
  expect(gone).toEqual(["b", "c"]);
  for (const name of ["d", "e"]) held.get(name)?.settle();
  expect(take("f", "f")).toBe(false);
  held.get("a")?.release();
  held.get("a")?.release();
  expect([take("g", "g"), take("h", "h")]).toEqual([true, true]);
  expect(gone).toEqual(["b", "c", "g"]);
});

test("lower ranks give way first, and of a rank the one that was raised longest ago", () => {
  const { gone, held, take } = named({ places: 3, perAddress: 3 });
  for (const name of ["a", "b", "c"]) take(name, name);
  for (const name of ["b", "a", "c"]) held.get(name)?.raise(1);
  held.get("b")?.raise(1);
  take("d", "d");
  take("e", "e");
  expect(gone).toEqual(["a", "d"]);
});

test("places have a weight, and no holder gives way without need", () => {
  const { places, gone, held, take } = named({ places: 100, perAddress: 60 });
  expect(take("too large", "a", 61)).toBe(false);
  for (const [name, weight] of [
    ["a1", 30],
    ["a2", 30],
    ["b1", 40],
  ] as const)
    take(name, name.slice(0, 1), weight);
  held.get("b1")?.settle();
  held.get("a2")?.settle();
  expect(take("a3", "a", 31)).toBe(false);
  expect(gone).toEqual([]);
  expect(take("c1", "c", 30)).toBe(true);
  expect([gone, places.taken]).toEqual([["a1"], 100]);
});

test("who gives way may let go of its place at once", () => {
  const places = new SharedPlaces({ places: 1, perAddress: 1 });
  let first: SharedPlace | undefined;
  first = places.take("a", () => first?.release());
  places.take("b", () => {});
  expect([places.taken, places.takenBy("a"), places.takenBy("b")]).toEqual([1, 0, 1]);
});

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
