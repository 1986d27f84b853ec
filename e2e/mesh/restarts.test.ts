import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Context, type EdgeConnection, type ServiceListener } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../network/network.ts";
import { alive, processTree } from "../network/processes.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MIB = 1024 * 1024;
const folder = makeScratch("restarts");
let network: Network;
let echo: DeclaredService;
let host: Context;
let listener: ServiceListener;
let client: Context;
const contexts: Context[] = [];

async function load(file: string): Promise<Context> {
  const context = await Context.load(file, { refreshIntervalMs: 500 });
  contexts.push(context);
  return context;
}

const dial = (context: Context, name: string): Promise<EdgeConnection> =>
  context.dial(name, { allowHalfOpen: true, timeoutMs: 10_000 });

/** Dials until it works: a network that is coming back may refuse for a while. */
const dialsAgain = (context: Context, name: string): Promise<unknown> =>
  eventually(
    `${name} can be dialled again`,
    async () => {
      await exchange(await dial(context, name), 1, MIB / 4);
      return true;
    },
    60_000,
  );

/** A connection over which something is always on its way. */
class Pulse {
  readonly socket: EdgeConnection;
  echoed = 0;
  readonly #timer: NodeJS.Timeout;
  /** Resolves with the error, or undefined, when the connection is gone. */
  readonly gone: Promise<Error | undefined>;

