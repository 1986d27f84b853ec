import { ControlType, ctrlPb, encodeControl, type Logger, metricsPb } from "@sallyport/wire";
import type { Rerouter } from "../circuits/rerouter.ts";
import type { EmitEvent } from "../fabric-events.ts";
import type { FabricModel } from "../ports.ts";
import { FabricRefusal, serveFabricRequest } from "../requests.ts";
import { MAX_FIELDS_OF_REPORTS, onMessage } from "../routers/inbound.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import { type Link, type LinkConnectionState, MAX_LINKS_PER_ROUTER } from "./link-table.ts";
import type { Mesh } from "./mesh.ts";

const { FaultSubject } = ctrlPb;

interface LinkMessagesParts {
  readonly mesh: Mesh;
  readonly rerouter: Rerouter;
  readonly model: Pick<FabricModel, "findRouter">;
  readonly emit: EmitEvent;
  readonly log: Logger;
}

/** What routers say about links: reports, states, faults, latencies, and whether a dialing router is who it says. Source: docs/protocol/fabric.md, "Links". */
export class LinkMessages {
  readonly #parts: LinkMessagesParts;

  constructor(parts: LinkMessagesParts) {
    this.#parts = parts;
  }

  attach(router: RouterConnection): void {
    const report = (body: ctrlPb.RouterLinks) => this.#report(router, body);
    onMessage(router, ControlType.RouterLinks, ctrlPb.RouterLinksSchema, report, MAX_FIELDS_OF_REPORTS);
    onMessage(router, ControlType.LinkStateUpdate, ctrlPb.LinkStateUpdateSchema, (body) => {
      const { mesh } = this.#parts;
      if (!mesh.isCurrent(router) || body.connState === undefined) return;
      const state = connectionState(body.connState);
      if (!mesh.links.updateConnections(router.id, body.linkId, body.linkIteration, state)) return;
      this.#emit("link-connections-changed", body.linkId);
    });
    onMessage(router, ControlType.VerifyRouter, ctrlPb.VerifyRouterSchema, (body, message) =>
      serveFabricRequest(router, router.parallelLane, message, () => this.#verify(body)),
    );
    const metrics = (body: metricsPb.MetricsMessage) => this.#metrics(router, body);
    onMessage(router, ControlType.Metrics, metricsPb.MetricsMessageSchema, metrics, MAX_FIELDS_OF_REPORTS);
  }

  /** A router says that a link is gone. */
  fault(router: RouterConnection, linkId: string, iteration: number, isDuplicate: boolean): void {
    const { mesh, log } = this.#parts;
    const outcome = mesh.links.fault(router.id, linkId, iteration, performance.now());
    const fields = { linkId, iteration, routerId: router.id, isDuplicate, outcome: outcome.kind };
    if (outcome.kind !== "failed") {
      log.debug(fields, "a link fault changes nothing");
      return;
    }
    log.info(fields, "a link is gone");
    const { link } = outcome;
    const other = link.source === router.id ? link.destination : link.source;
    this.#sendFault(other, link, link.iteration);
    this.#lost(link, isDuplicate);
  }

  /** An administrator removes a link: both ends close it. For an unknown link the request goes to every router. */
  remove(linkId: string): boolean {
    const { mesh } = this.#parts;
    const link = mesh.links.remove(linkId);
    if (link === undefined) {
      for (const router of mesh.routers()) this.#sendFault(router.id, { id: linkId }, 0);
      return false;
    }
    this.#sendFault(link.source, link, link.iteration);
    this.#sendFault(link.destination, link, link.iteration);
    this.#lost(link);
    return true;
  }

  /** An administrator has removed a link at another controller, which tells its ends. */
  forget(linkId: string): void {
    const link = this.#parts.mesh.links.remove(linkId);
    if (link !== undefined) this.#lost(link);
  }

  /** Forgets the links a router has dialed: its process is another one now, or it stayed away for too long. */
  forgetDialedBy(routerId: string): void {
    for (const link of this.#parts.mesh.links.of(routerId)) {
      if (link.source !== routerId) continue;
      this.#parts.mesh.links.remove(link.id);
      this.#lost(link);
    }
  }

  #emit(kind: "link-connected" | "link-known" | "link-connections-changed", linkId: string): void {
    const link = this.#parts.mesh.links.get(linkId);
    if (link !== undefined) this.#parts.emit({ kind, link });
  }

