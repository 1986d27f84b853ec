import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { routerFile } from "../network/network.ts";
import { type BareController, startBareController } from "../network/openziti/bare-controller.ts";
import { startTunnelledService, type TunnelledService } from "../network/openziti/tunnel.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

const MAIN = join(import.meta.dirname, "..", "..", "router", "src", "main.ts");
const BYTES = 1_000_000;

type Fields = Readonly<Record<string, unknown>>;

const SIDES = [{ whose: "ours" }, { whose: "OpenZiti's" }] as const;

describe.skipIf(peer.isMissing).each(SIDES)("what operators see of our router on $whose controller", ({ whose }) => {
  let folder = "";
  let controller: BareController;
  let router: Program;
  let echo: TcpServer;
  let service: TunnelledService;
  let webPort = 0;
  let routerId = "";
  const programs: Program[] = [];

  /** A command that prints until it is stopped. */
  const stream = (name: string, ...args: string[]): { lines(): string[]; program: Program } => {
    const logFile = join(folder, `${name}.log`);
    const { env } = controller.cli;
    const program = new Program({ name, command: peer.path, args: ["fabric", "stream", ...args], env, logFile });
    programs.push(program);
    // What follows the last line break is nothing, or a line that is being written.
    const lines = () => (existsSync(logFile) ? readFileSync(logFile, "utf8").split("\n").slice(0, -1) : []);
    return { program, lines };
  };

  const get = async (path: string): Promise<{ status: number | undefined; body: string }> => {
    const sent = request({ host: "127.0.0.1", port: webPort, path, rejectUnauthorized: false }).end();
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    let body = "";
    for await (const chunk of response) body += String(chunk);
    return { status: response.statusCode, body };
  };

  const moved = async (): Promise<void> => {
    const socket = await openTcp(service.port);
    await exchange(socket, 7, BYTES);
    socket.destroy();
  };

  const agent = (...args: string[]): Promise<string> =>
    controller.cli.run("agent", ...args, "--pid", String(router.pid));

  const status = async (...args: string[]): Promise<{ code: number | null; output: string }> => {
    const asked = new Program({ name: "status", command: process.execPath, args: [MAIN, "status", ...args] });
    return { code: await asked.exited, output: asked.tail.join("\n") };
  };

  beforeAll(async () => {
    folder = makeScratch("observability");
    echo = await startEcho();
    controller = await startBareController(whose, peer.path, folder);
    const { cli } = controller;
    const [port = 0, web = 0] = await freePorts(2);
    webPort = web;
    await cli.edge("create", "edge-router", "seen", "-o", join(folder, "seen.jwt"), "-a", "seen");
    const file = join(folder, "seen.yml");
    const more = `
metrics: { reportInterval: 1s, intervalAgeThreshold: 1s }
healthChecks:
  ctrlPingCheck: { initialDelay: 1s, interval: 1s, timeout: 5s }
  linkCheck: { initialDelay: 0s }
web:
  - name: health
    bindPoints: [{ interface: "127.0.0.1:${web}", address: "localhost:${web}" }]
    apis: [{ binding: health-checks }, { binding: metrics }]
trace: { path: ${JSON.stringify(join(folder, "trace"))} }
profile:
  cpu: { path: ${JSON.stringify(join(folder, "profile"))} }
  memory: { path: ${JSON.stringify(join(folder, "memory"))}, intervalMs: 500 }
enableDebugOps: true
`;
    writeFileSync(file, routerFile({ folder, name: "seen", controllerPort: controller.port, port }) + more);
    const run = (...args: string[]): Program =>
      new Program({
        name: "seen",
        command: process.execPath,
        args: [MAIN, ...args],
        logFile: join(folder, "seen.log"),
      });
    const enrolled = run("enroll", file, "--jwt", join(folder, "seen.jwt"));
    expect(await enrolled.exited, enrolled.tail.join("\n")).toBe(0);
    router = run("run", file);
    routerId = /"routerId":"([^"]+)"/.exec(await router.line(/the router is running/))?.[1] ?? "";
    await router.line(/connected to the controller/);
    service = await startTunnelledService({
      ...{ cli, binary: peer.path, folder, name: "echo", targetPort: echo.port },
      ...{ clientRouter: "seen", hostRouter: "seen" },
    });
    await service.client.ready("a first echo", async () => {
      await exchange(await openTcp(service.port), 1, 100);
      return true;
    });
  });

  afterAll(async () => {
    for (const program of programs) await program.stop();
    await service?.stop();
    await router?.stop();
    await controller?.stop();
    await echo?.close();
    removeScratch(folder);
  });

  it("streams its metrics, and the usage of each circuit", async () => {
    const events = stream("events", "events", "--metrics", "--usage", "--usage-version", "3");
    const found = (): Fields[] =>
      events
        .lines()
        .filter((line) => line.startsWith("{"))
        .map((line) => JSON.parse(line) as Fields);
    await eventually("a metric of the router", () => {
      const metric = found().find((event) => event.namespace === "metrics" && event.source_id === routerId);
      return metric !== undefined;
    });
    await moved();
    const names = (): Set<unknown> =>
      new Set(found().flatMap((event) => (event.source_id === routerId ? [event.metric] : [])));
    for (const name of [
      ...["ingress.rx.bytesrate", "egress.tx.msgrate", "xgress.tx.acks", "edge.connect.successes"],
      ...["edge.connections", "xgress.tx_unacked_payloads", "fabric.tx.bytesrate", "ctrl_limiter.window_size"],
    ])
      await eventually(`${name} among the metrics`, () => names().has(name), 30_000);
    const usage = await eventually<Fields>("usage of the bytes that were moved", () => {
      const sums = new Map<unknown, Record<string, number>>();
      for (const event of found()) {
        if (event.namespace !== "fabric.usage" && event.namespace !== "usage") continue;
        const sum = sums.get(event.circuit_id) ?? {};
        sums.set(event.circuit_id, sum);
        for (const [kind, bytes] of Object.entries(event.usage as Record<string, number>))
          sum[kind] = (sum[kind] ?? 0) + bytes;
      }
      const full = [...sums.values()].find(
        (sum) => (sum["ingress.rx"] ?? 0) >= BYTES && (sum["ingress.tx"] ?? 0) >= BYTES,
      );
      return full ?? Promise.reject(new Error(JSON.stringify([...sums])));
    });
    // Encryption adds its headers; nothing is counted twice.
    for (const kind of ["ingress.rx", "ingress.tx", "egress.rx", "egress.tx"])
      expect(Number(usage[kind]) / BYTES, kind).toBeLessThan(1.1);
    await events.program.stop();
  });

  it("inspects it", async () => {
    const held = await openTcp(service.port);
    held.write("x");
    await once(held, "data");
    const inspect = (...args: string[]) => controller.cli.run("fabric", "inspect", ...args);
    for (const kind of [
      "config",
      "links",
      "metrics",
      "stackdump",
      "router-controllers",
      "sdk-terminators",
      "ert-terminators",
    ])
      expect(await inspect(kind), kind).toContain(`${routerId}.${kind}`);
    const circuits = await inspect("router-circuits");
    expect(circuits).toContain(`${routerId}.router-circuits`);
    expect(circuits).toMatch(/destinations/);
    for (const kind of ["router-edge-circuits", "router-sdk-circuits", "identity-connection-statuses"])
      expect(await inspect(kind), kind).toContain(`${routerId}.${kind}`);
    expect(await inspect("config")).not.toMatch(/PRIVATE KEY/);
    held.destroy();
  });

  it("is traced as long as an operator wants it", async () => {
    const traces = stream("traces", "traces");
    const toggle = (state: string): Promise<string> =>
      controller.cli.run("fabric", "stream", "traces", "toggle", "pipe", state, `^${routerId}$`, ".*");
    expect(await eventually("the answer", () => toggle("on"))).toMatch(/success|on/);
    const line = await eventually<string>(
      "a traced message",
      () =>
        traces.lines().find((text) => text.includes(routerId) && /Metrics/.test(text)) ??
        Promise.reject(new Error(traces.lines().slice(-5).join("\n"))),
    );
    expect(line).toContain("ctrl/");
    expect(await toggle("off")).toMatch(/success|off/);
    await traces.program.stop();
    expect(readFileSync(join(folder, "trace")).length).toBeGreaterThan(100);
  });

  it("answers health checks and scrapes", async () => {
    await eventually("a healthy router", async () => (await get("/health-checks")).status === 200);
    const { data } = JSON.parse((await get("/")).body) as { data: Fields };
    expect(data).toMatchObject({ healthy: true, checks: [{ id: "controllerPing" }, { id: "link.health" }] });
    // Meters look every five seconds.
    await eventually("the bytes that were moved, scraped", async () =>
      /^sallyport_router_ingress_rx_bytes_total [1-9]\d*$/m.test((await get("/metrics")).body),
    );
    expect((await get("/metrics")).body).toMatch(/^sallyport_router_ctrl_limiter_window_size [1-9]\d*$/m);
  });

  it("is known to local tools", async () => {
    expect(await controller.cli.run("agent", "list")).toMatch(new RegExp(`${router.pid} .*${routerId} .*router`));
    expect(await agent("stats")).toMatch(/num CPU/);
    expect(await agent("stack")).toMatch(/event loop/);
    expect(await agent("memstats")).toMatch(/rss/);
    expect(await agent("gc")).toContain("ok");
    expect(await agent("set-log-level", "debug")).toContain("debug");
    expect(await agent("router", "dump-routes")).toMatch(/circuits: \d+/);
    expect(await agent("router", "dump-links")).toMatch(/no links|id: .* dest: .* protocol: tls/);
    expect(await agent("router", "quiesce")).toContain("router quiesced");
    expect(await agent("router", "dequiesce")).toContain("router dequiesced");
    expect(await agent("router", "disconnect")).toContain("disconnected from");
    expect(await agent("router", "reconnect")).toContain("dialling");
    await router.line(/"isReconnect":true/);
  });

  it("shows its status", async () => {
    await eventually("a connected router", async () => (await get("/health-checks")).status === 200);
    const { code, output } = await status("--pid", String(router.pid));
    expect(output).toMatch(new RegExp(`^router ${routerId}, healthy\n`));
    expect(output).toMatch(/controllers: 1 of 1 connected/);
    expect(output).toMatch(/^ {2}web +https:127\.0\.0\.1:\d+/m);
    expect(code).toBe(0);
    const json = JSON.parse((await status("--pid", String(router.pid), "--json")).output) as Fields;
    expect(json).toMatchObject({ id: routerId, pid: router.pid, healthy: true, sdks: 2, hostedBySdks: 1 });
    const none = await status("--pid", "1");
    expect(none).toMatchObject({ code: 1, output: expect.stringMatching(/no router listens on/) });
  });

  it("logs its tables, and leaves its profiles", async () => {
    router.signal("SIGUSR1");
    await router.line(/forwarding tables/);
    router.signal("SIGUSR2");
    await eventually("the profile of the CPU", () => existsSync(join(folder, "profile")));
    expect(existsSync(join(folder, "memory"))).toBe(true);
    expect(router.isRunning).toBe(true);
  });

  it("is decommissioned by its operator, and ends", async () => {
    expect(await agent("router", "decommission")).toContain("router decommissioned");
    expect(await router.exited).toBe(0);
    expect(await controller.cli.edge("list", "edge-routers")).not.toContain(routerId);
  });
});
