import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { pause, untilAborted } from "@sallyport/async";
import { freePort } from "@sallyport/wire/testing/free-ports";
import type { FoundPod } from "../../operator/src/children/workload.ts";
import { CONFIG_FILE, PATHS, TOKEN_FILE } from "../../operator/src/kinds/edge-router/render/names.ts";
import { Program } from "../network/program.ts";

const ROUTER = join(import.meta.dirname, "..", "..", "router", "src", "main.ts");
const LOOK_MS = 100;
/** Between attempts of a container that failed. */
const RETRY_MS = 300;

interface Container {
  readonly name: string;
  readonly args: readonly string[];
}

interface Volume {
  readonly name: string;
  readonly configMap?: { readonly name: string };
  readonly secret?: { readonly secretName: string };
}

/** What of a pod, or of the template of one, is looked at. */
export interface PodSpec {
  readonly initContainers: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes: readonly Volume[];
}

export type PodStatus = NonNullable<FoundPod["status"]>;

export interface RouterPodOptions {
  readonly name: string;
  readonly spec: PodSpec;
  /** Folder for the files of all pods. */
  readonly folder: string;
  /** Folder that is its volume. */
  readonly volume: string;
  /** The value of a key of a ConfigMap as it is now, as text. */
  readonly config: (name: string, key: string) => Promise<string | undefined>;
  /** That of a Secret. */
  readonly secret: (name: string, key: string) => Promise<string | undefined>;
  /** Parts of the status of the pod that are new. */
  readonly tell: (status: PodStatus) => Promise<void>;
  /** File of the router's program; its sources when absent. */
  readonly program?: string | undefined;
  /** Each time that the router itself is started. */
  readonly onStart: () => void;
}

/**
 * A pod of a router as a process of this machine: the containers' arguments with the rendered files. Only paths and the port of the probes are put in their
 * places. Resolves when the signal has ended it.
 */
export async function runRouterPod(o: RouterPodOptions, signal: AbortSignal): Promise<void> {
  const { name, spec, tell } = o;
  const place = join(o.folder, `pod-${name}-${randomUUID()}`);
  mkdirSync(place);
  const healthPort = await freePort();
  const start = async (container: Container): Promise<Program> => {
    await mount(o, place, healthPort);
    const args = container.args.map((arg) =>
      arg.replace(CONFIG_FILE, join(place, "router.yml")).replace(TOKEN_FILE, join(place, "token.jwt")),
    );
    return new Program({
      name,
      command: process.execPath,
      args: [o.program ?? ROUTER, ...args],
      env: { TMPDIR: place, HOST_IP: "127.0.0.1" },
      logFile: join(o.folder, `${name}.log`),
    });
  };
  const initial = { name: "enroll", restartCount: 0 };
  for (let restarts = 0; ; restarts++) {
    const [container] = spec.initContainers;
    if (container === undefined || signal.aborted) return;
    const program = await start(container);
    const code = await program.exited;
    if (signal.aborted) return;
    if (code === 0) break;
    const terminated = { exitCode: code ?? 137, reason: "Error", message: program.tail.slice(-2).join("\n") };
    const waiting = { reason: "CrashLoopBackOff", message: "back-off restarting failed container" };
    const status = { ...initial, restartCount: restarts, state: { waiting }, lastState: { terminated } };
    await tell({ initContainerStatuses: [status] });
    await pause(RETRY_MS, signal);
  }
  const initContainerStatuses = [{ ...initial, state: { terminated: { exitCode: 0, reason: "Completed" } } }];
  await tell({ phase: "Running", initContainerStatuses });
  const [container] = spec.containers;
  if (container === undefined) return;
  o.onStart();
  const program = await start(container);
  const stopped = untilAborted(signal);
  const failed = program.exited.then(async (code) => {
    if (signal.aborted) return;
    const terminated = { exitCode: code ?? 137, message: program.tail.slice(-2).join("\n") };
    const state = { waiting: { reason: "CrashLoopBackOff" } };
    await tell({ containerStatuses: [{ name: "router", restartCount: 3, state, lastState: { terminated } }] });
  });
  const watched = watchReadiness(healthPort, tell, signal);
  await Promise.race([stopped, failed.then(() => stopped)]);
  await program.stop();
  await watched;
}

/** The files of the ConfigMap and of the Secret, as they are now. */
async function mount(o: RouterPodOptions, place: string, healthPort: number): Promise<void> {
  const volume = (name: string): Volume | undefined => o.spec.volumes.find((each) => each.name === name);
  const text = await o.config(volume("config")?.configMap?.name ?? "", "router.yml");
  const local = (text ?? "")
    .replaceAll(PATHS.data, o.volume)
    .replaceAll(/0\.0\.0\.0:808[12]/g, `127.0.0.1:${healthPort}`)
    .replaceAll("tls:0.0.0.0:", "tls:127.0.0.1:");
  writeFileSync(join(place, "router.yml"), local);
  const token = await o.secret(volume("enrollment")?.secret?.secretName ?? "", "enrollment.jwt");
  const file = join(place, "token.jwt");
  if (token !== undefined) writeFileSync(file, token, { mode: 0o600 });
  else if (existsSync(file)) rmSync(file);
}

async function watchReadiness(port: number, tell: RouterPodOptions["tell"], signal: AbortSignal): Promise<void> {
  let was = false;
  while (!signal.aborted) {
    const isReady = await answers(port);
    if (isReady !== was && !signal.aborted)
      await tell({ conditions: [{ type: "Ready", status: isReady ? "True" : "False" }] });
    was = isReady;
    await pause(LOOK_MS, signal);
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const options = {
      host: "127.0.0.1",
      port,
      path: "/health-checks/ready",
      rejectUnauthorized: false,
      ALPNProtocols: ["http/1.1"],
      timeout: 2_000,
      agent: false,
    };
    const asked = request(options);
    asked.on("response", (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    asked.on("error", () => resolve(false));
    asked.on("timeout", () => asked.destroy());
    asked.end();
  });
}
