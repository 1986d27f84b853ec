import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PeerCli } from "./peer-cli.ts";
import { accepts, freePorts, Program } from "./program.ts";

/** A whole network of the peer: its controller and two routers, and a CLI that is logged in. */
export interface PeerNetwork {
  readonly folder: string;
  readonly cli: PeerCli;
  readonly controllerPort: number;
  readonly controller: Program;
  /** Routers `r1` and `r2`, linked; role attributes `r1`, `r2`. */
  readonly routers: readonly [Program, Program];
  stop(): Promise<void>;
}

/** The peer's controller alone, and a CLI that is logged in as `admin` with the password `admin`. */
export interface PeerController {
  readonly cli: PeerCli;
  readonly port: number;
  readonly controller: Program;
}

/** Starts the controller in `folder` on a free port of this machine; resolves when a login succeeds. Whoever calls stops it. */
export async function startPeerController(binary: string, folder: string): Promise<PeerController> {
  mkdirSync(folder, { recursive: true });
  const [port = 0, unusedRouterPort = 0] = await freePorts(2);
  const cli = new PeerCli(binary, folder);
  const controller = peerProgram(
    binary,
    folder,
    "peer-controller",
    ...["edge", "quickstart", "--home", join(folder, "qs"), "--no-router"],
    ...["--ctrl-address", "localhost", "--ctrl-port", String(port)],
    ...["--router-address", "localhost", "--router-port", String(unusedRouterPort)],
  );
  try {
    await controller.ready("the first login", async () => {
      await cli.edge("login", `localhost:${port}`, "-u", "admin", "-p", "admin", "-y");
      return true;
    });
    return { cli, port, controller };
  } catch (error) {
    await controller.stop();
    throw error;
  }
}

function peerProgram(binary: string, folder: string, name: string, ...args: string[]): Program {
  const logFile = join(folder, `${name}.log`);
  return new Program({ name, command: binary, args, env: { ZITI_HOME: folder }, cwd: folder, logFile });
}

/** Starts it in `folder` (emptied by whoever made it) on free ports of this machine; resolves when both routers are online. */
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

/** A router file in the peer's own style; every listener on this machine's loopback. */
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
