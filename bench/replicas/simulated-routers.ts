/**
 * Many routers in one process: the control channels of the router's own code with the data model, and no data plane. Prints one line of JSON when every
 * router has a channel to every controller and the data model, and for each SIGUSR2 one about heartbeats.
 *
 *     node simulated-routers.ts FILE     a `Simulation` as JSON
 */
import { readFileSync } from "node:fs";
import { validateRouterConfig } from "@sallyport/router-config";
import { type Identity, identityFromPem, silentLogger } from "@sallyport/wire";
import { controlChannels } from "../../router/src/assembly/control.ts";
import type { Controllers } from "../../router/src/control/controllers/controllers.ts";
import { DataModelSubscription } from "../../router/src/control/data-model/data-model-subscription.ts";
import { KnownApiSessions } from "../../router/src/control/sessions/api-sessions.ts";
import { EdgeSync } from "../../router/src/control/sessions/edge-sync.ts";
import { TerminatorValidators } from "../../router/src/control/terminators/terminator-validation.ts";
import type { Heartbeats, Simulation } from "./simulation.ts";

const LOOK_MS = 50;
/** Routers that dial at the same time, of one process. */
const AT_ONCE = 64;
const log = silentLogger;

/** @param from address of this machine from which it dials */
const configOf = (from: string) =>
  validateRouterConfig({
    v: 3,
    identity: { cert: "r.cert", key: "r.key", ca: "r.ca" },
    ctrl: { bind: from },
    edge: {},
    listeners: [{ binding: "edge", address: "tls:127.0.0.1:0", options: { advertise: "localhost:3022" } }],
  }).config;

/** One router. */
class SimulatedRouter {
  readonly controllers: Controllers;
  readonly #model: DataModelSubscription;
  readonly #ctrlPorts: readonly number[];

  constructor(identity: Identity, from: string, { ctrlPorts, hosts }: Simulation) {
    const controllers = controlChannels({
      config: configOf(from),
      identity: { current: identity },
      routerId: identity.id,
      log,
    });
    this.controllers = controllers;
    this.#model = new DataModelSubscription({ controllers, log });
    this.#model.follow();
    const address = { protocol: "tls", listenHost: "127.0.0.1", listenPort: 3022 };
    new EdgeSync({
      ...{ controllers, log, apiSessions: new KnownApiSessions(), followsDataModel: () => true },
      addresses: () => [{ ...address, advertiseHost: "localhost", advertisePort: 3022 }],
      onSessionsRemoved: () => {},
    });
    const terminators = new TerminatorValidators({ controllers, log, onConfirmed: () => {}, onUnknown: () => {} });
    terminators.register("edge", () => ({ valid: hosts }));
    this.#ctrlPorts = ctrlPorts;
  }

  start(): void {
    this.controllers.setEndpoints(this.#ctrlPorts.map((port) => ({ protocol: "tls", host: "localhost", port })));
  }

  /** Whether it has a channel to every controller and the data model. */
  get isComplete(): boolean {
    return this.#model.position().index !== "0" && this.controllers.all().length === this.#ctrlPorts.length;
  }
}

const [file = ""] = process.argv.slice(2);
const simulation = JSON.parse(readFileSync(file, "utf8")) as Simulation;
let lost = 0;
// Controllers limit what one address costs them, and routers have hosts of their own.
const addressOf = (index: number): string => `127.1.${index >> 7}.${(index & 127) + 1}`;
const routers = simulation.routers.map(
  (each, index) => new SimulatedRouter(identityFromPem(each), addressOf(simulation.first + index), simulation),
);
for (const { controllers } of routers) controllers.onDisconnected(() => lost++);

let wasComplete = false;
let started = 0;
setInterval(() => {
  const isComplete = routers.every((router) => router.isComplete);
  // Routers have processors of their own. If all of them dialled from this one at once, it would exceed the time limits of their dials.
  const busy = routers.slice(0, started).filter((router) => !router.isComplete).length;
  const next = routers.slice(started, started + Math.max(0, AT_ONCE - busy));
  for (const router of next) router.start();
  started += next.length;
  if (isComplete && !wasComplete) console.log(JSON.stringify({ complete: routers.length }));
  wasComplete = isComplete;
}, LOOK_MS);

process.on("SIGUSR2", () => {
  const channels = routers.flatMap(({ controllers }) => controllers.all().map((each) => ({ controllers, each })));
  const answered = channels.map(({ each }) => each.latencyMs).filter((ms) => ms < Number.MAX_SAFE_INTEGER);
  const heartbeats: Heartbeats = {
    channels: channels.length,
    answered: answered.length,
    late: channels.filter(({ controllers, each }) => !controllers.isResponsive(each)).length,
    maxMs: Math.max(0, ...answered),
    lost,
  };
  console.log(JSON.stringify({ heartbeats }));
});
