import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Context } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

type Event = Readonly<Record<string, unknown>>;

/** What a streaming command printed so far. */
class Stream {
  readonly #file: string;
  readonly program: Program;

  constructor(name: string, folder: string, env: Record<string, string>, args: readonly string[]) {
    this.#file = join(folder, `${name}.log`);
    this.program = new Program({ name, command: peer.path, args, env, logFile: this.#file });
  }

  get lines(): string[] {
    // What follows the last line break is nothing, or a line that is being written.
    return existsSync(this.#file) ? readFileSync(this.#file, "utf8").split("\n").slice(0, -1) : [];
  }

  get events(): Event[] {
    return this.lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line) as Event);
  }

  /** The first event with these fields; waits for it. */
  async event(fields: Event, timeoutMs = 20_000): Promise<Event> {
    return await eventually<Event>(
      `an event with ${JSON.stringify(fields)} in ${this.program.name}`,
      () =>
        this.events.find((event) => Object.entries(fields).every(([key, value]) => event[key] === value)) ??
        Promise.reject(new Error(`got ${this.events.length} others`)),
      timeoutMs,
    );
  }
}

describe.skipIf(peer.isMissing)("OpenZiti's CLI on our management channel", () => {
  let folder = "";
  let network: Network;
  let cli: PeerCli;
  let service: DeclaredService;
  let host: Context;
  let client: Context;
  const streams: Stream[] = [];

  const stream = (name: string, ...args: string[]): Stream => {
    const env = { ZITI_CONFIG_DIR: join(folder, "cli"), ZITI_HOME: folder };
    const started = new Stream(name, folder, env, ["fabric", "stream", ...args]);
    streams.push(started);
    return started;
  };
  const routerId = async (name: string): Promise<string> => {
    const { data } = await network.management.listEdgeRouters({ query: { filter: `name = "${name}"` } });
    return data[0]?.id ?? "";
  };

  beforeAll(async () => {
    folder = makeScratch("stream");
    network = await startNetwork(join(folder, "network"), { routerLines: "metrics:\n  reportInterval: 1s\n" });
    cli = new PeerCli(peer.path, folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
    service = await declareService(network, { name: "echo" });
    host = await Context.load(service.hostFile);
    const server = await host.listen("echo");
    server.on("connection", (socket) => void socket.on("error", () => {}).pipe(socket));
    client = await Context.load(service.clientFile);
    await eventually("a first echo", async () => {
      await exchange(await client.dial("echo"), 1, 1000);
      return true;
    });
  });

  afterAll(async () => {
    for (const { program } of streams) await program.stop();
    await client?.close();
    await host?.close();
    await network?.stop();
    removeScratch(folder);
  });

  it("streams what happens as it happens", async () => {
    const events = stream(
      "events",
      "events",
      ...["--circuits", "--links", "--routers", "--terminators", "--sessions", "--api-sessions", "--entity-change"],
      ...["--connect", "--sdk", "--entity-counts", "--entity-counts-interval", "1s", "--metrics", "--services"],
    );
    const counts = await events.event({ namespace: "entityCount" });
    expect(counts).toMatchObject({ error: "", counts: { routers: 2, services: 1, terminators: 1 } });

    const circuits = () => events.events.filter((event) => event.namespace === "circuit");
    const connection = await client.dial("echo");
    await exchange(connection, 2, 100_000);
    const created = await events.event({ namespace: "circuit", event_type: "created" });
    expect(created).toMatchObject({
      version: 2,
      service_id: service.id,
      link_count: 1,
      path: { nodes: [await routerId("r1"), await routerId("r2")] },
      event_src_id: expect.any(String),
      timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect(created.path_cost).toBeGreaterThan(0);
    expect(created.creation_timespan).toBeGreaterThanOrEqual(0);
    const deleted = await events.event({
      namespace: "circuit",
      event_type: "deleted",
      circuit_id: created.circuit_id,
    });
    expect(deleted.duration).toBeGreaterThan(0);
    expect(circuits().map((event) => event.event_type)).toEqual(["created", "deleted"]);

    const { data } = await network.management.createService({ body: { name: "watched", encryptionRequired: true } });
    const change = await events.event({ namespace: "entityChange", entityType: "services", eventType: "created" });
    expect(change).toMatchObject({ finalState: { id: data.id, name: "watched" }, initialState: null });
    await events.event({ namespace: "entityChange", eventType: "committed", eventId: change.eventId });
    await network.management.deleteService({ params: { id: data.id } });
    const gone = await events.event({ namespace: "entityChange", entityType: "services", eventType: "deleted" });
    expect(gone).toMatchObject({ initialState: { id: data.id }, finalState: null });

    const other = new PeerCli(peer.path, join(folder, "other"));
    await other.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
    const session = await events.event({ namespace: "apiSession", event_type: "created" });
    expect(session).toMatchObject({ type: "legacy", token: session.id, ip_address: "127.0.0.1" });
    const metric = await events.event({ namespace: "metrics" });
    expect(metric).toMatchObject({ version: 3, metrics: expect.any(Object) });
    expect([await routerId("r1"), await routerId("r2")]).toContain(metric.source_id);
  });

  it("reports routers, links, terminators and SDKs that go and come back", async () => {
    const events = stream(
      "routers",
      "events",
      ...["--routers", "--links", "--terminators", "--connect", "--sdk", "--entity-counts"],
      ...["--entity-counts-interval", "1s"],
    );
    const r2 = await routerId("r2");
    // The CLI does not say that a stream has begun: the first count does.
    await events.event({ namespace: "entityCount" });
    await network.restartRouter("r2");
    await events.event({ namespace: "router", event_type: "router-offline", router_id: r2, router_online: false });
    await events.event({ namespace: "router", event_type: "router-online", router_id: r2, router_online: true });
    await events.event({ namespace: "connect", src_type: "router", src_id: r2, dst_type: "ctrl" });
    const link = await events.event({ namespace: "link", event_type: "routerLinkNew" }, 60_000);
    expect([link.src_router_id, link.dst_router_id]).toContain(r2);
    const terminator = await events.event({ namespace: "terminator", service_id: service.id }, 60_000);
    expect(terminator).toMatchObject({ router_id: r2, total_terminators: expect.any(Number) });
    await events.event({ namespace: "sdk", event_type: "sdk-online" }, 60_000);
    await events.event({ namespace: "connect", src_type: "identity", dst_type: "router", dst_id: r2 }, 60_000);
    await eventually("an echo through the router that is back", async () => {
      await exchange(await client.dial("echo"), 3, 1000);
      return true;
    });
  });

  it("refuses filters that cannot be used, and says why", async () => {
    await expect(cli.run("fabric", "stream", "events", "--metrics", "--metrics-filter", "(")).rejects.toThrow(
      /error starting event streaming \[.*metricFilter.*\]/,
    );
  });

  it.each([
    ["router-links", ["--include-valid-links", "--include-valid-routers"], /linkId: .*ctrlState: LinkEstablished/],
    ["router-sdk-terminators", ["--include-valid-terminators", "--include-valid-routers"], /routerName: r2/],
    ["router-ert-terminators", ["--include-valid-routers"], /routerName: r1/],
    ["router-data-model", ["--include-successes"], /controllerId: .*success: true/],
    ["identity-connection-statuses", ["--include-successes"], /routerName: r1, success: true/],
  ])("validates %s", async (kind, flags, printed) => {
    const output = await eventually(
      `${kind} without findings`,
      async () => await cli.run("fabric", "validate", kind, ...flags),
      40_000,
    );
    expect(output).toMatch(/started validation of \d+ (routers|components)/);
    expect(output).toMatch(printed);
    expect(output).toMatch(/\b0 errors found/);
  });

  it("validates terminators, and deletes those that their router does not know", async () => {
    const valid = await cli.run("fabric", "validate", "terminators", "--include-valid");
    expect(valid).toContain("started validation of 1 terminators");
    expect(valid).toMatch(/binding: edge.*state: Valid, fixed: false/);

    const { data } = await network.management.createTerminator({
      body: { service: service.id, router: await routerId("r1"), binding: "edge", address: "nowhere" },
    });
    const found = await cli.run("fabric", "validate", "terminators", "--filter", `id = "${data.id}"`, "--fix-invalid");
    expect(found).toMatch(new RegExp(`id: ${data.id}, binding: edge.*state: InvalidUnknownTerminator, fixed: true`));
    const left = await network.management.listTerminators({ query: { filter: `id = "${data.id}"` } });
    expect(left.data).toEqual([]);
    await expect(cli.run("fabric", "validate", "terminators", "--filter", "no such = field")).rejects.toThrow(
      /failed to start terminator validation/,
    );
  });

  it("streams traces", async () => {
    const traces = stream("traces", "traces");
    const toggle = async (state: string, app: string) =>
      await cli.run("fabric", "stream", "traces", "toggle", "pipe", state, app);
    expect(await toggle("on", "^controller$")).toContain("tracing enabled successfully");
    // Routers confirm links, circuits and sessions, and report metrics every second.
    const line = await eventually<string>(
      "a traced message",
      () =>
        traces.lines.find((text) => /controller +\S+ <- #\d+ .*\bctrl +Metrics/.test(text)) ??
        Promise.reject(new Error(traces.lines.slice(-5).join("\n"))),
    );
    expect(line).toContain(await routerId(line.includes(await routerId("r1")) ? "r1" : "r2"));
    expect(await toggle("off", "^controller$")).toContain("is off");
    // The same of a router: what it says is in the answer.
    expect(await toggle("on", await routerId("r1"))).toMatch(/tracing of \d+ of \d+ channels is on/);
    expect(await toggle("off", await routerId("r1"))).toMatch(/channels is off/);
    await traces.program.stop();
  });

  it("is refused without an administrator's session", async () => {
    const anonymous = new PeerCli(peer.path, join(folder, "anonymous"));
    await expect(anonymous.run("fabric", "stream", "events")).rejects.toThrow();
    const others = new PeerCli(peer.path, join(folder, "logged-out"));
    await others.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
    const { data } = await network.management.listAPISessions({ query: { filter: "true sort by createdAt desc" } });
    await network.management.deleteAPISessions({ params: { id: data[0]?.id ?? "" } });
    await expect(others.run("fabric", "stream", "events")).rejects.toThrow(/401|UNAUTHORIZED|bad handshake/);
  });
});
