import { once } from "node:events";
import { createServer, type Server } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ApiCaller } from "./api-caller.ts";
import { otherControllers } from "./other-controllers.ts";

/** A controller that says which one it is. */
interface Controller {
  readonly url: string;
  /** Each request: method, path and session. */
  readonly asked: string[];
  status: number;
  /** Takes requests; 'hangs' answers none, 'drops' ends their connections. */
  way: "answers" | "hangs" | "drops";
  close(): Promise<void>;
}

let authority: TestAuthority;
const closing: (() => Promise<void>)[] = [];

beforeEach(async () => {
  authority = await TestAuthority.create();
});

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function controller(name: string, from = authority): Promise<Controller> {
  const { certPem: cert, keyPem: key } = await from.identity("localhost");
  const server: Server = createServer({ cert, key }, (request, response) => {
    const { method, url, headers } = request;
    one.asked.push(`${method} ${url} ${headers["zt-session"] ?? ""}`.trim());
    if (one.way === "hangs") return;
    if (one.way === "drops") {
      request.socket.destroy();
      return;
    }
    response.writeHead(one.status, { "content-type": "application/json" });
    response.end(JSON.stringify({ data: { name }, meta: {} }));
  });
  server.listen(0, "localhost");
  await once(server, "listening");
  const close = async () => {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  };
  closing.push(close);
  const url = `https://localhost:${(server.address() as AddressInfo).port}`;
  const one: Controller = { url, asked: [], status: 200, way: "answers", close };
  return one;
}

/** Something that takes connections and says nothing, as a process that stands still. */
async function silent(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => void sockets.add(socket.on("error", () => {})));
  server.listen(0, "localhost");
  await once(server, "listening");
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return `https://localhost:${(server.address() as AddressInfo).port}`;
}

function callerOf(first: string, ...others: string[]) {
  const caller = new ApiCaller({ controller: first, others, ca: authority.certPem }, new AbortController().signal);
  const switches: string[] = [];
  caller.onSwitch = (former, next) => switches.push(`${former} ${next}`);
  caller.useSession("t");
  closing.push(async () => caller.close());
  return { caller, switches };
}

const name = async (caller: ApiCaller, method = "GET") =>
  (await caller.json({ method, path: "/x", ...(method === "GET" ? {} : { body: {} }) })).data;

describe("a call of a network with several controllers", () => {
  it("goes to another one when none listens at the first, with the same session, and stays there", async () => {
    const [first, second] = [await controller("c1"), await controller("c2")];
    await first.close();
    const { caller, switches } = callerOf(first.url, first.url, second.url);
    expect(await Promise.all([name(caller), name(caller), name(caller, "POST")])).toEqual(
      Array.from({ length: 3 }, () => ({ name: "c2" })),
    );
    expect(second.asked.toSorted()).toEqual(["GET /x t", "GET /x t", "POST /x t"]);
    expect(switches).toEqual([`${first.url} ${second.url}`]);
    expect(caller.controller).toBe(second.url);
  });

  it("that reads goes to another one when the first hangs or has no database; one that answers slowly keeps it", async () => {
    const [first, second, third] = [await controller("c1"), await controller("c2"), await controller("c3")];
    first.way = "hangs";
    second.status = 503;
    const { caller } = callerOf(first.url, second.url, third.url);
    expect(await name(caller)).toEqual({ name: "c3" });
    expect(first.asked).toEqual(["GET /x t", "GET /version"]);
    second.status = 200;
    third.way = "hangs";
    // There is none left to ask; it may still answer.
    setTimeout(() => third.close(), 100);
    await expect(name(caller)).rejects.toThrow(`cannot reach ${third.url}`);
  }, 30_000);

  it("that writes is not repeated when the first may have done it", async () => {
    const [first, second] = [await controller("c1"), await controller("c2")];
    first.way = "drops";
    const { caller, switches } = callerOf(first.url, second.url);
    await expect(name(caller, "PUT")).rejects.toThrow(`cannot reach ${first.url}`);
    first.way = "answers";
    first.status = 503;
    await expect(name(caller, "PUT")).rejects.toThrow();
    expect([second.asked, switches]).toEqual([[], []]);
  });

  it("that writes goes to another one when no connection to the first is made", async () => {
    const second = await controller("c2");
    const { caller } = callerOf(await silent(), second.url);
    expect(await name(caller, "POST")).toEqual({ name: "c2" });
    expect(second.asked).toEqual(["POST /x t"]);
  }, 30_000);

  it("goes nowhere else when something answers that is not trusted", async () => {
    const impostor = await controller("c1", await TestAuthority.create());
    const second = await controller("c2");
    const { caller } = callerOf(impostor.url, second.url);
    await expect(name(caller)).rejects.toThrow(`cannot reach ${impostor.url}: `);
    expect(second.asked).toEqual([]);
  });
});

describe("the other controllers", () => {
  it("are those that the network names, by their addresses for administrators or else for clients", async () => {
    const said = (data: unknown) => ({ json: async () => ({ data, meta: {} }) }) as unknown as ApiCaller;
    const listed = [
      { apiAddresses: { "edge-client": [{ url: "https://c1:1/edge/client/v1" }] } },
      { apiAddresses: { "edge-client": [{ url: "https://x:1" }], "edge-management": [{ url: "https://c2:2/m" }] } },
      { apiAddresses: { "edge-client": [{ url: "http://c3:3" }, { url: 4 }] } },
      { apiAddresses: null },
    ];
    expect(await otherControllers(said(listed), "https://c1:1")).toEqual({ others: ["https://c2:2"] });
    expect(await otherControllers(said("nonsense"), "https://c1:1")).toEqual({ others: [] });
    const fails = { json: () => Promise.reject(new Error("refused")) } as unknown as ApiCaller;
    expect(await otherControllers(fails, "https://c1:1")).toEqual({});
  });
});
