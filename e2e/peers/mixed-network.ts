import { writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { exchangeThenEnd, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { routerFile } from "../network/network.ts";
import { type BareController, startBareController } from "../network/openziti/bare-controller.ts";
import type { PeerCli } from "../network/openziti/peer-cli.ts";
import { peerRouterFile } from "../network/openziti/peer-network.ts";
import { startTunnelledService, type TunnelledService } from "../network/openziti/tunnel.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

const MAIN = join(import.meta.dirname, "..", "..", "router", "src", "main.ts");

/** Two routers, "mine" is ours and "theirs" OpenZiti's, and a service of OpenZiti's tunnelers in each direction. */
export interface MixedNetwork {
  readonly controller: BareController;
  /** From our router to OpenZiti's, and the other way. */
  readonly services: readonly [TunnelledService, TunnelledService];
  close(): Promise<void>;
}

/** What the services of a network are for. */
export interface Traffic {
  serve(): Promise<TcpServer>;
  /** A small transfer; rejects when it does not come through. */
  attempt(socket: Socket): Promise<void>;
}

const ECHOES: Traffic = { serve: startEcho, attempt: (socket) => exchangeThenEnd(socket, 1, 100) };

/**
 * @param dialer the router that dials the link; the other one only listens
 * @param theirSettings changes the file of OpenZiti's router
 */
export async function startMixedNetwork(
  whose: "ours" | "OpenZiti's",
  dialer: "mine" | "theirs",
  traffic: Traffic = ECHOES,
  theirSettings: (text: string) => string = (text) => text,
): Promise<MixedNetwork> {
  const folder = makeScratch("mixed");
  const undo: (() => unknown)[] = [() => removeScratch(folder)];
  const close = async (): Promise<void> => {
    for (const step of undo.splice(0).toReversed()) await step();
  };
  try {
    return { ...(await start(whose, dialer, traffic, theirSettings, folder, undo)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function start(
  whose: "ours" | "OpenZiti's",
  dialer: "mine" | "theirs",
  traffic: Traffic,
  theirSettings: (text: string) => string,
  folder: string,
  undo: (() => unknown)[],
): Promise<Omit<MixedNetwork, "close">> {
  const target = await traffic.serve();
  undo.push(() => target.close());
  const controller = await startBareController(whose, peer.path, folder);
  undo.push(() => controller.stop());
  const { cli, port } = controller;
  const [ourPort = 0, edgePort = 0, linkPort = 0] = await freePorts(3);
  const drop = (text: string, part: "dialers" | "listeners"): string =>
    text.replace(new RegExp(`^  ${part}:\\n(?: {4}.*\\n)*`, "m"), "");
  for (const [name, text] of [
    ["mine", routerFile({ folder, name: "mine", controllerPort: port, port: ourPort })],
    ["theirs", theirSettings(peerRouterFile({ folder, name: "theirs", controllerPort: port, edgePort, linkPort }))],
  ] as const) {
    const kept = drop(text, name === dialer ? "listeners" : "dialers");
    const program = await startEnrolledRouter(controller, folder, name, kept);
    undo.push(() => program.stop());
  }
  await linked(controller);
  const services: TunnelledService[] = [];
  for (const [name, clientRouter, hostRouter] of [
    ["there", "mine", "theirs"],
    ["back", "theirs", "mine"],
  ] as const) {
    const binary = peer.path;
    const service = await startTunnelledService({
      cli,
      binary,
      folder,
      name,
      targetPort: target.port,
      clientRouter,
      hostRouter,
    });
    services.push(service);
    undo.push(() => service.stop());
    await service.client.ready("a first transfer", async () => {
      await traffic.attempt(await openTcp(service.port));
      return true;
    });
  }
  const [there, back] = services;
  if (there === undefined || back === undefined) throw new Error("a service for each direction was expected");
  return { controller, services: [there, back] };
}

/** Enrolls a router that also is a tunneler, and runs it with this configuration: "mine" is ours, "theirs" OpenZiti's. */
export async function startEnrolledRouter(
  { cli }: BareController,
  folder: string,
  name: "mine" | "theirs",
  configuration: string,
): Promise<Program> {
  const kind = name === "mine" ? "ours" : "OpenZiti 1.6";
  const start = await enrolledRouter({ cli, folder, name, kind, configuration });
  return start();
}

/** Whose router: ours, or OpenZiti's of either generation. */
export type RouterKind = "ours" | "OpenZiti 1.6" | "OpenZiti 2.x";

/** Makes a router that also is a tunneler, with its name as role attribute, and enrolls it with this configuration. @returns what starts it */
export async function enrolledRouter(o: {
  readonly cli: PeerCli;
  readonly folder: string;
  readonly name: string;
  readonly kind: RouterKind;
  readonly configuration: string;
  readonly env?: Readonly<Record<string, string>>;
}): Promise<() => Program> {
  const { cli, folder, name, kind } = o;
  const file = join(folder, `${name}.yml`);
  const token = join(folder, `${name}.jwt`);
  writeFileSync(file, o.configuration);
  await cli.edge("create", "edge-router", name, "-o", token, "-t", "-a", name);
  const command = { ours: process.execPath, "OpenZiti 1.6": peer.path, "OpenZiti 2.x": peer.generation2.path }[kind];
  const start = (action: string, ...args: string[]): Program =>
    new Program({
      ...{ name: `${name} ${action}`, command, cwd: folder, logFile: join(folder, `${name}.log`) },
      args: [kind === "ours" ? MAIN : "router", action, file, ...args],
      env: { ZITI_HOME: folder, ...o.env },
    });
  const code = await start("enroll", "--jwt", token).exited;
  if (code !== 0) throw new Error(`router ${name} was not enrolled: exit code ${code}`);
  return () => start("run");
}

/** Resolves once there is a link between "mine" and "theirs". */
export async function linked({ cli }: BareController): Promise<void> {
  await eventually(
    "a link",
    async () => /mine.*theirs|theirs.*mine/s.test(await cli.run("fabric", "list", "links")),
    60_000,
  );
}
