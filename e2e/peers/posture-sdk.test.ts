import { once } from "node:events";
import { copyFileSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import type { ApiClient } from "@sallyport/api";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { loggedIn } from "../network/login/identity-file.ts";
import { administrator, startNetwork } from "../network/network.ts";
import { PeerCli } from "../network/openziti/peer-cli.ts";
import { startPeerNetwork } from "../network/openziti/peer-network.ts";
import { declareService } from "../network/openziti/tunnel.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

/** A network of Sallyport or of OpenZiti. */
interface Side {
  readonly cli: PeerCli;
  readonly management: ApiClient<"management">;
  readonly port: number;
  /** Restarts the controller; absent where reports do not outlive that. */
  restart?(): Promise<void>;
  stop(): Promise<void>;
}

async function startOurs(folder: string): Promise<Side> {
  const network = await startNetwork(join(folder, "network"));
  const { port, management } = network;
  const cli = new PeerCli(peer.path, folder);
  await cli.edge("login", `localhost:${port}`, "-u", "admin", "-p", network.adminPassword, "-y");
  return { cli, management, port, restart: () => network.restartController(), stop: () => network.stop() };
}

async function startPeers(folder: string): Promise<Side> {
  const network = await startPeerNetwork(peer.path, join(folder, "network"));
  const { cli, controllerPort: port } = network;
  const management = await administrator(port, "admin");
  const stop = async (): Promise<void> => {
    management.close();
    await network.stop();
  };
  return { cli, management, port, stop };
}

const SIDES = [
  { whose: "ours", start: startOurs },
  { whose: "OpenZiti's", start: startPeers },
] as const;

const VERSION = "6.1.0";
const DOMAIN = "corp.example";

/**
 * The same on both sides: what clients are told, what they report, and what comes of it. Clients look every 10 seconds whether there is
 * something new to report. They have old sessions: with a login by OIDC they report to routers (`oidc/posture`).
 */
describe.skipIf(peer.postureClient === "").each(SIDES)(
  "posture as OpenZiti's SDKs report it to $whose",
  ({ start }) => {
    let folder = "";
    let side: Side;
    let echo: TcpServer;
    let clientFile = "";
    let watchedPath = "";
    const programs: Program[] = [];

    beforeAll(async () => {
      folder = makeScratch("posture-sdk");
      echo = await startEcho();
      side = await start(folder);
      const { cli } = side;
      const files = await declareService({ cli, binary: peer.path, folder, name: "echo", targetPort: echo.port });
      clientFile = files.clientFile;
      run("host", peer.path, "tunnel", "host", "-i", files.hostFile);
      watchedPath = join(folder, "watched");
      copyFileSync(peer.postureClient, watchedPath);
      await cli.edge("create", "posture-check", "os", "system", "-o", `Linux:>=${VERSION},macOS:>=${VERSION}`);
      await cli.edge("create", "posture-check", "domain", "domain", "-d", DOMAIN);
      await cli.edge("create", "posture-check", "process", "process", "Linux", watchedPath);
      await cli.edge("create", "posture-check", "process-multi", "processes", "AnyOf", "Linux,macOS", "/a,/b");
      await cli.edge("create", "posture-check", "mfa", "code", "-s", "600");
    });

    afterAll(async () => {
      for (const program of programs.toReversed()) await program.stop();
      await side?.stop();
      await echo?.close();
      removeScratch(folder);
    });

    function run(name: string, command: string, ...args: string[]): Program {
      const logFile = join(folder, `${name}.log`);
      const program = new Program({ name, command, args, env: { ZITI_HOME: folder }, logFile });
      programs.push(program);
      return program;
    }

    /** The client's policy asks for exactly these checks from now on. */
    const ask = async (...checks: string[]): Promise<void> => {
      const roles = checks.map((name) => `@${name}`).join(",");
      await side.cli.edge("update", "service-policy", "echo-client", "--posture-check-roles", roles);
    };
    const identity = async (name: string): Promise<string> => {
      const { data } = await side.management.listIdentities({ query: { filter: `name = "${name}"` } });
      return data[0]?.id ?? "";
    };
    const reported = async (name: string) =>
      (await side.management.getIdentityPostureData({ params: { id: await identity(name) } })).data;
    /** That the watched process runs. */
    const hasReported = async (name: string) => (await reported(name)).processes?.[0]?.isRunning === true;
    const refusals = async (name: string) =>
      (await side.management.getIdentityFailedServiceRequests({ params: { id: await identity(name) } })).data;

    it("they receive the queries, with the same fields", async () => {
      await ask("system", "domain", "process", "processes", "code");
      expect(await queriesOf(clientFile, side.port)).toEqual({
        policyId: "string",
        policyType: "Dial",
        isPassing: false,
        queries: {
          OS: QUERY,
          DOMAIN: QUERY,
          MFA: { ...QUERY, timeout: 600, timeoutRemaining: 0 },
          PROCESS: { ...QUERY, process: { osType: "Linux", path: watchedPath } },
          PROCESS_MULTI: {
            ...QUERY,
            processes: [
              { osType: "Linux", path: "/a" },
              { osType: "macOS", path: "/b" },
            ],
          },
        },
      });
    });

    it("an application reports when it dials, and dials only while it passes", async () => {
      await ask("system", "domain");
      const port = await freePort();
      const client = run("client", peer.postureClient, clientFile, "echo", String(port), VERSION, DOMAIN, "legacy");
      await client.line(/^ready$/);
      await client.ready("a dial", () => answers(port));
      expect(await reported("echo-client")).toMatchObject({
        os: { type: process.platform, version: VERSION },
        domain: { domain: DOMAIN },
      });

      if (side.restart !== undefined) {
        // It has sent these values once, and does not send them again.
        const { os } = await reported("echo-client");
        await side.restart();
        await client.ready("a dial after the restart", () => answers(port));
        expect((await reported("echo-client")).os?.lastUpdatedAt).toBe(os?.lastUpdatedAt);
      }

      const stream = await openEcho(port);
      await side.cli.edge("update", "posture-check", "os", "system", "-o", "Windows");
      await stream.ended;
      expect(await answers(port)).toBe(false);
      const [refusal] = (await refusals("echo-client")).slice(-1);
      expect(refusal).toMatchObject({ serviceName: "echo", sessionType: "Dial" });
      expect(refusal?.policyFailures?.[0]).toMatchObject({
        policyName: "echo-client",
        checks: [{ postureCheckType: "OS" }],
      });
      await side.cli.edge("update", "posture-check", "os", "system", "-o", "Linux,macOS");
      await client.ready("a dial after the check was loosened", () => answers(port));

      // What it reports for a check that comes later, it reports when it dials next.
      const watched = run("watched", watchedPath, "wait");
      await ask("process");
      await client.ready("its report", async () => {
        await answers(port);
        return await hasReported("echo-client");
      });
      await client.ready("a dial after the new check", () => answers(port));
      const until = await openEcho(port);
      await watched.stop();
      await until.ended;
      expect(await answers(port)).toBe(false);
      await client.stop();
    });

    it("a tunneler reports processes in time, and its system never", async () => {
      await ask();
      const file = join(folder, "tunneler.json");
      await side.cli.edge("create", "identity", "tunneler", "-o", join(folder, "tunneler.jwt"), "-a", "echo-client");
      await side.cli.edge("enroll", join(folder, "tunneler.jwt"), "-o", file);
      const port = await freePort();
      const client = run("tunneler", peer.path, "tunnel", "proxy", "-i", file, `echo:${port}`, "--svcPollRate", "1");
      await client.line(/service is listening/);
      await client.ready("a dial without checks", () => answers(port));

      const watched = run("watched-by-tunneler", watchedPath, "wait");
      await ask("system", "process");
      await client.ready("its report", () => hasReported("tunneler"));
      expect((await reported("tunneler")).os?.lastUpdatedAt ?? null).toBeNull();
      await client.ready("a refusal", async () => !(await answers(port)));
      await ask("process");
      await client.ready("a dial after its report", () => answers(port));
      const stream = await openEcho(port);
      await watched.stop();
      await stream.ended;
      await client.stop();
    });
  },
);

const QUERY = {
  id: "string",
  createdAt: "string",
  updatedAt: "string",
  isPassing: false,
  timeout: -1,
  timeoutRemaining: -1,
};

/** What the owner of the identity file is told of its service's checks; ids and times as their types, fields without a value and links left out. */
async function queriesOf(identityFile: string, port: number) {
  const client = await loggedIn(identityFile, port);
  try {
    const { data } = await client.listServices();
    expect(data.map((service) => service.name)).toEqual(["echo"]);
    const [asked, ...others] = data[0]?.postureQueries ?? [];
    expect(others).toEqual([]);
    const told = (asked?.postureQueries ?? []).map(({ queryType, tags: _tags, _links, ...query }) => {
      const known = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
      const named = known.map(([key, value]) => [key, /^id$|At$/.test(key) ? typeof value : value]);
      return [queryType, Object.fromEntries(named)];
    });
    return {
      policyId: typeof asked?.policyId,
      policyType: asked?.policyType,
      isPassing: asked?.isPassing,
      queries: Object.fromEntries(told),
    };
  } finally {
    client.close();
  }
}

/** Whether a new connection gets an echo; a refusal, a reset and an early end are all a no. */
async function answers(port: number): Promise<boolean> {
  try {
    (await openEcho(port)).socket.destroy();
    return true;
  } catch {
    return false;
  }
}

/** A connection through which a byte went both ways; `ended` when the other side ends it, or it breaks. */
async function openEcho(port: number): Promise<{ socket: Socket; ended: Promise<void> }> {
  const socket = await openTcp(port);
  socket.on("error", () => {});
  const ended = new Promise<void>((resolve) => {
    socket.once("end", resolve);
    socket.once("close", () => resolve());
  });
  const answered = once(socket, "data").then(() => true);
  socket.write("y");
  if (!(await Promise.race([answered, ended.then(() => false)]))) {
    socket.destroy();
    throw new Error("the connection was ended before its echo");
  }
  socket.resume();
  void ended.then(() => socket.destroy());
  return { socket, ended };
}
