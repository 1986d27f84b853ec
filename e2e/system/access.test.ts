import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { Context, type EdgeConnection, type IdentityFile } from "@sallyport/sdk";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../network/eventually.ts";
import { pem } from "../network/login/identity-file.ts";
import { endSessionsOf } from "../network/login/logins.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../network/network.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const folder = makeScratch("access");
const contexts: Context[] = [];
const hosts: Program[] = [];
let network: Network;
/** Where r1 offers the controller's API. */
let apiProxyPort: number;
let guarded: DeclaredService;
let open: DeclaredService;

beforeAll(async () => {
  [apiProxyPort = 0] = await freePorts(1);
  network = await startNetwork(folder, {
    routerSettings: (name, text) => {
      const upstream = /endpoint: tls:(localhost:\d+)/.exec(text)?.[1];
      const apiProxy = `edge:\n  apiProxy:\n    listener: 127.0.0.1:${apiProxyPort}\n    upstream: ${upstream}`;
      return name === "r1" ? text.replace("edge: {}", apiProxy) : text;
    },
  });
  guarded = await declareService(network, { name: "guarded" });
  open = await declareService(network, { name: "open" });
  await startHost(guarded, "guarded", "one");
  await startHost(open, "open", "other");
}, 120_000);

afterAll(async () => {
  await Promise.all(contexts.map((context) => context.close()));
  for (const host of hosts) await host.stop();
  await network?.stop();
  removeScratch(folder);
});

async function startHost(service: DeclaredService, serviceName: string, name: string): Promise<Program> {
  const host = new Program({
    name,
    command: process.execPath,
    args: [join(import.meta.dirname, "..", "network", "echo-host.ts"), service.hostFile, serviceName, name],
    logFile: join(folder, `${name}.log`),
  });
  hosts.push(host);
  await host.line(/^hosting/);
  return host;
}

async function load(file: string | IdentityFile): Promise<Context> {
  const context = await Context.load(file, { refreshIntervalMs: 500 });
  contexts.push(context);
  return context;
}

/** A connection on which the host has said its name. */
async function connected(context: Context, service: string): Promise<{ socket: EdgeConnection; host: string }> {
  const socket = await context.dial(service, { timeoutMs: 10_000 });
  socket.on("error", () => {});
  const [chunk] = (await once(socket, "data")) as [Buffer];
  return { socket, host: chunk.toString().trim() };
}

async function echoes(socket: EdgeConnection): Promise<void> {
  const answer = once(socket, "data");
  socket.write("ping");
  await answer;
}

const idOf = async (kind: "identity" | "policy", name: string): Promise<string> => {
  const query = { filter: `name = "${name}"` };
  const { data } =
    kind === "identity"
      ? await network.management.listIdentities({ query })
      : await network.management.listServicePolicies({ query });
  return data[0]?.id ?? "";
};

describe("a stream ends with the right to it, and others go on", () => {
  const ways: [string, () => Promise<() => Promise<unknown>>][] = [
    [
      "the session is deleted, as posture does it",
      async () => {
        const { data } = await network.management.listSessions({ query: { filter: `service = "${guarded.id}"` } });
        for (const { id, type } of data)
          if (type === "Dial") await network.management.deleteSession({ params: { id } });
        return async () => {};
      },
    ],
    [
      "the API session is deleted",
      async () => {
        await endSessionsOf(network.management, "guarded-client");
        return async () => {};
      },
    ],
    [
      "the identity is disabled",
      async () => {
        const id = await idOf("identity", "guarded-client");
        await network.management.disableIdentity({ params: { id }, body: { durationMinutes: 0 } });
        return () => network.management.enableIdentity({ params: { id } });
      },
    ],
    [
      "the policy is deleted",
      async () => {
        const id = await idOf("policy", "guarded-client");
        await network.management.deleteServicePolicy({ params: { id } });
        return () =>
          network.management.createServicePolicy({
            body: {
              ...{ name: "guarded-client", type: "Dial", semantic: "AnyOf" },
              ...{ identityRoles: ["#guarded-client"], serviceRoles: ["#guarded"] },
            },
          });
      },
    ],
  ];

  it.each(ways)(
    "when %s",
    async (_, takeAway) => {
      const [client, bystander] = [await load(guarded.clientFile), await load(open.clientFile)];
      const { socket } = await connected(client, "guarded");
      const other = await connected(bystander, "open");
      // With an error or without: what ended it may have taken the connection to the router along.
      const gone = new Promise((resolve) => socket.once("close", resolve));
      socket.once("end", () => socket.end());
      const giveBack = await takeAway();
      await gone;
      await echoes(other.socket);
      other.socket.destroy();
      await client.close();
      await giveBack();
      const again = await eventually("a new stream", async () => connected(await load(guarded.clientFile), "guarded"));
      again.socket.destroy();
    },
    60_000,
  );
});

