import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { accepts, Program } from "../program.ts";
import { PeerCli } from "./peer-cli.ts";

/** More than any test fills. */
const ROOM_BYTES = 64 * 1024 * 1024;
/** Together they are more than what the file of a new network has. */
const FILLERS = ["filler-1", "filler-2"];
const FILLER_BYTES = 400_000;

/** A whole network of OpenZiti: its controller and two routers, and a CLI that is logged in. */
export interface PeerNetwork {
  readonly folder: string;
  readonly cli: PeerCli;
  readonly controllerPort: number;
  readonly controller: Program;
  /** Routers `r1` and `r2`, linked; role attributes `r1`, `r2`. */
  readonly routers: readonly [Program, Program];
  stop(): Promise<void>;
}

/** OpenZiti's controller alone, and a CLI that is logged in as `admin` with the password `admin`. */
export interface PeerController {
  readonly cli: PeerCli;
  readonly port: number;
  readonly controller: Program;
}

/** Starts the controller in `folder` on a free port of this machine; resolves when a login succeeds. The caller stops it. */
export async function startPeerController(binary: string, folder: string): Promise<PeerController> {
  mkdirSync(folder, { recursive: true });
  const [port = 0, unusedRouterPort = 0] = await freePorts(2);
  const cli = new PeerCli(binary, folder);
  const home = join(folder, "qs");
  const controller = peerProgram(
    binary,
    folder,
    "peer-controller",
    ...["edge", "quickstart", "--home", home, "--no-router"],
    ...["--ctrl-address", "localhost", "--ctrl-port", String(port)],
    ...["--router-address", "localhost", "--router-port", String(unusedRouterPort)],
  );
  try {
    await controller.ready("the first login", async () => {
      await cli.edge("login", `localhost:${port}`, "-u", "admin", "-p", "admin", "-y");
      return true;
    });
    await makeRoom(cli, folder, join(home, "db", "ctrl.db"));
    return { cli, port, controller };
  } catch (error) {
    await controller.stop();
    throw error;
  }
}

/**
 * Gives the database of OpenZiti's controller all the room that it will need. v1.6.0 ended now and then with `fatal error: fault`, copying the peer
 * data of a terminator into an answer. What fits (*inference*): the text lay in the mapped file, and was used after its transaction, when the file had grown and
 * was mapped elsewhere. A file that never outgrows its mapping is never mapped again.
 */
async function makeRoom(cli: PeerCli, folder: string, database: string): Promise<void> {
  truncateSync(database, ROOM_BYTES);
  // It maps the longer file when it next needs more than it has mapped: that is made to happen now.
  const file = join(folder, "filler.json");
  writeFileSync(file, JSON.stringify({ text: "x".repeat(FILLER_BYTES) }));
  await cli.edge("create", "config-type", "filler");
  for (const name of FILLERS) await cli.edge("create", "config", name, "filler", "-f", file);
  for (const name of FILLERS) await cli.edge("delete", "config", name);
  await cli.edge("delete", "config-type", "filler");
}

function peerProgram(binary: string, folder: string, name: string, ...args: string[]): Program {
  const logFile = join(folder, `${name}.log`);
  return new Program({ name, command: binary, args, env: { ZITI_HOME: folder }, cwd: folder, logFile });
}

/** Starts it in `folder` (its maker empties it) on free ports of this machine; resolves when both routers are online. */
export async function startPeerNetwork(binary: string, folder: string): Promise<PeerNetwork> {
  const { cli, port: controllerPort, controller } = await startPeerController(binary, folder);
  const routerPorts = await freePorts(4);
  const programs: Program[] = [controller];
  const start = (name: string, ...args: string[]): Program => {
    const program = peerProgram(binary, folder, name, ...args);
    programs.push(program);
    return program;
  };
  const stop = async (): Promise<void> => {
    for (const program of programs.toReversed()) await program.stop();
  };
  try {
    const routers: Program[] = [];
    for (const [index, name] of ["r1", "r2"].entries()) {
      const [edgePort = 0, linkPort = 0] = routerPorts.slice(2 * index);
      await cli.edge("create", "edge-router", name, "-o", join(folder, `${name}.jwt`), "-t", "-a", name);
      writeFileSync(join(folder, `${name}.yml`), peerRouterFile({ folder, name, controllerPort, edgePort, linkPort }));
      await cli.run("router", "enroll", join(folder, `${name}.yml`), "--jwt", join(folder, `${name}.jwt`));
      const router = start(name, "router", "run", join(folder, `${name}.yml`));
      await router.ready("its edge listener", () => accepts(edgePort));
      routers.push(router);
    }
    const [r1, r2] = routers;
    if (r1 === undefined || r2 === undefined) throw new Error("two routers were to be started");
    await controller.ready("the link between the routers", async () =>
      (await cli.run("fabric", "list", "links")).includes("r1"),
    );
    return { folder, cli, controllerPort, controller, routers: [r1, r2], stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A router file in OpenZiti's own style; every listener on this machine's loopback. */
export function peerRouterFile(o: {
  folder: string;
  name: string;
  controllerPort: number;
  edgePort: number;
  linkPort: number;
}): string {
  const file = (kind: string): string => JSON.stringify(join(o.folder, `${o.name}.${kind}`));
  return `v: 3
identity:
  cert: ${file("cert")}
  server_cert: ${file("server.chain.cert")}
  key: ${file("key")}
  ca: ${file("cas")}
ctrl:
  endpoint: tls:localhost:${o.controllerPort}
link:
  dialers:
    - binding: transport
  listeners:
    - binding: transport
      bind: tls:127.0.0.1:${o.linkPort}
      advertise: tls:localhost:${o.linkPort}
listeners:
  - binding: edge
    address: tls:127.0.0.1:${o.edgePort}
    options:
      advertise: localhost:${o.edgePort}
      connectTimeoutMs: 5000
edge:
  csr:
    country: "US"
    province: "NC"
    locality: "Charlotte"
    organization: "Example"
    organizationalUnit: "Test"
    sans:
      dns: ["localhost"]
      ip: ["127.0.0.1"]
forwarder:
  latencyProbeInterval: 0
  xgressDialQueueLength: 1000
  xgressDialWorkerCount: 128
  linkDialQueueLength: 1000
  linkDialWorkerCount: 32
`;
}
