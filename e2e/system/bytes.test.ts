import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { loadRouterConfig } from "@sallyport/router-config";
import { Context, type EdgeConnection, type ServiceListener } from "@sallyport/sdk";
import { silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Router, startRouter } from "../../router/src/router.ts";
import { exchange, pseudoRandom, receive, sendPseudoRandom } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
/** Idle circuits are looked for this often, so that the test sees what becomes of one. */
const IDLE_MS = 1_000;

/** What the host does with a connection is asked for with the bytes that come along with the dial. */
type Behaviour = "echo" | "host-first" | "flood" | "silent" | "drain" | "hang-up";

const folder = makeScratch("bytes");
let network: Network;
const services = new Map<string, DeclaredService>();
const contexts: Context[] = [];
/** Connections that hosts hold, by what they were asked to do. */
const hosted = new Map<EdgeConnection, Behaviour>();

const service = (name: string): DeclaredService => services.get(name) ?? expect.fail(`no service ${name}`);

async function load(file: string): Promise<Context> {
  const context = await Context.load(file);
  contexts.push(context);
  return context;
}

async function host(name: string): Promise<{ context: Context; server: ServiceListener }> {
  const context = await load(service(name).hostFile);
  const server = await context.listen(name, { allowHalfOpen: true });
  server.on("connection", (connection) => {
    const behaviour = connection.appData?.toString() as Behaviour;
    hosted.set(connection, behaviour);
    connection.once("close", () => hosted.delete(connection));
    connection.on("error", () => {});
    serve(connection, behaviour);
  });
  return { context, server };
}

function serve(connection: EdgeConnection, behaviour: Behaviour): void {
  switch (behaviour) {
    case "echo":
      connection.pipe(connection);
      break;
    case "host-first":
      void sendPseudoRandom(connection, 7, 32 * MIB);
      break;
    case "flood":
      void (async () => {
        for (const chunk of pseudoRandom(3, 64 * MIB)) {
          if (!connection.write(chunk)) await once(connection, "drain");
        }
        connection.end();
      })().catch(() => {});
      break;
    case "silent":
      break;
    case "drain":
      connection.resume();
      connection.once("end", () => connection.end());
      break;
    case "hang-up":
      connection.end("goodbye");
      connection.once("finish", () => connection.destroy());
      break;
  }
}

const dial = (context: Context, name: string, behaviour: Behaviour, signal?: AbortSignal): Promise<EdgeConnection> =>
  context.dial(name, {
    appData: Buffer.from(behaviour),
    allowHalfOpen: true,
    ...(signal === undefined ? {} : { signal }),
  });

/** The host's end of a connection, once it is there. */
const hostEnd = (behaviour: Behaviour): Promise<EdgeConnection> =>
  eventually(`a hosted connection that is ${behaviour}`, () =>
    [...hosted].find(([, asked]) => asked === behaviour)?.at(0),
  ) as Promise<EdgeConnection>;

let idle: EdgeConnection;
let idleSince: number;

beforeAll(async () => {
  network = await startNetwork(folder, {
    logLevel: "debug",
    routerLines: `forwarder:\n  idleTxInterval: ${IDLE_MS}\n  idleCircuitTimeout: ${IDLE_MS}\n`,
  });
  for (const [name, isEncrypted] of [
    ["secret", true],
    ["plain", false],
    ["web", true],
    ["nobody", true],
    ["churn", true],
    ["slow", true],
  ] as const) {
    services.set(name, await declareService(network, { name, isEncrypted }));
  }
  await host("secret");
  await host("plain");
  idle = await dial(await load(service("secret").clientFile), "secret", "echo");
  idleSince = performance.now();
}, 120_000);

afterAll(async () => {
  for (const context of contexts) await context.close();
  await network?.stop();
  removeScratch(folder);
});