it("of two hosts one is killed: every dial goes on succeeding", async () => {
  const doomed = await startHost(guarded, "guarded", "two");
  const client = await load(guarded.clientFile);
  const dial = async () => {
    const { socket, host } = await connected(client, "guarded");
    socket.destroy();
    return host;
  };
  // Each open stream makes its host dearer, so the next one goes to the other.
  const held: Awaited<ReturnType<typeof connected>>[] = [];
  for (let n = 0; n < 6; n++) held.push(await connected(client, "guarded"));
  expect(new Set(held.map(({ host }) => host))).toEqual(new Set(["one", "two"]));
  doomed.signal("SIGKILL");
  const answered = [];
  for (let n = 0; n < 20; n++) answered.push(await dial());
  expect(answered.at(-1)).toBe("one");
  for (const { socket, host } of held) {
    if (host === "one") await echoes(socket);
    socket.destroy();
  }
}, 60_000);

describe("who reaches no controller, only a router", () => {
  const identityOf = (file: string): IdentityFile => JSON.parse(readFileSync(file, "utf8"));

  it("logs in by certificate over its API proxy, and dials", async () => {
    const identity = identityOf(open.clientFile);
    const ztAPI = identity.ztAPI.replace(`:${network.port}/`, `:${apiProxyPort}/`);
    expect(ztAPI).not.toBe(identity.ztAPI);
    const { socket } = await connected(await load({ ...identity, ztAPI, ztAPIs: null }), "open");
    await echoes(socket);
    socket.destroy();
  });

  it("gains no other identity by what it writes into headers, with and without a certificate of its own", async () => {
    const { id: victim } = identityOf(guarded.clientFile);
    const { id: own } = identityOf(open.clientFile);
    const certificate = new X509Certificate(pem(victim.cert)).raw.toString("base64");
    const login = (client: object, headers: Record<string, string>) =>
      new Promise<{ status: number | undefined; identityId: string | undefined }>((resolve, reject) => {
        const sent = request({
          ...{ host: "localhost", port: apiProxyPort, method: "POST", agent: false, rejectUnauthorized: false },
          ...{ path: "/edge/client/v1/authenticate?method=cert", headers },
          ...client,
        });
        sent.on("error", reject);
        sent.on("response", async (answer) => {
          const chunks: Buffer[] = [];
          for await (const chunk of answer) chunks.push(chunk as Buffer);
          const { data } = JSON.parse(Buffer.concat(chunks).toString()) as { data?: { identityId?: string } };
          resolve({ status: answer.statusCode, identityId: data?.identityId });
        });
        sent.end("{}");
      });
    const base = { "content-type": "application/json", "content-length": "2" };
    const forged = { ...base, "x-edge-router-proxy-request": "now", "x-client-certpem": certificate };
    const dropping = { ...forged, connection: "close, x-client-certpem, x-edge-router-proxy-request" };
    const withOwn = { cert: pem(own.cert), key: pem(own.key) };
    const plain = await login(withOwn, base);
    expect(plain).toEqual({ status: 200, identityId: expect.any(String) });
    for (const headers of [forged, dropping]) {
      expect(await login({}, headers)).toEqual({ status: 401 });
      expect(await login(withOwn, headers)).toEqual(plain);
    }
  });
});
