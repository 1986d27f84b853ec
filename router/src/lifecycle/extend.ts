import type { RouterConfig } from "@sallyport/router-config";
import type { Logger } from "@sallyport/wire";
import { AgentOp, type ApplicationInfo } from "@sallyport/wire/agent/protocol";
import { agentSockets, askAgent } from "@sallyport/wire/agent/socket";
import { RENEWED, ROUTER_APPLICATION, RouterRequest } from "../agent/router-request.ts";
import { assembly, type Stop } from "../assembly/context.ts";
import { controlChannels } from "../assembly/control.ts";
import { certificateRenewal, endpointsOf } from "../assembly/membership.ts";
import { uncoveredHosts } from "../config/certificate-names.ts";
import { formatRemark } from "../config/remark.ts";
import { RouterIdentity } from "../config/router-identity.ts";
import { firstController } from "../control/controllers/controllers.ts";
import { ControlError } from "../control/errors.ts";

interface ExtendOptions {
  readonly config: RouterConfig;
  readonly configFile: string;
  readonly baseDir: string;
  readonly log: Logger;
  /** Folder of the agents' sockets, by which a running router is found; the system's temporary folder when left out. */
  readonly agents?: string;
}

/** A running router that was told to renew gets this long: the wait for one answer, and some. */
const PATIENCE_MS = 60_000;

/**
 * Renews the certificates of this router once (docs/protocol/control.md, "Certificate renewal"). When it runs on this
 * machine its agent is asked to do it: a second control channel in its name would end the first.
 *
 * @returns until when the client certificate is valid then
 * @throws ControlError, IdentityError, RouterStartError
 */
export async function extendRouter(o: ExtendOptions): Promise<{ validTo: string; by: "this" | "running" }> {
  const identity = await RouterIdentity.load(o.config.identity, o.baseDir, o.log);
  const socket = await runningRouter(identity.current.id, o.agents);
  if (socket === undefined) {
    await extendHere(o, identity);
    return { validTo: identity.current.leaf.validTo, by: "this" };
  }
  o.log.info({ socket }, "the router runs: it renews its certificates itself");
  const request = [AgentOp.Application, ROUTER_APPLICATION, RouterRequest.Extend];
  const answer = (await askAgent(socket, request, PATIENCE_MS)).toString("utf8");
  if (answer !== RENEWED) throw new ControlError("RENEWAL_FAILED", `the running router could not renew: ${answer}`);
  await identity.reload();
  return { validTo: identity.current.leaf.validTo, by: "running" };
}

/** How long to wait for a controller where the file says that the router waits without end. */
const CONTROLLER_MS = 30_000;

/**
 * Renews the certificates when no certificate covers a host that is advertised: without that the router would not start.
 *
 * @returns whether it was necessary
 * @throws ControlError `NAMES_REFUSED` when the new certificates don't cover it either; as `extendRouter`
 */
export async function coverAdvertised(o: ExtendOptions): Promise<boolean> {
  const uncovered = async (): Promise<string[]> =>
    uncoveredHosts(o.config, (await RouterIdentity.load(o.config.identity, o.baseDir, o.log)).current).map((remark) =>
      formatRemark(remark),
    );
  const before = await uncovered();
  if (before.length === 0) return false;
  o.log.info({ reason: before }, "the certificates have to be renewed before the router can start");
  const { ctrl } = o.config;
  const startupTimeout = ctrl.startupTimeout === 0 ? CONTROLLER_MS : ctrl.startupTimeout;
  await extendRouter({ ...o, config: { ...o.config, ctrl: { ...ctrl, startupTimeout } } });
  const after = await uncovered();
  if (after.length > 0) throw new ControlError("NAMES_REFUSED", `renewed, and still: ${after.join("; ")}`);
  return true;
}

async function extendHere(o: ExtendOptions, identity: RouterIdentity): Promise<void> {
  const { config, configFile, baseDir, log } = o;
  const stops: Stop[] = [];
  const context = assembly({ config, configFile, baseDir, identity, log, stops });
  const controllers = controlChannels(context);
  const renewal = certificateRenewal(context, controllers);
  const waiting = new AbortController();
  try {
    const { endpoints } = await endpointsOf(context);
    const first = firstController(controllers, config.ctrl.startupTimeout, waiting.signal);
    controllers.setEndpoints(endpoints);
    await first;
    await renewal.now();
  } finally {
    waiting.abort();
    renewal.close();
    controllers.stop();
    for (const stop of stops.reverse()) await stop();
  }
}

/** Socket of the agent of the router with this id, when it runs on this machine. */
async function runningRouter(id: string, folder?: string): Promise<string | undefined> {
  for (const [pid, socket] of (await agentSockets(folder)).own) {
    try {
      const info = JSON.parse((await askAgent(socket, [AgentOp.ApplicationInfo])).toString("utf8")) as ApplicationInfo;
      if (info.type === "router" && info.id === id && pid !== process.pid) return socket;
    } catch {
      // The socket of a process that has ended, or of another user: not this router.
    }
  }
  return undefined;
}
