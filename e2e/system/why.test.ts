/** "Why not?" on a whole network: each way to break it, with a dial of the SDK that fails, and the answer that names it first. */
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { Context } from "@sallyport/sdk";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../network/eventually.ts";
import { type Network, startNetwork } from "../network/network.ts";
import type { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { allow, declareConfigured, declareIdentity, startTunneler, type TunnelIdentity } from "../network/tunneler.ts";

const folder = makeScratch("why");
let network: Network;
let port: number;
let server: Server;
let host: Program | undefined;
let laptop: TunnelIdentity;
let backend: TunnelIdentity;
let serviceId: string;

beforeAll(async () => {
  network = await startNetwork(folder);
  port = await freePort();
  await startServer();
  const web = { address: "127.0.0.1", port, protocol: "tcp" };
  ({ id: serviceId } = await declareConfigured(network, { name: "web", roles: ["web"], configs: { "host.v1": web } }));
  laptop = await declareIdentity(network, "laptop", "r1");
  backend = await declareIdentity(network, "backend", "r2");
  await letDial();
  await allow(network, "Bind", "backend", "web");
  await letServiceUseRouters();
  await startHost();
  await works();
}, 180_000);

afterAll(async () => {
  await host?.stop();
  server?.close();
  await network?.stop();
  removeScratch(folder);
});

async function startServer(): Promise<void> {
  server = createServer((socket) => void socket.on("error", () => {}).end("hello"));
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
}

async function startHost(): Promise<void> {
  host = startTunneler(folder, "host", "host", "-i", backend.file);
  await eventually("the service is hosted", async () => {
    const { data } = await network.management.listTerminators({ query: { filter: `service = "${serviceId}"` } });
    return data.length > 0;
  });
}

async function stopHost(): Promise<void> {
  await host?.stop();
  host = undefined;
}

const letDial = () => allow(network, "Dial", "laptop", "web");
const letServiceUseRouters = () =>
  network.management.createServiceEdgeRouterPolicy({
    body: { name: "web", semantic: "AnyOf", serviceRoles: ["#web"], edgeRouterRoles: ["#all"] },
  });

/** A program that starts, dials, and reads what the server says. */
async function dial(): Promise<string> {
  const context = await Context.load(laptop.file);
  try {
    const socket = await context.dial("web", { timeoutMs: 5_000 });
    let text = "";
    socket.on("data", (chunk) => (text += String(chunk)));
    await Promise.race([once(socket, "end"), once(socket, "close")]);
    return text;
  } finally {
    await context.close();
  }
}

const works = () => eventually("a dial", async () => (await dial()) === "hello", 60_000);
/** @returns what the SDK says of it */
const fails = () =>
  eventually("no dial works", async () =>
    dial().then(
      (text) => text !== "hello" && `the server said ${text}`,
      (error: Error) => error.message,
    ),
  );

async function why() {
  const { data } = await network.management.explainAccess({ params: { id: "laptop", serviceId: "web" } });
  return data;
}

const nameOf = (list: { readonly data: readonly { readonly id: string }[] }): string => list.data[0]?.id ?? "";
const named = (name: string) => ({ query: { filter: `name = "${name}"` } });
const id = (of: string) => ({ params: { id: of } });

/** What breaks the network, the code that comes first, and what repairs it. */
const WAYS: [string, string, () => Promise<() => Promise<unknown>>][] = [
  [
    "no policy lets the identity dial",
    "NO_SERVICE_POLICY",
    async () => {
      await network.management.deleteServicePolicy(
        id(nameOf(await network.management.listServicePolicies(named("Dial laptop web")))),
      );
      return letDial;
    },
  ],
  [
    "the identity has the wrong attribute",
    "IDENTITY_NOT_SELECTED",
    async () => {
      const patch = (roleAttributes: string[]) =>
        network.management.patchIdentity({ ...id(laptop.id), body: { roleAttributes } });
      await patch(["laptops"]);
      return () => patch(["laptop"]);
    },
  ],
  [
    "the identity is disabled",
    "IDENTITY_DISABLED",
    async () => {
      await network.management.disableIdentity({ ...id(laptop.id), body: { durationMinutes: 0 } });
      return () => network.management.enableIdentity(id(laptop.id));
    },
  ],
  [
    "no edge router policy selects the identity",
    "NO_EDGE_ROUTER_POLICY",
    async () => {
      await network.management.deleteEdgeRouterPolicy(
        id(nameOf(await network.management.listEdgeRouterPolicies(named("laptop")))),
      );
      return () =>
        network.management.createEdgeRouterPolicy({
          body: { name: "laptop", semantic: "AnyOf", identityRoles: ["#laptop"], edgeRouterRoles: ["#r1"] },
        });
    },
  ],
  [
    "no service edge router policy selects the service",
    "NO_SERVICE_EDGE_ROUTER_POLICY",
    async () => {
      const found = await network.management.listServiceEdgeRouterPolicies(named("web"));
      await network.management.deleteServiceEdgeRouterPolicy(id(nameOf(found)));
      return letServiceUseRouters;
    },
  ],
  [
    "the router of the identity is disabled",
    "EDGE_ROUTERS_DISABLED",
    async () => {
      const router = id(nameOf(await network.management.listEdgeRouters(named("r1"))));
      await network.management.patchEdgeRouter({ ...router, body: { disabled: true } });
      return () => network.management.patchEdgeRouter({ ...router, body: { disabled: false } });
    },
  ],
  [
    "the router of the identity has gone",
    "EDGE_ROUTER_OFFLINE",
    async () => {
      await network.stopProgram("r1");
      return () => network.startRouter("r1");
    },
  ],
  [
    "the router of the host has gone",
    "HOST_ROUTERS_OFFLINE",
    async () => {
      await network.stopProgram("r2", "SIGKILL");
      return () => network.startRouter("r2");
    },
  ],
  [
    "the host has gone",
    "NOT_HOSTED",
    async () => {
      await stopHost();
      return startHost;
    },
  ],
  [
    "no policy lets an identity host",
    "NO_BIND_POLICY",
    async () => {
      await network.management.deleteServicePolicy(
        id(nameOf(await network.management.listServicePolicies(named("Bind backend web")))),
      );
      return () => allow(network, "Bind", "backend", "web");
    },
  ],
  [
    "a posture check fails",
    "POSTURE",
    async () => {
      const policy = id(nameOf(await network.management.listServicePolicies(named("Dial laptop web"))));
      const body = {
        name: "mac",
        typeId: "MAC" as const,
        macAddresses: ["00:00:5e:00:53:01"],
        roleAttributes: ["mac"],
      };
      const { data: check } = await network.management.createPostureCheck({ body });
      await network.management.patchServicePolicy({ ...policy, body: { postureCheckRoles: ["#mac"] } });
      return async () => {
        await network.management.patchServicePolicy({ ...policy, body: { postureCheckRoles: [] } });
        await network.management.deletePostureCheck(id(check.id));
      };
    },
  ],
  [
    "the host's server listens on another port",
    "ROUTER_ERR_",
    async () => {
      server.close();
      await once(server, "close");
      return startServer;
    },
  ],
];

/** The start of what an application is told by its own error where it finds no router. */
const SAID_BY_SDK: Readonly<Record<string, string>> = {
  NO_EDGE_ROUTER_POLICY: "no edge router policy",
  NO_SERVICE_EDGE_ROUTER_POLICY: "no service edge router policy",
  EDGE_ROUTERS_DISABLED: "no edge router policy gives your identity an enabled edge router",
};

describe("when the network is broken", () => {
  it.each(WAYS)(
    "because %s, a dial fails and %s comes first",
    async (_, code, breakIt) => {
      const repair = await breakIt();
      const said = await fails();
      if (SAID_BY_SDK[code] !== undefined) expect(said).toContain(`no edge router for web: ${SAID_BY_SDK[code]}`);
      const first = await eventually(`${code} comes first`, async () => {
        const { firstProblem } = await why();
        return firstProblem?.code.startsWith(code) === true && firstProblem;
      });
      expect(first.remedies?.[0]?.text ?? "").not.toBe("");
      await repair();
      await works();
      await eventually(
        "nothing is in the way any more",
        async () => (await why()).allowed && (await why()).firstProblem?.status !== "failed",
      );
    },
    120_000,
  );
});

it("a host that is away may host still, and is said not to", async () => {
  await stopHost();
  await eventually("the answer says that it does not host", async () => {
    const question = { params: { id: "backend", serviceId: "web" }, query: { type: "bind" as const } };
    const { data } = await network.management.explainAccess(question);
    expect(data).toMatchObject({ allowed: true, type: "Bind", identity: { name: "backend" } });
    expect(data.checks.find(({ check }) => check === "hosting")).toMatchObject({ code: "DOES_NOT_HOST" });
    return true;
  });
  await startHost();
  await works();
}, 60_000);
