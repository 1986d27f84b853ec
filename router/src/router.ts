import type { RouterConfig } from "@sallyport/router-config";
import type { Logger } from "@sallyport/wire";
import { extendAnswer } from "./agent/router-request.ts";
import { type AgentParts, agent } from "./assembly/agent.ts";
import { assembly, type Stop } from "./assembly/context.ts";
import { control as controlChannels } from "./assembly/control.ts";
import { debugSignals, profiles, traceFile, traces } from "./assembly/debugging.ts";
import { edge as edgeListener } from "./assembly/edge.ts";
import { egress, forwarding } from "./assembly/forwarding.ts";
import { links as routerLinks } from "./assembly/links.ts";
import { endpointsFileOf, joinNetwork, quiescing } from "./assembly/membership.ts";
import { plainListeners } from "./assembly/plain-listeners.ts";
import { reports } from "./assembly/reports.ts";
import { tunneler } from "./assembly/tunneler.ts";
import { health, web } from "./assembly/web.ts";
import type { ConfigSource } from "./config/remark.ts";
import { RouterIdentity } from "./config/router-identity.ts";
import { listeningProblem } from "./config/start-rules/listening-places.ts";
import { RouterStartError, startProblems } from "./config/start-rules/rules.ts";
import type { Control } from "./control/control.ts";
import type { EdgeListener } from "./edge/edge-listener.ts";
import type { Forwarder } from "./forwarder/forwarder.ts";
import { Readiness } from "./health/readiness.ts";
import { drain } from "./lifecycle/drain.ts";
import type { LinkManager } from "./link/link-manager.ts";
import type { MetricsReporter } from "./metrics/metrics-reporter.ts";

export { endpointsFileOf } from "./assembly/membership.ts";
export { RouterStartError } from "./config/start-rules/rules.ts";

export interface RouterOptions {
  readonly config: RouterConfig;
  /** The configuration file; the endpoints file stands beside it unless configured. */
  readonly configFile: string;
  /** Where keys stand in that file, for what is said of them; left out when the configuration came from no file. */
  readonly placeOf?: ConfigSource["placeOf"];
  /** Where file names in the configuration are relative to: the working directory. */
  readonly baseDir: string;
  readonly log: Logger;
  /** Renew the certificates at once. */
  readonly extend?: boolean;
  /** Of the program, not of the protocol. */
  readonly version: string;
  /** What local tools may do; without it there is no socket for them. */
  readonly agent?: Pick<AgentParts, "setLogLevel" | "shutDown">;
}

/** A running router. */
export interface Router {
  readonly id: string;
  readonly links: LinkManager;
  readonly control: Control;
  readonly forwarder: Forwarder;
  /** Resolves when the first controller is connected; rejects after `ctrl.startupTimeout`. */
  readonly online: Promise<void>;
  /** Renews the certificates at once. @throws ControlError */
  renew(): Promise<void>;
  /** Empties the router before it is closed, in `shutdown.drainTimeout` at most; the circuits that are left. */
  drain(signal: AbortSignal): Promise<number>;
  /** Stops everything, in reverse order of its start. */
  close(): Promise<void>;
}

/**
 * Starts a router. Its ports are open before it dials a controller: clients that learn of the router can reach it.
 *
 * @throws RouterStartError, also for an address that cannot be listened on; IdentityError; nothing is left running then
 */
export async function startRouter(o: RouterOptions): Promise<Router> {
  const stops: Stop[] = [];
  const close = async (): Promise<void> => {
    for (const stop of stops.splice(0).reverse()) await stop();
  };
  try {
    return await assemble(o, stops, close);
  } catch (error) {
    await close();
    const problem = listeningProblem(o.config, error);
    if (problem === undefined) throw error;
    throw new RouterStartError([problem], o.placeOf && { file: o.configFile, placeOf: o.placeOf }, { cause: error });
  }
}

async function assemble(o: RouterOptions, stops: Stop[], close: () => Promise<void>): Promise<Router> {
  const { config, configFile, baseDir, log } = o;
  const identity = await RouterIdentity.load(config.identity, baseDir, log);
  stops.push(identity.watch());
  const endpointsFile = endpointsFileOf(config, configFile, baseDir);
  const problems = await startProblems({ config, identity: identity.current, baseDir, endpointsFile });
  if (problems.length > 0) throw new RouterStartError(problems, o.placeOf && { file: configFile, placeOf: o.placeOf });
  const context = assembly({ config, configFile, baseDir, identity, log, stops });

  const endCpuProfile = await profiles(context);
  const file = await traceFile(context);

  // Parts that are made later, read by parts that ask only once the router runs.
  const later: { edge?: EdgeListener; reporter?: MetricsReporter } = {};
  const forwarder = forwarding(context);
  const { controllers, control } = controlChannels(context, forwarder);
  await egress(context, { control, forwarder });
  const links = routerLinks(context, { controllers, forwarder, measured: () => later.reporter?.reportSoon() });
  const onChannel = traces(context, { file, controllers, links: links.manager, edge: () => later.edge });
  const { reporter, metrics } = reports(context, {
    controllers,
    control,
    forwarder,
    links: links.manager,
    edge: () => later.edge,
  });
  later.reporter = reporter;
  await links.listen();
  const edge = await edgeListener(context, { control, forwarder, onChannel });
  await plainListeners(context, { control, forwarder });
  await tunneler(context, { control, controllers, forwarder, links: links.manager });
  if (edge !== undefined) later.edge = edge;
  const checks = health(context, { controllers, links: links.manager });
  const readiness = new Readiness(controllers);
  await web(context, { health: checks, readiness, metrics, version: o.version });
  const quiesce = quiescing(context, controllers);
  const { online, renewal } = await joinNetwork(context, { controllers, control, extend: o.extend === true });
  if (o.agent !== undefined) {
    debugSignals(context, { forwarder, endCpuProfile });
    await agent(context, {
      ...o.agent,
      version: o.version,
      controllers,
      control,
      forwarder,
      links: links.manager,
      health: checks,
      edge: () => edge,
      extend: () => extendAnswer(() => renewal.now()),
    });
  }
  const { drainTimeout } = config.shutdown;
  return {
    id: context.routerId,
    links: links.manager,
    control,
    forwarder,
    online,
    renew: () => renewal.now(),
    drain: (signal) => {
      readiness.leave();
      return drain({ quiesce, edge, forwarder, log }, { limitMs: drainTimeout, signal }).finally(() =>
        reporter.flush(),
      );
    },
    close,
  };
}