describe.each([
  { name: "secret", words: "encrypted end to end" },
  { name: "plain", words: "without end-to-end encryption" },
])("bytes over both routers, $words", ({ name }) => {
  let client: Context;
  beforeAll(async () => {
    client = await load(service(name).clientFile);
  });

  it("32 MiB there and back at once; the dialer ends first", async () => {
    const socket = await dial(client, name, "echo");
    expect(socket.isEncrypted).toBe(name === "secret");
    await exchange(socket, 1, 32 * MIB);
  });

  it("32 MiB from the host, which ends first, then 32 MiB from the dialer", async () => {
    const socket = await dial(client, name, "host-first");
    const end = await hostEnd("host-first");
    expect((await receive(socket)).length).toBe(32 * MIB);
    expect(socket.writable).toBe(true);
    const [sent, received] = await Promise.all([sendPseudoRandom(socket, 2, 32 * MIB), receive(end)]);
    expect(received).toEqual({ length: 32 * MIB, sha256: sent });
    await Promise.all([socket, end].map((each) => each.destroyed || once(each, "close")));
  });

  it("50 circuits at once", async () => {
    await Promise.all(
      Array.from({ length: 50 }, async (_, i) => exchange(await dial(client, name, "echo"), i, 256 * KIB + i)),
    );
  });
});

describe("node:http over the overlay", () => {
  it("pages and uploads, through an agent that keeps connections", async () => {
    const context = await load(service("web").hostFile);
    const listener = await context.listen("web", { allowHalfOpen: true });
    let connections = 0;
    const server = createServer(async (incoming, answer) => {
      const body = await text(incoming);
      answer.end(`${incoming.method} ${incoming.url} ${body.length}`);
    });
    listener.on("connection", (connection) => {
      connections++;
      server.emit("connection", connection);
    });
    const client = await load(service("web").clientFile);
    const agent = client.httpAgent({ maxSockets: 4 });
    const fetchText = async (path: string, body?: string): Promise<string> => {
      const call = request(`http://web${path}`, { agent, method: body === undefined ? "GET" : "POST" });
      call.end(body);
      const [response] = await once(call, "response");
      return await text(response);
    };
    for (let i = 0; i < 10; i++) expect(await fetchText(`/${i}`)).toBe(`GET /${i} 0`);
    expect(connections).toBe(1);
    expect(await fetchText("/upload", "x".repeat(MIB))).toBe(`POST /upload ${MIB}`);
    await Promise.all(
      Array.from({ length: 40 }, async (_, i) => expect(await fetchText(`/p${i}`)).toBe(`GET /p${i} 0`)),
    );
    expect(connections).toBeLessThanOrEqual(5);
    const nowhere = request("http://no-such-service/", { agent }).end();
    expect((await once(nowhere, "error"))[0]).toMatchObject({ code: "SERVICE_NOT_AVAILABLE" });
    agent.destroy();
    await listener.close();
    server.close();
  });
});

describe("dials that cannot succeed", () => {
  let client: Context;
  beforeAll(async () => {
    client = await load(service("secret").clientFile);
  });

  it("a service that does not exist", async () => {
    await expect(client.dial("never-made")).rejects.toMatchObject({
      name: "ServiceError",
      code: "SERVICE_NOT_AVAILABLE",
      message: expect.stringContaining("there is no service never-made for this identity"),
    });
  });

  it("a service of somebody else looks the same", async () => {
    await expect(client.dial("plain")).rejects.toMatchObject({
      name: "ServiceError",
      code: "SERVICE_NOT_AVAILABLE",
      message: expect.stringContaining("there is no service plain for this identity"),
    });
  });

  it("permission to host is none to dial, and the reverse", async () => {
    const hosting = await load(service("nobody").hostFile);
    await expect(hosting.dial("nobody")).rejects.toMatchObject({
      name: "ServiceError",
      message: expect.stringContaining("may not dial nobody"),
    });
    await expect(client.listen("secret")).rejects.toMatchObject({
      name: "ServiceError",
      message: expect.stringContaining("may not host secret"),
    });
  });

  it("a service that nobody hosts", async () => {
    const dialing = await load(service("nobody").clientFile);
    await expect(dialing.dial("nobody")).rejects.toMatchObject({
      name: "RouterDialError",
      code: "DIAL_REFUSED",
      message: expect.stringMatching(/nobody could not be dialled through router r1 .*has no terminators/),
    });
  });

  it("an instance that nobody is", async () => {
    await expect(client.dial("secret", { instance: "none-such" })).rejects.toMatchObject({
      code: "DIAL_REFUSED",
      message: expect.stringMatching(/terminator/),
    });
  });

  it("an identity file that the network does not know", async () => {
    const identity = await network.management.listIdentities({ query: { filter: 'name = "churn-host"' } });
    const file = service("churn").hostFile;
    await network.management.disableIdentity({ params: { id: identity.data[0]!.id }, body: { durationMinutes: 0 } });
    await expect(Context.load(file)).rejects.toMatchObject({
      name: "AuthenticationError",
      code: "CREDENTIALS_REFUSED",
    });
    await network.management.enableIdentity({ params: { id: identity.data[0]!.id } });
    await (await Context.load(file)).close();
  });
});