  constructor(socket: EdgeConnection) {
    this.socket = socket;
    let failure: Error | undefined;
    socket.on("data", (chunk: Buffer) => {
      this.echoed += chunk.length;
    });
    socket.on("error", (error: Error) => {
      failure = error;
    });
    this.#timer = setInterval(() => socket.writable && socket.write(Buffer.alloc(1_000, 7)), 10);
    // An end of the other side is the end of this one: what the network closed is told as an end.
    socket.once("end", () => socket.end());
    this.gone = new Promise((resolve) =>
      socket.once("close", () => {
        clearInterval(this.#timer);
        resolve(failure);
      }),
    );
  }

  static async start(context: Context, name: string): Promise<Pulse> {
    const pulse = new Pulse(await dial(context, name));
    await pulse.goesOn();
    return pulse;
  }

  async goesOn(): Promise<void> {
    const until = this.echoed + 20_000;
    await eventually("bytes go on", () => this.echoed >= until && !this.socket.destroyed);
  }

  stop(): void {
    this.socket.destroy();
  }
}

const identityId = async (name: string): Promise<string> =>
  (await network.management.listIdentities({ query: { filter: `name = "${name}"` } })).data[0]!.id;

const apiSessionsOf = async (name: string): Promise<string[]> => {
  const filter = `identity = "${await identityId(name)}"`;
  return (await network.management.listAPISessions({ query: { filter } })).data.map((session) => session.id);
};

const terminatorsOf = async (id: string): Promise<string[]> =>
  (await network.management.listServiceTerminators({ params: { id } })).data.map((terminator) => terminator.id);

beforeAll(async () => {
  network = await startNetwork(folder, { routerSettings: (_name, text) => `${text}shutdown:\n  drainTimeout: 2s\n` });
  echo = await declareService(network, { name: "echo" });
  host = await load(echo.hostFile);
  listener = await hostEcho(host, "echo");
  client = await load(echo.clientFile);
  await dialsAgain(client, "echo");
}, 120_000);

afterAll(async () => {
  await Promise.all(contexts.map((context) => context.close()));
  await network?.stop();
  removeScratch(folder);
});

describe("a controller that was killed", { timeout: 90_000 }, () => {
  it("is missed by no open circuit; dials say so, and work when it is back, over routers that are in step again", async () => {
    const pulse = await Pulse.start(client, "echo");
    await network.stopProgram("controller", "SIGKILL");
    await pulse.goesOn();
    await expect(client.dial("echo", { timeoutMs: 3_000 })).rejects.toMatchObject({ code: expect.any(String) });
    await network.startController();
    await pulse.goesOn();
    await eventually("both routers are in step", async () => {
      const { data } = await network.management.listEdgeRouters();
      return data.every((router) => router.isOnline && router.syncStatus === "SYNC_DONE");
    });
    await dialsAgain(client, "echo");
    await pulse.goesOn();
    pulse.stop();
    expect(await terminatorsOf(echo.id)).toHaveLength(1);
  });

  it("remembers, when it is back, which sessions were ended: their owners log in again", async () => {
    const [session] = await apiSessionsOf("echo-client");
    await network.management.deleteAPISessions({ params: { id: session! } });
    const fresh = await load(echo.clientFile);
    await network.restartController("SIGKILL");
    await dialsAgain(fresh, "echo");
    await dialsAgain(client, "echo");
    expect(await apiSessionsOf("echo-client")).not.toContain(session);
  });
});

describe("a router that is restarted", { timeout: 90_000 }, () => {
  it("hosts the service again, with one terminator, and dials work", async () => {
    const again = once(listener, "listening");
    expect(await network.stopProgram("r2")).toBe(0);
    await expect(dial(client, "echo")).rejects.toMatchObject({ code: expect.any(String) });
    await network.startRouter("r2");
    await again;
    await dialsAgain(client, "echo");
    await eventually("one terminator", async () => (await terminatorsOf(echo.id)).length === 1);
  });

  it("the dialler's: its connections end with a typed error, and it dials again", async () => {
    const pulse = await Pulse.start(client, "echo");
    await network.restartRouter("r1", "SIGKILL");
    expect(await pulse.gone).toMatchObject({ name: "ConnectionClosedError", code: "CONNECTION_CLOSED" });
    await dialsAgain(client, "echo");
  });
});

describe("access that is taken away", { timeout: 60_000 }, () => {
  it("an API session deleted by an administrator: its circuits end, and the SDK logs in again", async () => {
    const pulse = await Pulse.start(client, "echo");
    const before = await apiSessionsOf("echo-client");
    for (const id of before) await network.management.deleteAPISessions({ params: { id } });
    await pulse.gone;
    await dialsAgain(client, "echo");
    const after = await apiSessionsOf("echo-client");
    expect(after.filter((id) => before.includes(id))).toEqual([]);
    expect(after.length).toBeGreaterThan(0);
  });

  it("the host's API session deleted: it logs in and hosts again", async () => {
    const again = once(listener, "listening");
    for (const id of await apiSessionsOf("echo-host")) await network.management.deleteAPISessions({ params: { id } });
    await again;
    await dialsAgain(client, "echo");
    await eventually("one terminator", async () => (await terminatorsOf(echo.id)).length === 1);
  });

  it("an identity disabled: its circuits end and it cannot come back until it is enabled", async () => {
    const pulse = await Pulse.start(client, "echo");
    const id = await identityId("echo-client");
    await network.management.disableIdentity({ params: { id }, body: { durationMinutes: 0 } });
    await pulse.gone;
    await expect(dial(client, "echo")).rejects.toMatchObject({
      name: "AuthenticationError",
      code: "CREDENTIALS_REFUSED",
    });
    await network.management.enableIdentity({ params: { id } });
    await dialsAgain(client, "echo");
  });

  it("a dial policy removed: circuits end, dials are refused by name, and a new policy gives it back", async () => {
    const pulse = await Pulse.start(client, "echo");
    const { data } = await network.management.listServicePolicies({ query: { filter: 'name = "echo-client"' } });
    await network.management.deleteServicePolicy({ params: { id: data[0]!.id } });
    await pulse.gone;
    await eventually("the SDK knows", async () => {
      await expect(dial(client, "echo")).rejects.toMatchObject({ code: "SERVICE_NOT_AVAILABLE" });
      return true;
    });
    await network.management.createServicePolicy({
      body: {
        name: "echo-client",
        type: "Dial",
        semantic: "AnyOf",
        identityRoles: ["#echo-client"],
        serviceRoles: ["#echo"],
      },
    });
    await dialsAgain(client, "echo");
  });

  it("a bind policy removed: the terminator goes; a new policy brings it back", async () => {
    const { data } = await network.management.listServicePolicies({ query: { filter: 'name = "echo-host"' } });
    await network.management.deleteServicePolicy({ params: { id: data[0]!.id } });
    await eventually("no terminator", async () => (await terminatorsOf(echo.id)).length === 0);
    await expect(dial(client, "echo")).rejects.toMatchObject({ code: "DIAL_REFUSED" });
    await network.management.createServicePolicy({
      body: {
        name: "echo-host",
        type: "Bind",
        semantic: "AnyOf",
        identityRoles: ["#echo-host"],
        serviceRoles: ["#echo"],
      },
    });
    await dialsAgain(client, "echo");
  });

  it("identities deleted: circuits and terminators go, and logins as them are refused", async () => {
    const doomed = await declareService(network, { name: "doomed" });
    const hosting = await load(doomed.hostFile);
    await hostEcho(hosting, "doomed");
    const dialing = await load(doomed.clientFile);
    const pulse = await Pulse.start(dialing, "doomed");
    await network.management.deleteIdentity({ params: { id: await identityId("doomed-client") } });
    await pulse.gone;
    await expect(dial(dialing, "doomed")).rejects.toMatchObject({ code: "CREDENTIALS_REFUSED" });
    await network.management.deleteIdentity({ params: { id: await identityId("doomed-host") } });
    await eventually("no terminator", async () => (await terminatorsOf(doomed.id)).length === 0);
    await expect(Context.load(doomed.hostFile)).rejects.toMatchObject({ code: "CREDENTIALS_REFUSED" });
  });

  it("a service deleted: its circuits end", async () => {
    const shut = await declareService(network, { name: "shut" });
    await hostEcho(await load(shut.hostFile), "shut");
    const dialing = await load(shut.clientFile);
    const pulse = await Pulse.start(dialing, "shut");
    await network.management.deleteService({ params: { id: shut.id } });
    await pulse.gone;
    await eventually("the SDK knows", async () => {
      await expect(dial(dialing, "shut")).rejects.toMatchObject({ code: "SERVICE_NOT_AVAILABLE" });
      return true;
    });
  });
});

describe("a router enrolled again", { timeout: 60_000 }, () => {
  it("loses its channel at once, cannot come back with the old certificate, and can with a new one", async () => {
    await network.enrollRouter("r3");
    await network.startRouter("r3");
    const router = async () =>
      (await network.management.listEdgeRouters({ query: { filter: 'name = "r3"' } })).data[0]!;
    const { id } = await router();
    await network.management.reEnrollEdgeRouter({ params: { id } });
    await eventually("the router is offline", async () => !(await router()).isOnline);
    await network.controller.line(new RegExp(`router \\\\?"${id}\\\\?" refused: the router is not enrolled`));
    expect(await router()).toMatchObject({ isOnline: false, isVerified: false });
    await network.stopProgram("r3");

    const token = join(folder, "again.jwt");
    writeFileSync(token, (await router()).enrollmentJwt ?? "", { mode: 0o600 });
    const enrolled = await network.runToEnd("router", "enroll", join(folder, "r3.yml"), "--jwt", token);
    expect(enrolled).toMatchObject({ code: 0 });
    await network.startRouter("r3");
    expect(await router()).toMatchObject({ isOnline: true, isVerified: true });
    expect(await network.stopProgram("r3")).toBe(0);
  });
});

describe("one database", { timeout: 60_000 }, () => {
  it("takes one controller: the second exits and names the first, which goes on", async () => {
    const second = await network.runToEnd("controller", "run", network.controllerFile);
    expect(second.code).toBe(4);
    expect(second.output).toContain(`process ${network.controller.pid}`);
    expect(second.output).toMatch(/in use by sallyport-controller/);
    const init = await network.runToEnd("controller", "init", "--dir", join(folder, "controller"));
    expect(init.code).toBe(4);
    await dialsAgain(client, "echo");
  });
});

describe("the end", { timeout: 90_000 }, () => {
  it("SIGTERM ends every program with code 0 and leaves no process, also when clients are connected", async () => {
    const pulse = await Pulse.start(client, "echo");
    const trees = [...network.routers, network.controller].map((program) => ({
      name: program.name,
      pids: processTree(program.pid),
    }));
    // The controller's database is several processes.
    expect(trees.at(-1)!.pids.length).toBeGreaterThan(3);
    for (const { name, pids } of trees) {
      expect(await network.stopProgram(name)).toBe(0);
      await eventually(`nothing is left of ${name}`, () => alive(pids).length === 0);
    }
    await pulse.gone;
  });

  it("init of a network that exists changes nothing and says so; everything comes up as it was", async () => {
    const init = await network.runToEnd("controller", "init", "--dir", join(folder, "controller"));
    expect(init.code).toBe(0);
    expect(init.output).toContain("nothing was changed");
    await network.startController();
    await Promise.all([network.startRouter("r1"), network.startRouter("r2")]);
    await dialsAgain(client, "echo");
  });

  it("a controller that was killed leaves a database that the next one takes over; routers end and start without one", async () => {
    const before = processTree(network.controller.pid);
    await network.stopProgram("controller", "SIGKILL");
    expect(await network.stopProgram("r1")).toBe(0);
    expect(await network.stopProgram("r2")).toBe(0);
    const routers = Promise.all([network.startRouter("r1"), network.startRouter("r2")]);
    await network.startController();
    await routers;
    await dialsAgain(client, "echo");
    const after = processTree(network.controller.pid);
    expect(await network.stopProgram("controller")).toBe(0);
    await eventually("nothing is left", () => alive([...before, ...after]).length === 0);
  });
});
