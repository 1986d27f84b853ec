import { copyFileSync, writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTcp, receiveNext, startEcho, type TcpServer } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { peerRouterFile } from "../../network/openziti/peer-network.ts";
import { startTunnelledService, type TunnelledService } from "../../network/openziti/tunnel.ts";
import { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

/** Links that lost a contest of duplicates stay listed for a while. */
const UP = 'state = "Connected"';

/** Rows of a table that the CLI prints, by column. */
function table(printed: string): Record<string, string>[] {
  const rows = printed
    .split("\n")
    .filter((line) => line.startsWith("│"))
    .map((line) =>
      line
        .split("│")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  const [columns = [], ...cells] = rows;
  return cells.map((row) => Object.fromEntries(columns.map((column, index) => [column, row[index] ?? ""])));
}

describe.skipIf(peer.isMissing)("OpenZiti's CLI looks into our fabric: two of our routers, one of OpenZiti", () => {
  let folder = "";
  let network: Network;
  let cli: PeerCli;
  let echo: TcpServer;
  let peerRouter: Program;
  let service: TunnelledService;
  let connection: Socket;

  const fabric = (...args: string[]): Promise<string> => cli.run("fabric", ...args);
  const listed = async (...args: string[]): Promise<Record<string, string>[]> => table(await fabric("list", ...args));
  const one = async (kind: string, filter: string): Promise<Record<string, string>> => {
    const [row] = await listed(kind, filter);
    if (row === undefined) throw new Error(`no ${kind} with ${filter}`);
    return row;
  };
  const connect = async (): Promise<Socket> => {
    const socket = await openTcp(service.port);
    socket.write("x");
    try {
      await receiveNext(socket, 1);
    } catch (error) {
      socket.destroy();
      throw error;
    }
    return socket;
  };

  beforeAll(async () => {
    folder = makeScratch("fabric-cli");
    echo = await startEcho();
    network = await startNetwork(join(folder, "network"));
    cli = new PeerCli(peer.path, folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
    const [edgePort = 0, linkPort = 0] = await freePorts(2);
    await cli.edge("create", "edge-router", "p1", "-o", join(folder, "p1.jwt"), "-t", "-a", "p1");
    const file = join(folder, "p1.yml");
    writeFileSync(file, peerRouterFile({ folder, name: "p1", controllerPort: network.port, edgePort, linkPort }));
    await cli.run("router", "enroll", file, "--jwt", join(folder, "p1.jwt"));
    peerRouter = new Program({
      name: "p1",
      command: peer.path,
      args: ["router", "run", file],
      env: { ZITI_HOME: folder },
      logFile: join(folder, "p1.log"),
    });
    await peerRouter.ready(
      "its links to both of our routers",
      async () => (await listed("links", UP)).length === 3,
      120_000,
    );
    service = await startTunnelledService({
      ...{ cli, binary: peer.path, folder, name: "echo", targetPort: echo.port },
      ...{ clientRouter: "r1", hostRouter: "p1" },
    });
    await service.client.ready("a first echo", async () => {
      connection = await connect();
      return true;
    });
  });

  afterAll(async () => {
    connection?.destroy();
    await service?.stop();
    await peerRouter?.stop();
    await network?.stop();
    await echo?.close();
    removeScratch(folder);
  });

  it("lists routers with versions and listeners", async () => {
    const routers = await listed("routers");
    expect(routers.map((row) => row.NAME).sort()).toEqual(["p1", "r1", "r2"]);
    for (const row of routers) {
      expect(row).toMatchObject({ ONLINE: "true", COST: "0", DISABLED: "false" });
      expect(row.LISTENERS).toMatch(/^1: tls:localhost:\d+$/);
      expect(row.VERSION).toMatch(/ on \w+\/\w+$/);
    }
    expect((await listed("routers", 'name = "r1" and connected')).length).toBe(1);
  });

  it("lists links with their latencies and costs", async () => {
    const links = await listed("links", `${UP} sort by cost desc`);
    expect(links).toHaveLength(3);
    for (const row of links) {
      expect(row).toMatchObject({ "STATIC COST": "1", STATE: "Connected", STATUS: "up" });
      expect(row["SRC LATENCY"]).toMatch(/ms$/);
      expect(Number(row["FULL COST"])).toBeGreaterThan(0);
    }
    expect(links.flatMap((row) => [row.DIALER, row.ACCEPTOR]).sort()).toEqual(["p1", "p1", "r1", "r1", "r2", "r2"]);
  });

  it("lists services, terminators with their dynamic cost, and the circuit with its path", async () => {
    expect(await one("services", 'name = "echo"')).toMatchObject({ "TERMINATOR STRATEGY": "smartrouting" });
    const terminator = await one("terminators", 'service.name = "echo"');
    expect(terminator).toMatchObject({ ROUTER: "p1", BINDING: "edge", PRECEDENCE: "default", "DYNAMIC COST": "2" });
    const circuit = await one("circuits", "true");
    expect(circuit).toMatchObject({ SERVICE: "echo", TERMINATOR: terminator.ID });
    expect(circuit.PATH).toMatch(/^r\/r1 -> l\/\w+ -> (r\/r2 -> l\/\w+ -> )?r\/p1$/);
  });

  it("asks every router, ours and OpenZiti's, about itself", async () => {
    const routers = await listed("routers");
    const idOf = (name: string): string => routers.find((row) => row.NAME === name)?.ID ?? "";
    const links = await fabric("inspect", "links");
    for (const name of ["r1", "r2", "p1"]) expect(links).toContain(`${idOf(name)}.links`);
    // A circuit moves when another path has become cheaper: what its routers say belongs to a path that it has before and after.
    const { circuit, detail } = await eventually("a circuit that stays on its path", async () => {
      const circuit = await one("circuits", "true");
      const detail = await fabric("inspect", "circuit", circuit.ID ?? "");
      const after = await one("circuits", `id = "${circuit.ID}"`);
      return after.PATH === circuit.PATH && { circuit, detail };
    });
    for (const name of ["r1", "r2", "p1"]) {
      const known = `${idOf(name)}.circuit:${circuit.ID}`;
      if (circuit.PATH?.includes(`r/${name}`)) expect(detail).toContain(known);
      else expect(detail).not.toContain(known);
    }
    expect(await fabric("inspect", "router-circuits")).toContain(circuit.ID);
    for (const kind of ["config", "metrics", "stackdump", "connected-routers", "terminator-costs", "sdk-terminators"]) {
      expect(await fabric("inspect", kind), kind).toMatch(/Results: \([1-9]\)/);
    }
    // Another controller's question, and one without an addressee.
    expect(await fabric("inspect", "links", "^no-such-router$")).toContain("Results: (0)");
  });

  it.each([
    ...["config", "connected-routers", "ert-terminators", "links", "metrics"],
    ...["identity-connection-statuses", "router-circuits", "router-controllers", "router-data-model", "stackdump"],
    ...["router-data-model-index", "router-edge-circuits", "router-messaging", "router-sdk-circuits"],
    ...["sdk-terminators", "terminator-costs"],
  ])("inspects %s", async (kind) => {
    expect(await fabric("inspect", kind)).toMatch(/Results: \([1-9]\d*\)/);
  });

  it.each(["cluster-config", "connected-peers", "data-model-index"])(
    "asks no other controller for %s: there is no cluster",
    async (kind) => {
      expect(await fabric("inspect", kind)).toContain("Results: (0)");
    },
  );

  it("follows the way of a service, hop by hop", async () => {
    const file = join(folder, "echo-client.json");
    const hops = await cli.edge("traceroute", "echo", "-c", file);
    expect(hops).toMatch(/^ *1 .*xgress\/edge/m);
    expect(await cli.edge("traceroute", "echo", "-c", file, "-n")).toMatch(/r1|p1/);
    await expect(cli.edge("traceroute", "nowhere", "-c", file)).rejects.toThrow();
  });

  it("finds services without a host", async () => {
    await cli.edge("create", "service", "unhosted");
    const report = await cli.edge("validate", "service-hosting");
    expect(report).toMatch(/unhosted/);
    expect(report).toMatch(/echo/);
    expect(await cli.edge("validate", "service-hosting", "--filter", 'name = "echo"')).not.toContain("unhosted");
    await cli.edge("delete", "service", "unhosted");
  });

  it("deletes what a filter selects", async () => {
    for (const name of ["where-1", "where-2"]) await fabric("create", "service", name);
    await fabric("create", "terminator", "where-1", "r2", "tcp:127.0.0.1:1", "--binding", "transport");
    await fabric("delete", "terminator", "where", 'service.name = "where-1"');
    expect(await listed("terminators", 'service.name = "where-1"')).toEqual([]);
    await fabric("delete", "service", "where", 'name contains "where-"');
    expect(await listed("services", 'name contains "where-"')).toEqual([]);
    const circuit = await one("circuits", "true");
    await fabric("delete", "circuit", "where", `id = "${circuit.ID}"`);
    expect(await listed("circuits", `id = "${circuit.ID}"`)).toEqual([]);
    connection.destroy();
    connection = await connect();
    await expect(fabric("list", "services", "bogus = 1")).rejects.toThrow(/400|INVALID_FILTER/);
    await expect(fabric("update", "service", "nowhere", "-n", "x")).rejects.toThrow();
    await expect(fabric("create", "service", "echo")).rejects.toThrow(/400|unique/);
  });

  it("changes a link's cost, takes it out of service, and has both ends close it", async () => {
    const link = await one("links", `${UP} sort by id limit 1`);
    const id = link.ID ?? "";
    await fabric("update", "link", id, "--static-cost", "500");
    expect(await one("links", `id = "${id}"`)).toMatchObject({ "STATIC COST": "500", STATUS: "up" });
    await fabric("update", "link", id, "--down");
    expect(await one("links", `id = "${id}"`)).toMatchObject({ STATUS: "down" });
    await fabric("update", "link", id, "--down=false");
    expect(await one("links", `id = "${id}"`)).toMatchObject({ STATUS: "up" });
    await fabric("delete", "link", id);
    // Its dialer makes it again, and what was set is gone with the old one.
    await eventually("a link in its place", async () => {
      const links = await listed("links", UP);
      return links.length === 3 && links.every((row) => row["STATIC COST"] === "1");
    });
  });

  it("ends circuits, gently and at once", async () => {
    await connect();
    expect((await listed("circuits")).length).toBeGreaterThanOrEqual(2);
    for (const { ID = "" } of await listed("circuits")) {
      await fabric("delete", "circuit", ID, ...(ID === (await listed("circuits"))[0]?.ID ? [] : ["--immediate"]));
    }
    expect(await listed("circuits")).toEqual([]);
    connection.destroy();
    connection = await connect();
    expect(await listed("circuits")).toHaveLength(1);
  });

  it("creates, updates and deletes routers, services and terminators", async () => {
    copyFileSync(join(folder, "p1.cert"), join(folder, "other.cert"));
    // The certificate of a router that is known already, and what it is refused for.
    await expect(fabric("create", "router", join(folder, "p1.cert"), "--name", "twin")).rejects.toThrow(
      /400|unique|duplicate/,
    );

    await fabric("create", "service", "plain", "--terminator-strategy", "weighted");
    await fabric("update", "service", "plain", "--terminator-strategy", "random");
    expect(await one("services", 'name = "plain"')).toMatchObject({ "TERMINATOR STRATEGY": "random" });
    await fabric("create", "terminator", "plain", "r2", "tcp:127.0.0.1:1", "--binding", "transport");
    const terminator = await one("terminators", 'service.name = "plain"');
    expect(terminator).toMatchObject({ ROUTER: "r2", BINDING: "transport", ADDRESS: "tcp:127.0.0.1:1" });
    await fabric("update", "terminator", terminator.ID ?? "", "--cost", "12", "--precedence", "required");
    expect(await one("terminators", `id = "${terminator.ID}"`)).toMatchObject({ COST: "12", PRECEDENCE: "required" });
    await fabric("delete", "terminator", terminator.ID ?? "");
    await fabric("delete", "service", "plain");
    expect(await listed("services", 'name = "plain"')).toEqual([]);

    await fabric("update", "router", "r2", "--cost", "7", "--no-traversal");
    expect(await one("routers", 'name = "r2"')).toMatchObject({ COST: "7", "NO TRAVERSAL": "true" });
    await fabric("update", "router", "r2", "--cost", "0", "--no-traversal=false");
  });

  it("creates, enrolls and deletes a transit router", async () => {
    const token = join(folder, "transit.jwt");
    await cli.edge("create", "transit-router", "transit", "-o", token, "--cost", "3");
    expect(
      table(await cli.edge("list", "transit-routers"))
        .map((row) => row.NAME)
        .sort(),
    ).toEqual(["p1", "r1", "r2", "transit"]);
    // `ziti edge update transit-router` does not exist in this version.
    await fabric("update", "router", "transit", "--cost", "9", "-n", "renamed");
    expect(await one("routers", 'name = "renamed"')).toMatchObject({ COST: "9", ONLINE: "false" });

    const [edgePort = 0, linkPort = 0] = await freePorts(2);
    const file = join(folder, "transit.yml");
    writeFileSync(file, peerRouterFile({ folder, name: "transit", controllerPort: network.port, edgePort, linkPort }));
    await cli.run("router", "enroll", file, "--jwt", token);
    const transit = new Program({
      name: "transit",
      command: peer.path,
      args: ["router", "run", file],
      env: { ZITI_HOME: folder },
      logFile: join(folder, "transit.log"),
    });
    try {
      await transit.ready("being online", async () => (await one("routers", 'name = "renamed"')).ONLINE === "true");
    } finally {
      await transit.stop();
    }
    await cli.edge("delete", "transit-router", "renamed");
    expect(await listed("routers", 'name = "renamed"')).toEqual([]);

    // Its certificate alone makes it a router of the fabric.
    await fabric("create", "router", join(folder, "transit.cert"), "--name", "bare", "--cost", "2", "-t", "a=b");
    expect(await one("routers", 'name = "bare"')).toMatchObject({ COST: "2", ONLINE: "false" });
    await fabric("delete", "router", "bare");
  });

  it("traces an identity, counts everything, and sees no cluster", async () => {
    expect(await cli.edge("trace", "identity", "echo-client", "-d", "10m")).toMatch(/enabled|until|trace/i);
    const counts = new Map(table(await cli.edge("list", "summary")).map((row) => [row["ENTITY TYPE"], row.COUNT]));
    expect(counts.get("routers")).toBe("3");
    expect(counts.get("routers.edge")).toBe("3");
    expect(counts.get("services")).toBe("1");
    expect(await fabric("list", "controllers")).toContain("results: none");
    const cluster = (...args: string[]) => cli.run("ops", "cluster", ...args);
    // All that the CLI tells of the error is its status.
    for (const args of [["list"], ["add", "tls:localhost:1"], ["remove", "other"], ["transfer-leadership"]]) {
      await expect(cluster(...args), args[0]).rejects.toThrow(/cluster\w+BadRequest|status 400/);
    }
  });
});
