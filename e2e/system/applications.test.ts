import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, get, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Context, type EdgeConnection, type ServiceListener } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../network/eventually.ts";
import { endSessionsOf, sessionsOf } from "../network/login/logins.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

const ROOT = join(import.meta.dirname, "..", "..");

describe("applications on the SDK", { timeout: 120_000 }, () => {
  const folder = makeScratch("applications");
  let network: Network;
  let hostFile: string;
  let clientFile: string;
  const programs: Program[] = [];

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"));
    ({ hostFile, clientFile } = await declareService(network, { name: "Web" }));
  }, 180_000);

  afterAll(async () => {
    for (const program of programs) await program.stop();
    await network?.stop();
    removeScratch(folder);
  }, 180_000);

  const example = (name: string, ...args: string[]): Program => {
    const command = { command: process.execPath, args: [join(ROOT, "examples", `${name}.ts`), ...args] };
    const program = new Program({ name, ...command, logFile: join(folder, `${name}.log`) });
    programs.push(program);
    return program;
  };

  /** The enrollment token of a new identity, which has its name and more as role attributes. */
  const tokenOf = async (name: string, ...roleAttributes: string[]): Promise<string> => {
    const { data } = await network.management.createIdentity({
      body: {
        name,
        type: "User",
        isAdmin: false,
        roleAttributes: [name, ...roleAttributes],
        enrollment: { ott: true },
      },
    });
    const detail = await network.management.detailIdentity({ params: { id: data.id } });
    return detail.data.enrollment.ott?.jwt ?? "";
  };

  it("run as the examples show: enroll, host a web server, fetch from it, and end by themselves", async () => {
    const { data } = await network.management.createIdentity({
      body: {
        name: "visitor",
        type: "User",
        isAdmin: false,
        roleAttributes: ["Web-client"],
        enrollment: { ott: true },
      },
    });
    const detail = await network.management.detailIdentity({ params: { id: data.id } });
    const [token, identity] = [join(folder, "visitor.jwt"), join(folder, "visitor.json")];
    writeFileSync(token, detail.data.enrollment.ott?.jwt ?? "");
    expect(await example("enroll", token, identity).exited).toBe(0);

    const server = example("http-server", hostFile, "Web");
    await server.line(/^hosting Web/);
    const client = example("http-client", identity, "Web");
    expect(await client.exited).toBe(0);
    expect(client.tail).toEqual(["Hello visitor, this is Web."]);
    expect(await server.stop()).toBe(0);
  });

  it("run what the guide shows, from the token to the end", async () => {
    const { management } = network;
    const identityRoles = ["#guide"];
    const serviceRoles = ["#guide"];
    const all = ["#all"];
    const semantic = "AnyOf";
    for (const name of ["echo", "relay", "web"]) {
      await management.createService({ body: { name, roleAttributes: ["guide"], encryptionRequired: true } });
    }
    for (const type of ["Dial", "Bind"] as const) {
      await management.createServicePolicy({ body: { name: type, type, semantic, identityRoles, serviceRoles } });
    }
    await management.createEdgeRouterPolicy({ body: { name: "guide", semantic, identityRoles, edgeRouterRoles: all } });
    await management.createServiceEdgeRouterPolicy({
      body: { name: "guide", semantic, serviceRoles, edgeRouterRoles: all },
    });
    const home = join(folder, "guide");
    mkdirSync(home);
    writeFileSync(join(home, "me.jwt"), await tokenOf("guide"));
    symlinkSync(join(ROOT, "node_modules"), join(home, "node_modules"));
    const guide = readFileSync(join(ROOT, "docs", "sdk.md"), "utf8");
    const blocks = [...guide.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block]) => block);
    expect(blocks).toHaveLength(8);
    const script = join(home, "guide.ts");
    writeFileSync(script, blocks.join(""));
    const program = new Program({ name: "guide", command: process.execPath, args: [script], cwd: home });
    programs.push(program);
    const code = await program.exited;
    expect(program.tail).toEqual(expect.arrayContaining(["guide is here", "hello", "/page"]));
    expect(code).toBe(0);
  });

  describe("in this process", () => {
    let host: Context;
    let client: Context;
    let listener: ServiceListener;
    const accepted = new Set<EdgeConnection>();
    const web = createServer((request, response) => {
      if (request.url === "/slow") return;
      response.end(`${request.url}`);
    });

    beforeAll(async () => {
      host = await Context.load(hostFile);
      client = await Context.load(clientFile);
      listener = await host.listen("Web", { allowHalfOpen: true });
      listener.on("connection", (connection) => {
        accepted.add(connection);
        connection.once("close", () => accepted.delete(connection));
        web.emit("connection", connection);
      });
    });

    afterAll(async () => {
      await client?.close();
      await host?.close();
    });

    async function fetchText(agent: ReturnType<Context["httpAgent"]>, path: string): Promise<string> {
      // A URL's host is lower case, the service's name is not.
      const [response] = (await once(get(`http://web${path}`, { agent }), "response")) as [IncomingMessage];
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      return text;
    }

    it("keep an HTTP connection and use it again, and make a new one when the server has ended it", async () => {
      const agent = client.httpAgent();
      expect(await fetchText(agent, "/1")).toBe("/1");
      const [first] = accepted;
      expect(await fetchText(agent, "/2")).toBe("/2");
      expect([...accepted]).toEqual([first]);
      first?.end();
      await eventually("the end of the kept connection", () => Object.keys(agent.freeSockets).length === 0);
      expect(await fetchText(agent, "/3")).toBe("/3");
      agent.destroy();
      await eventually("the end of all connections", () => accepted.size === 0);
    });

    it("hold to the most connections that an agent may have", async () => {
      const agent = client.httpAgent({ maxSockets: 2 });
      const pages = Array.from({ length: 8 }, (_, index) => `/${index}`);
      let most = 0;
      listener.prependListener("connection", () => (most = Math.max(most, accepted.size)));
      expect(await Promise.all(pages.map((page) => fetchText(agent, page)))).toEqual(pages);
      expect(most).toBeLessThanOrEqual(2);
      agent.destroy();
    });

    it("fail the requests of an agent that is destroyed, also those that still wait for a connection", async () => {
      const agent = client.httpAgent();
      const dialling = once(get("http://web/slow", { agent }), "response");
      agent.destroy();
      await expect(dialling).rejects.toThrow("the agent was destroyed");
      const waiting = get("http://web/slow", { agent });
      const failed = once(waiting, "response");
      await once(waiting, "finish");
      await eventually("the request", () => accepted.size > 0);
      agent.destroy();
      await expect(failed).rejects.toThrow();
      await eventually("the end of all connections", () => accepted.size === 0);
    });

    it("leave nothing behind after 500 short connections", async () => {
      const agent = client.httpAgent({ keepAlive: false, maxSockets: 25 });
      const visit = (count: number) => Promise.all(Array.from({ length: count }, () => fetchText(agent, "/short")));
      await visit(100);
      await eventually("the end of all connections", () => accepted.size === 0);
      const before = heapUsed();
      await visit(500);
      await eventually("the end of all connections", () => accepted.size === 0);
      // Some 1 KB is the noise of both ends; a connection that was kept would hold its streams and requests.
      expect((heapUsed() - before) / 500).toBeLessThan(10_000);
      agent.destroy();
    });

    it("get a new session when theirs was ended, without noticing", async () => {
      const { management } = network;
      const { id } = await client.identity();
      const former = await sessionsOf(management, id);
      expect(former).toHaveLength(1);
      await endSessionsOf(management, id);
      await eventually("a connection by a new session", async () => {
        (await client.dial("Web")).destroy();
        const now = await sessionsOf(management, id);
        return now.length === 1 && now[0]?.id !== former[0]?.id;
      });
    });

    it("find the router that has taken the place of theirs", async () => {
      const { management } = network;
      (await client.dial("Web")).destroy();
      await network.enrollRouter("r3");
      await network.startRouter("r3");
      const { data } = await management.listEdgeRouterPolicies({ query: { filter: 'name = "Web-client"' } });
      await management.patchEdgeRouterPolicy({ params: { id: data[0]?.id ?? "" }, body: { edgeRouterRoles: ["#r3"] } });
      await network.stopProgram("r1");
      await eventually("a connection through r3", async () => {
        (await client.dial("Web")).destroy();
        return true;
      });
    });

    it("get an error when they use a closed context, and can give up every wait", async () => {
      const closed = await Context.load(clientFile);
      await closed.services();
      await closed.close();
      for (const call of [() => closed.dial("Web"), () => closed.listen("Web"), () => closed.services()]) {
        await expect(call()).rejects.toMatchObject({ code: "CONTEXT_CLOSED" });
      }
      await closed.close();
      await expect(host.listen("Web", { cost: 70_000 })).rejects.toMatchObject({ code: "OPTION_INVALID" });
      const signal = AbortSignal.abort(new Error("given up"));
      await expect(Context.load(clientFile, { signal })).rejects.toThrow("given up");
      await expect(client.services({ signal })).rejects.toThrow("given up");
      await expect(client.dial("Web", { signal })).rejects.toThrow("given up");
      await expect(host.listen("Web", { signal })).rejects.toThrow("given up");
    });
  });
});
