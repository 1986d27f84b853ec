import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { Context, enroll } from "@sallyport/sdk";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { openTcp } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import type { PeerCli } from "../../network/openziti/peer-cli.ts";
import { accepts, type Program } from "../../network/program.ts";
import { startTunneler } from "../../network/tunneler.ts";
import { startPeer } from "./programs.ts";

/** OpenZiti's tunneler is that of 2.x, unless it is said to be that of 1.6. */
export type ParticipantKind = "our SDK" | "our tunneler" | "OpenZiti's tunneler" | "OpenZiti's 1.6 tunneler";

/** An identity that uses one router. It hosts an echo, whose service has its name, and may dial those of all others. */
export interface Participant {
  readonly name: string;
  readonly kind: ParticipantKind;
  /** The only router that it may use. */
  readonly router: string;
  /** Connects to a service. */
  dial(service: string): Promise<Duplex>;
  stop(): Promise<void>;
}

const SHORT = {
  "our SDK": "sdk",
  "our tunneler": "ours",
  "OpenZiti's tunneler": "theirs",
  "OpenZiti's 1.6 tunneler": "theirs",
} as const;

/**
 * Makes identities of some kinds for each router, each with its service, and starts all of them.
 * @param echoPort where the tunnelers connect to
 * @param others further services that the tunnelers dial; all may dial those with the attribute `open`
 */
export async function startParticipants(o: {
  readonly cli: PeerCli;
  readonly folder: string;
  readonly at: Readonly<Record<string, readonly ParticipantKind[]>>;
  readonly echoPort: number;
  readonly others?: readonly string[];
}): Promise<readonly Participant[]> {
  const { cli, folder } = o;
  const wanted = Object.entries(o.at).flatMap(([router, kinds]) =>
    kinds.map((kind) => ({ router, kind, name: `${SHORT[kind]}-${router}` })),
  );
  const roles = (side: string, value: string): string[] => [`--${side}-roles`, value];
  for (const router of Object.keys(o.at)) {
    const of = [...roles("identity", `#at-${router}`), ...roles("edge-router", `#${router}`)];
    await cli.edge("create", "edge-router-policy", router, ...of);
  }
  const [all, open] = [roles("service", "#all"), roles("service", "#open")];
  await cli.edge("create", "service-edge-router-policy", "all", ...all, ...roles("edge-router", "#all"));
  await cli.edge("create", "service-policy", "dial", "Dial", ...open, ...roles("identity", "#participants"));
  for (const { name, kind, router } of wanted) {
    await declare(cli, { name, folder, router, isSdk: kind === "our SDK", echoPort: o.echoPort });
  }
  const services = [...wanted.map(({ name }) => name), ...(o.others ?? [])];
  const started: Participant[] = [];
  try {
    for (const { name, kind, router } of wanted) {
      const start = kind === "our SDK" ? startSdk : startProxy;
      started.push({ name, kind, router, ...(await start(folder, name, kind, services)) });
    }
    return started;
  } catch (error) {
    for (const participant of started) await participant.stop();
    throw error;
  }
}

async function declare(
  cli: PeerCli,
  o: { name: string; folder: string; router: string; isSdk: boolean; echoPort: number },
): Promise<void> {
  const { name, folder } = o;
  const [token, file] = [join(folder, `${name}.jwt`), join(folder, `${name}.json`)];
  await cli.edge("create", "identity", name, "-o", token, "-a", `participants,at-${o.router},${name}`);
  if (o.isSdk) writeFileSync(file, JSON.stringify(await enroll(readFileSync(token, "utf8"))), { mode: 0o600 });
  else await cli.edge("enroll", token, "-a", "EC", "-o", file);
  const target = JSON.stringify({ protocol: "tcp", address: "127.0.0.1", port: o.echoPort });
  await cli.edge("create", "config", name, "host.v1", target);
  await cli.edge("create", "service", name, "-c", name, "-a", `open,${name}`);
  const roles = ["--identity-roles", `#${name}`, "--service-roles", `#${name}`];
  await cli.edge("create", "service-policy", `bind-${name}`, "Bind", ...roles);
}

async function startSdk(folder: string, name: string): Promise<Pick<Participant, "dial" | "stop">> {
  const context = await Context.load(join(folder, `${name}.json`));
  const listener = await context.listen(name, { allowHalfOpen: true });
  listener.on("connection", (socket) => void socket.on("error", () => {}).pipe(socket));
  return {
    dial: (service) => context.dial(service, { allowHalfOpen: true, timeoutMs: 30_000 }),
    stop: () => context.close(),
  };
}

async function startProxy(
  folder: string,
  name: string,
  kind: ParticipantKind,
  services: readonly string[],
): Promise<Pick<Participant, "dial" | "stop">> {
  const found = await freePorts(services.length);
  const ports = new Map(services.map((service, index) => [service, found[index] ?? 0]));
  const args = ["proxy", "-i", join(folder, `${name}.json`), ...services.map((each) => `${each}:${ports.get(each)}`)];
  const program: Program =
    kind === "our tunneler"
      ? startTunneler(folder, name, ...args)
      : startPeer(kind === "OpenZiti's tunneler" ? "2.x" : "1.6", folder, name, "tunnel", ...args);
  const stop = async (): Promise<void> => void (await program.stop());
  try {
    for (const port of ports.values()) await program.ready("its ports", () => accepts(port));
  } catch (error) {
    await stop();
    throw error;
  }
  return { dial: (service) => openTcp(ports.get(service) ?? 0), stop };
}

/**
 * Each participant with each other one. None dials itself: routers of OpenZiti from 1.6.16 on know a circuit of a channel by its id alone, so one whose two
 * ends are the same SDK, which does the flow control, carries one direction only.
 */
export function pairs(participants: readonly Participant[]): readonly (readonly [from: Participant, to: string])[] {
  return participants.flatMap((from) => participants.filter((to) => to !== from).map((to) => [from, to.name] as const));
}

/** Resolves once a dial has led to an echo of one byte; connections of failed attempts are ended. */
export async function carries(from: Participant, service: string, timeoutMs = 60_000): Promise<void> {
  await eventually(`a circuit from ${from.name} to ${service}`, () => answers(from, service), timeoutMs);
}

/** How long one attempt may take. */
const ATTEMPT_MS = 15_000;

async function answers(from: Participant, service: string): Promise<true> {
  const stream = await from.dial(service);
  const answer = Promise.withResolvers<true>();
  const timer = setTimeout(() => answer.reject(new Error("no answer")), ATTEMPT_MS);
  stream
    .once("data", () => answer.resolve(true))
    .once("error", answer.reject)
    .once("close", () => answer.reject(new Error("closed")))
    .write("x");
  try {
    return await answer.promise;
  } finally {
    clearTimeout(timer);
    stream.on("error", () => {}).destroy();
  }
}
