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
const log = silentLogger;

const { config } = validateRouterConfig({
  v: 3,
  identity: { cert: "r.cert", key: "r.key", ca: "r.ca" },
  ctrl: {},
  edge: {},
  listeners: [{ binding: "edge", address: "tls:127.0.0.1:0", options: { advertise: "localhost:3022" } }],
});

/** One router. */
class SimulatedRouter {
  readonly controllers: Controllers;
  readonly #model: DataModelSubscription;

  constructor(identity: Identity, ports: readonly number[], hosts: boolean) {
    const controllers = controlChannels({ config, identity: { current: identity }, routerId: identity.id, log });
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
    controllers.setEndpoints(ports.map((port) => ({ protocol: "tls", host: "localhost", port })));
  }

  get hasModel(): boolean {
    return this.#model.position().index !== "0";
  }
}

const [file = ""] = process.argv.slice(2);
const { routers: enrolled, ctrlPorts, hosts } = JSON.parse(readFileSync(file, "utf8")) as Simulation;
let lost = 0;
const routers = enrolled.map((each) => new SimulatedRouter(identityFromPem(each), ctrlPorts, hosts));
for (const { controllers } of routers) controllers.onDisconnected(() => lost++);

let wasComplete = false;
setInterval(() => {
  const isComplete = routers.every(
    ({ controllers, hasModel }) => hasModel && controllers.all().length === ctrlPorts.length,
  );
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