  #lost(link: Link, isDuplicate = false): void {
    const { rerouter, emit } = this.#parts;
    emit({ kind: isDuplicate ? "link-duplicate" : "link-faulted", link });
    rerouter.linkLost(link.id);
  }

  #report(router: RouterConnection, body: ctrlPb.RouterLinks): void {
    const { mesh, log } = this.#parts;
    if (!mesh.isCurrent(router)) return;
    let refused = Math.max(0, body.links.length - MAX_LINKS_PER_ROUTER);
    for (const link of body.links.slice(0, MAX_LINKS_PER_ROUTER)) {
      const { id, destRouterId: destination, linkProtocol: protocol, dialAddress, iteration, connState } = link;
      const state = connState && connectionState(connState);
      const report = { id, destination, protocol, dialAddress, iteration, connectionState: state };
      const outcome = mesh.links.report(router.id, report, performance.now());
      if (outcome === "refused") refused += 1;
      if (outcome === "kept") this.#emit("link-known", id);
      if (outcome === "kept" || outcome === "refused") continue;
      log.info({ linkId: id, source: router.id, destination, iteration }, "link connected");
      this.#emit("link-connected", id);
    }
    if (body.fullRefresh) this.#forgetUnlisted(router, new Set(body.links.map(({ id }) => id)));
    if (refused > 0) {
      log.warn(
        { source: router.id, refused },
        "the router reports links of others, too many, or such with too long texts; they are ignored",
      );
    }
  }

  /** A router has listed all links it has dialed: others of its own are gone. */
  #forgetUnlisted(router: RouterConnection, listed: ReadonlySet<string>): void {
    for (const { id, source } of this.#parts.mesh.links.of(router.id)) {
      if (source === router.id && !listed.has(id)) this.fault(router, id, 0, false);
    }
  }

  async #verify(body: ctrlPb.VerifyRouter): Promise<string> {
    const router = await this.#parts.model.findRouter(body.routerId);
    if (router === undefined) throw new FabricRefusal(`router ${body.routerId} is unknown`);
    if (router.fingerprint === undefined) throw new FabricRefusal(`router ${body.routerId} is not enrolled`);
    if (router.isDisabled) throw new FabricRefusal(`router ${body.routerId} is disabled`);
    // The first is that of the leaf, whose key was proved; the dialing router could send any others along.
    if (body.fingerprints[0] !== router.fingerprint) {
      throw new FabricRefusal(`the fingerprint given for router ${body.routerId} is not its own`);
    }
    return "router verified";
  }

  /** A router measures its end of each link; the histograms hold nanoseconds. */
  #metrics(router: RouterConnection, body: metricsPb.MetricsMessage): void {
    const { mesh, emit } = this.#parts;
    if (body.sourceId !== router.id) return;
    emit({ kind: "router-metrics", routerId: router.id, metrics: body });
    for (const link of mesh.links.of(router.id)) {
      const latency = body.histograms[`link.${link.id}.latency`]?.mean;
      if (latency === undefined) continue;
      const queued = body.histograms[`link.${link.id}.queue_time`]?.mean ?? 0;
      mesh.links.setLatency(router.id, link.id, latency + queued);
    }
  }

  #sendFault(routerId: string, link: Pick<Link, "id">, iteration: number): void {
    const body = encodeControl(ctrlPb.FaultSchema, { subject: FaultSubject.LinkFault, id: link.id, iteration });
    this.#parts.mesh.router(routerId)?.send({ contentType: ControlType.Fault, body });
  }
}

function connectionState(state: ctrlPb.LinkConnState): LinkConnectionState {
  return {
    stateIteration: state.stateIteration,
    connections: state.conns.map((c) => ({ type: c.type, localAddress: c.localAddr, remoteAddress: c.remoteAddr })),
  };
}