describe("a dial that is given up", () => {
  it("rejects with the signal's reason, before and while it runs, and the next one works", async () => {
    const client = await load(service("secret").clientFile);
    const reason = new Error("changed my mind");
    await expect(dial(client, "secret", "echo", AbortSignal.abort(reason))).rejects.toBe(reason);
    const abort = new AbortController();
    const attempts = Array.from({ length: 8 }, () => dial(client, "secret", "drain", abort.signal));
    setImmediate(() => abort.abort(reason));
    for (const outcome of await Promise.allSettled(attempts)) {
      expect(outcome).toEqual({ status: "rejected", reason });
    }
    await exchange(await dial(client, "secret", "echo"), 5, MIB);
    await eventually("the host's ends of given up dials are gone", () => ![...hosted.values()].includes("drain"));
  });
});

describe("a reader that does not read", () => {
  it("stops its own sender, and no other circuit over the same routers and link", async () => {
    await host("slow");
    const stuck = await dial(await load(service("slow").clientFile), "slow", "flood");
    const sender = await hostEnd("flood");
    let written = -1;
    await eventually("the sender waits", () => {
      const isStill = sender.bytesWritten > MIB && sender.bytesWritten === written;
      written = sender.bytesWritten;
      return isStill && sender.writableNeedDrain;
    });
    const [other, plain] = [await load(service("secret").clientFile), await load(service("plain").clientFile)];
    await exchange(await dial(other, "secret", "echo"), 1, 8 * MIB);
    await exchange(await dial(plain, "plain", "echo"), 2, 8 * MIB);
    // What all queues of the way together hold is far less than what is to be sent.
    expect(sender.bytesWritten).toBeLessThan(48 * MIB);

    expect((await receive(stuck)).length).toBe(64 * MIB);
    stuck.destroy();
  });

  it("which holds little stops not even circuits of its own process", async () => {
    const client = await load(service("plain").clientFile);
    const slow = await dial(client, "plain", "echo");
    slow.write(Buffer.alloc(MIB));
    let waiting = 0;
    await eventually("the echo waits to be read", () => {
      const isStill = slow.readableLength > 0 && slow.readableLength === waiting;
      waiting = slow.readableLength;
      return isStill;
    });
    await exchange(await dial(client, "plain", "echo"), 3, 8 * MIB);
    slow.destroy();
  });
});

