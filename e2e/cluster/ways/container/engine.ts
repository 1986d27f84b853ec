/**
 * The process beside the engine that a cluster's container runs on: `node engine.ts PLAN.json`. The keeper starts it where it
 * otherwise starts the box, and hears the same from it: podman's in namespaces of its own, which end with it; beside
 * Docker on the machine, and then it removes the container when its input ends.
 */

import { once } from "node:events";
import { createReadStream, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { errorText } from "@sallyport/async";
import { GenericContainer, getContainerRuntimeClient, type StartedTestContainer, Wait } from "testcontainers";
import { BoxLayout, type BoxPlan } from "../../box/box-plan.ts";
import { hideMachine, passOn, takeCable } from "../../box/namespaces.ts";
import { Processes, run } from "../../box/processes.ts";
import { type Downward, listen, say, type Upward } from "../../keeper/protocol.ts";
import { type EnginePlan, INSIDE, type NodeImage } from "./engine-plan.ts";
import { packedPrograms } from "./packed.ts";
import { Podman } from "./podman.ts";

/** A container whose control group has a parent that is told. */
class Machine extends GenericContainer {
  withGroup(parent: string | undefined): this {
    if (parent !== undefined) this.hostConfig.CgroupParent = parent;
    return this;
  }
}

const API_PORT = 6443;
/** On a machine with much else to do. */
const PATIENCE_MS = 240_000;

const began = performance.now();
const stage = (name: string): void => say(process.stdout, { stage: name, ms: Math.round(performance.now() - began) });

const plan = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as EnginePlan;
const box = new BoxLayout(plan);
/** What the cluster writes, here and as `INSIDE.folder` in the container. */
const shared = box.file("cluster");
let container: StartedTestContainer | undefined;

let plugIn = (): void => {};
const cable = new Promise<void>((resolve) => {
  plugIn = resolve;
});
void listen<Downward>(process.stdin, () => plugIn()).then(async () => {
  if (plan.engine.kind === "docker") await leaveDocker();
  process.exit(0);
});

try {
  if (plan.engine.kind === "podman") await startPodman(plan.engine.root);
  else await loadIntoDocker(plan.engine.node);
  await start();
} catch (error) {
  say(process.stdout, { failed: errorText(error) });
}

async function startPodman(root: string): Promise<void> {
  await hideMachine([plan.folder, root, ...Object.values(plan.tools), process.execPath, import.meta.dirname]);
  await cable;
  await takeCable(box.addresses);
  passOn();
  const podman = new Podman(box, root, plan.engine.node);
  await podman.load();
  stage("image of the node");
  const processes = new Processes(box);
  processes.failure.catch((error: Error) => say(process.stdout, { failed: error.message }));
  processes.start(podman.service());
  Object.assign(process.env, {
    DOCKER_HOST: `unix://${podman.socket}`,
    // There is nothing to reap: the containers are in the namespaces of this process.
    TESTCONTAINERS_RYUK_DISABLED: "true",
    // Where ports of containers are open, for every client with a route to here.
    TESTCONTAINERS_HOST_OVERRIDE: box.addresses.box,
  });
  const until = performance.now() + PATIENCE_MS;
  while (!(await getContainerRuntimeClient().then(Boolean, () => false))) {
    if (performance.now() > until) throw new Error("podman does not answer");
  }
  stage("engine");
}

async function loadIntoDocker({ archive }: NodeImage): Promise<void> {
  const { container: containers } = await getContainerRuntimeClient();
  const answer = await containers.dockerode.loadImage(createReadStream(archive));
  // It is loaded when all of the answer is there.
  await once(answer.resume(), "end");
  stage("image of the node");
}

async function start(): Promise<void> {
  const { node, kind } = plan.engine;
  mkdirSync(join(shared, "program"), { recursive: true });
  for (const [name, text] of Object.entries(await packedPrograms())) writeFileSync(join(shared, "program", name), text);
  const inner: BoxPlan = {
    slot: plan.slot,
    nodes: plan.nodes,
    folder: INSIDE.folder,
    group: INSIDE.group,
    tools: INSIDE.tools,
    images: plan.images.map((_, index) => INSIDE.image(index)),
    isContained: true,
  };
  writeFileSync(box.file("cluster", "plan.json"), JSON.stringify(inner));
  const words: string[] = [];
  const machine = new Machine(node.name)
    .withGroup(kind === "podman" ? `/${plan.group}` : undefined)
    .withPrivilegedMode()
    .withExposedPorts(API_PORT)
    .withBindMounts([
      { source: shared, target: INSIDE.folder },
      ...plan.images.map((source, i) => ({ source, target: INSIDE.image(i), mode: "ro" as const })),
    ])
    .withLogConsumer((log) => follow(log as Readable, words))
    .withWaitStrategy(Wait.forLogMessage(/^\{"(ready|failed)":/).withStartupTimeout(PATIENCE_MS));
  container = await machine.start().catch((error: unknown) => {
    throw new Error(`the cluster's container: ${error}\n${words.slice(-20).join("\n")}`);
  });
  await run("ip", "route", "replace", box.addresses.network, "via", addressOf(container));
  writeFileSync(box.file("kubeconfig"), throughPort(container), { mode: 0o600 });
  say(process.stdout, { ready: { kubeconfig: box.file("kubeconfig"), folder: shared, slot: plan.slot } });
}

/** What the cluster says is passed on, save that it is ready: then the way to it is not, yet. */
async function follow(log: Readable, words: string[]): Promise<void> {
  log.on("error", () => {});
  log.on("data", (chunk: Buffer) => words.push(...chunk.toString().trimEnd().split("\n")));
  await listen<Upward>(log, (message) => {
    if ("stage" in message) say(process.stdout, { ...message, stage: `in the container: ${message.stage}` });
    else if ("failed" in message) say(process.stdout, message);
  });
}

function addressOf(started: StartedTestContainer): string {
  const [network] = started.getNetworkNames();
  if (network === undefined) throw new Error("the cluster's container is in no network");
  return started.getIpAddress(network);
}

/** The admin's kubeconfig, by the port that the engine has opened for that of the API server. */
function throughPort(started: StartedTestContainer): string {
  const config = JSON.parse(readFileSync(box.file("cluster", "certificates", "admin.kubeconfig"), "utf8")) as {
    clusters: [{ cluster: object }];
  };
  Object.assign(config.clusters[0].cluster, {
    server: `https://${started.getHost()}:${started.getMappedPort(API_PORT)}`,
    // One of the names in the certificate of the API server, whatever the engine's address is.
    "tls-server-name": "localhost",
  });
  return JSON.stringify(config);
}

async function leaveDocker(): Promise<void> {
  await container?.stop({ timeout: 0 });
  await run("ip", "route", "delete", box.addresses.network).catch(() => {});
}
