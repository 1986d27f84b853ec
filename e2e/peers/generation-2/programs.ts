import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { eventually } from "../../network/eventually.ts";
import { routerFile } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { peerRouterFile } from "../../network/openziti/peer-network.ts";
import { Program } from "../../network/program.ts";
import { enrolledRouter, type RouterKind } from "../mixed-network.ts";
import { peer } from "../peer.ts";

/** Starts OpenZiti's program of a generation, which logs to a file of its own in `folder`. */
export function startPeer(generation: "1.6" | "2.x", folder: string, name: string, ...args: string[]): Program {
  const command = generation === "1.6" ? peer.path : peer.generation2.path;
  return new Program({
    ...{ name, command, args, cwd: folder, logFile: join(folder, `${name}.log`) },
    // A quickstart finds itself by a socket in the folder for temporary files, among those of all other programs that have one there.
    env: { ZITI_HOME: folder, TMPDIR: folder },
  });
}

/** OpenZiti's controller of 2.x without routers, and its CLI, logged in as administrator. */
export interface Controller2 {
  readonly cli: PeerCli;
  /** API and control channel. */
  readonly port: number;
  /** Logs the CLI in again. */
  login(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts it in `folder` on a free port of this machine.
 * @param isOidc false: it announces no login by OIDC, so clients use the old one. With OIDC, access tokens are good for a minute, the least it takes.
 */
export async function startController2(folder: string, isOidc: boolean): Promise<Controller2> {
  const [port = 0, unused = 0] = await freePorts(2);
  const cli = new PeerCli(peer.generation2.path, folder);
  const login = async (): Promise<void> =>
    void (await cli.edge("login", `localhost:${port}`, "-u", "admin", "-p", "admin", "-y"));
  const home = join(folder, "qs");
  let controller = startPeer(
    "2.x",
    folder,
    "controller",
    ...["edge", "quickstart", "--home", home, "--no-router", "--ctrl-address", "localhost"],
    ...["--ctrl-port", String(port), "--router-address", "localhost", "--router-port", String(unused)],
  );
  const isUp = async (): Promise<boolean> => {
    await login();
    return true;
  };
  try {
    await controller.ready("the first login", isUp);
    await controller.stop();
    const file = join(home, "instance-1", "ctrl.yaml");
    const settings = readFileSync(file, "utf8");
    const oidc = isOidc ? "  oidc:\n    accessTokenDuration: 1m\n" : "";
    const changed = settings
      .replace(/^edge:\n/m, `edge:\n${oidc}`)
      .replace(/^ {2}api:\n/m, `  api:\n    disableOidcAutoBinding: ${!isOidc}\n`);
    writeFileSync(file, isOidc ? changed : changed.replace(/^ +- binding: edge-oidc\n +options: \{ \}\n/m, ""));
    controller = startPeer("2.x", folder, "controller", "controller", "run", file);
    // It lets administrators in before it leads its cluster of one, and changes nothing until then.
    await controller.ready("a change", async () => {
      await login();
      await cli.edge("create", "config-type", "changed");
      return true;
    });
    return { cli, port, login, stop: async () => void (await controller.stop()) };
  } catch (error) {
    await controller.stop();
    throw error;
  }
}

export interface EnrolledRouter {
  readonly name: string;
  readonly edgePort: number;
  /** Starts it; resolves when the controller says that it is online. */
  start(): Promise<Program>;
}

/**
 * Makes a router that also is a tunneler, with its name as role attribute, and enrolls it.
 * @param proxies services that it dials for its tunneler, like `echo:1234`
 */
export async function enrollRouter(o: {
  readonly cli: PeerCli;
  readonly controllerPort: number;
  readonly folder: string;
  readonly name: string;
  readonly kind: RouterKind;
  readonly proxies?: readonly string[];
}): Promise<EnrolledRouter> {
  const { cli, folder, name, kind, controllerPort, proxies = [] } = o;
  const [edgePort = 0, linkPort = 0] = await freePorts(2);
  const text =
    kind === "ours"
      ? routerFile({ folder, name, controllerPort, port: edgePort })
      : peerRouterFile({ folder, name, controllerPort, edgePort, linkPort });
  const services = proxies.map((service) => `        - ${service}\n`).join("");
  const tunnel = `  - binding: tunnel\n    options:\n      mode: ${proxies.length > 0 ? "proxy" : "host"}\n`;
  const listener = proxies.length > 0 ? `${tunnel}      services:\n${services}` : tunnel;
  const run = await enrolledRouter({
    ...{ cli, folder, name, kind, configuration: text.replace("\nlisteners:\n", `\nlisteners:\n${listener}`) },
    env: { SALLYPORT_LOG_LEVEL: "debug" },
  });
  const start = async (): Promise<Program> => {
    const router = run();
    await router.ready("being online", async () => (await online(cli, name)) === true);
    return router;
  };
  return { name, edgePort, start };
}

async function online(cli: PeerCli, name: string): Promise<unknown> {
  return (await cli.listed("edge-routers", `name = "${name}"`))[0]?.isOnline;
}

/** A link of two routers. One that is made again may have the same id, and then a higher iteration. */
export interface ListedLink {
  readonly id: string;
  readonly iteration: number;
}

/** The links between two routers that are up. */
export async function linksBetween(cli: PeerCli, a: string, b: string): Promise<ListedLink[]> {
  const links = await cli.fabricListed("links");
  return links
    .filter((link) => link.state === "Connected" && endsOf(link) === [a, b].toSorted().join(" "))
    .map(({ id, iteration }) => ({ id: String(id), iteration: Number(iteration) }));
}

/** Resolves once every two of these routers have a link, other than these old ones. */
export async function allLinked(
  cli: PeerCli,
  names: readonly string[],
  gone: readonly ListedLink[] = [],
): Promise<void> {
  const pairs = names.flatMap((a, index) => names.slice(index + 1).map((b) => [a, b] as const));
  const isOld = ({ id, iteration }: ListedLink): boolean =>
    gone.some((old) => old.id === id && old.iteration === iteration);
  await eventually(
    `links between all of ${names.join(", ")}`,
    async () => {
      for (const [a, b] of pairs) if ((await linksBetween(cli, a, b)).every(isOld)) return false;
      return true;
    },
    120_000,
  );
}

function endsOf(link: Readonly<Record<string, unknown>>): string {
  const { sourceRouter, destRouter } = link as Record<string, { readonly name?: string } | undefined>;
  return [sourceRouter?.name ?? "", destRouter?.name ?? ""].toSorted().join(" ");
}