describe("ends of connections", () => {
  let client: Context;
  beforeAll(async () => {
    client = await load(service("secret").clientFile);
  });

  it("a dialer that destroys its connection ends the host's", async () => {
    const socket = await dial(client, "secret", "silent");
    const end = await hostEnd("silent");
    const ended = once(end.resume(), "end");
    socket.destroy();
    await ended;
    end.destroy();
    expect(end.errored).toBeNull();
  });

  it("a host that hangs up: its last words arrive, then the end, and writing fails", async () => {
    const socket = await dial(client, "secret", "hang-up");
    expect(await text(socket)).toBe("goodbye");
    await eventually("the other direction is closed", () => !socket.writable);
    socket.on("error", () => {});
    const failure = await new Promise((resolve) => socket.write("anybody there?", resolve));
    expect(failure).toBeInstanceOf(Error);
  });

  it("what was written before end() arrives whole, however quickly the connection is closed after it", async () => {
    for (let i = 0; i < 20; i++) {
      const socket = await dial(client, "secret", "silent");
      const end = await hostEnd("silent");
      const received = receive(end);
      socket.write(Buffer.alloc(300 * KIB, i));
      socket.destroySoon();
      expect((await received).length).toBe(300 * KIB);
      end.destroy();
    }
  });

  it("server.close() takes the service back at once; connections that exist go on", async () => {
    const { server, context } = await host("nobody");
    const dialing = await load(service("nobody").clientFile);
    const socket = await dial(dialing, "nobody", "echo");
    const { id } = service("nobody");
    const terminators = async () => (await network.management.listServiceTerminators({ params: { id } })).data.length;
    expect(await terminators()).toBe(1);
    await server.close();
    expect(server.listening).toBe(false);
    await eventually("the controller has no terminator", async () => (await terminators()) === 0);
    await expect(dialing.dial("nobody")).rejects.toMatchObject({ code: "DIAL_REFUSED" });
    await exchange(socket, 4, 4 * MIB);

    const again = await context.listen("nobody", { allowHalfOpen: true });
    again.on("connection", (connection) => void connection.on("error", () => {}).pipe(connection));
    await exchange(await dial(dialing, "nobody", "echo"), 5, MIB);
    await again.close();
  });
});

/** Ids of the circuits that the controller has made and not removed, as its log tells. */
function openCircuits(): string[] {
  const open = new Set<string>();
  for (const line of readFileSync(join(folder, "controller.log"), "utf8").split("\n")) {
    if (!/"msg":"circuit-(created|removed)"/.test(line)) continue;
    const { circuitId, msg } = JSON.parse(line) as { circuitId: string; msg: string };
    if (msg === "circuit-created") open.add(circuitId);
    else open.delete(circuitId);
  }
  return [...open];
}

describe("what routers and controller remember of circuits", () => {
  let router: Router;
  afterAll(async () => await router?.close());

  it("is nothing when they have ended, whoever ended them and how", async () => {
    const file = await network.enrollRouter("r3");
    const { config } = await loadRouterConfig(file);
    router = await startRouter({ config, configFile: file, baseDir: folder, log: silentLogger });
    await router.online;
    const { data } = await network.management.listEdgeRouterPolicies({ query: { filter: 'name = "churn-client"' } });
    await network.management.patchEdgeRouterPolicy({
      params: { id: data[0]!.id },
      body: { edgeRouterRoles: ["#r3"] },
    });
    await eventually("the new router is linked", () => router.links.links().length >= 2);
    await host("churn");
    const client = await load(service("churn").clientFile);
    await eventually("a dial through the new router", async () => {
      await exchange(await dial(client, "churn", "echo"), 0, KIB);
      return true;
    });
    for (let round = 0; round < 10; round++) {
      await Promise.all(
        Array.from({ length: 20 }, async (_, i) => {
          const behaviour = (["echo", "drain", "hang-up"] as const)[i % 3]!;
          const socket = await dial(client, "churn", behaviour);
          if (behaviour === "echo") await exchange(socket, i, 20 * KIB);
          else if (behaviour === "hang-up") await text(socket);
          socket.destroy();
        }),
      );
    }
    await eventually("no circuit is left in the router", () => router.forwarder.circuitIds().length === 0, 30_000);
    // Every circuit of this file is gone but the one that idles on purpose.
    await eventually("nor in the controller", () => String(openCircuits()) === idle.circuitId, 30_000);
    await eventually("no host holds an end", () => ![...hosted.values()].includes("drain"));
  }, 60_000);
});

describe("a circuit without traffic", () => {
  it("is still there after many rounds of the search for idle circuits", async () => {
    const left = 12 * IDLE_MS - (performance.now() - idleSince);
    if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
    await exchange(idle, 6, 4 * MIB);
  });
});
