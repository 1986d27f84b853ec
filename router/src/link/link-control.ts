import {
  BaseHeader,
  ControllerCapability,
  ControlType,
  ctrlPb,
  decodeControl,
  encodeControl,
  FaultSubject,
  HandshakeError,
  type Logger,
} from "@sallyport/wire";
import type { ControllerConnection } from "../control/controllers/controller-connection.ts";
import type { AskOptions, Controllers } from "../control/controllers/controllers.ts";
import type { Link } from "./link.ts";
import type { LinkManager, LinkReports } from "./link-manager.ts";
import { PeerHealth } from "./peer-health.ts";

/** A controller that was away for less than this is still told of links that broke meanwhile. */
const REMEMBER_FAULTS_MS = 2 * 60_000;
/** The latest of them: a neighbour may make and break links as fast as it likes. */
const MAX_REMEMBERED = 1_000;
const VERIFY_MS = 10_000;

interface BrokenLink {
  readonly id: string;
  readonly iteration: number;
  readonly at: number;
}

/** Links as the controllers see them: reports, faults, states of other routers (docs/protocol/links.md, "Reports"). */
export class LinkControl implements LinkReports {
  readonly #controllers: Controllers;
  readonly #log: Logger;
  readonly #measured: () => void;
  #manager: LinkManager | undefined;
  readonly #health = new PeerHealth();
  #broken: BrokenLink[] = [];

  /** `measured`: the first latency of a link is known, a good time for a metrics report. */
  constructor(controllers: Controllers, log: Logger, measured: () => void) {
    this.#controllers = controllers;
    this.#log = log;
    this.#measured = measured;
  }

  /** Connects the manager with the controllers; to be called once, before they are dialled. */
  attach(manager: LinkManager): void {
    this.#manager = manager;
    this.#controllers.handle(ControlType.PeerStateChanges, (message, controller) => {
      const { changes } = decodeControl(ctrlPb.PeerStateChangesSchema, message.body);
      const heard = changes.map((change) => ({ ...change, state: peerState(change.state) }));
      manager.peersChanged(heard.filter((change) => this.#health.hear(controller.id, change)));
    });
    this.#controllers.onDisconnected(({ id }) => this.#health.forget(id));
    this.#controllers.handle(ControlType.Fault, (message, controller) => {
      const fault = decodeControl(ctrlPb.FaultSchema, message.body);
      if (fault.subject === FaultSubject.LinkFault) manager.fault(fault.id, fault.iteration);
      else
        this.#log.warn({ controllerId: controller.id, subject: fault.subject }, "unexpected fault from a controller");
    });
    // Of controllers that still choose links themselves: this router makes its own, under its own ids.
    this.#controllers.handle(ControlType.Dial, (message, controller) => {
      const { linkId } = decodeControl(ctrlPb.DialSchema, message.body);
      this.#controllers.sendTo(controller.id, linkFault(FaultSubject.LinkFault, { id: linkId, iteration: 0 }));
    });
    this.#controllers.onConnected((controller) => this.#connected(controller));
  }

  /**
   * Asks the best controller whether the certificate is that of the router. Rejects when it says no, does not answer in
   * 10 s, or none is connected.
   */
  async verify(routerId: string, fingerprint: string): Promise<void> {
    const body = encodeControl(ctrlPb.VerifyRouterSchema, { routerId, fingerprints: [fingerprint] });
    const ask = async (controller: ControllerConnection, options: AskOptions) => ({
      reply: await controller.channel.request({ contentType: ControlType.VerifyRouter, body }, options),
      controller,
    });
    const { reply, controller } = await this.#controllers.ask(`verifying router ${routerId}`, VERIFY_MS, ask);
    if (reply.headers.getBool(BaseHeader.ResultSuccess) === true) return;
    const why = reply.body.toString("utf8");
    const text = `controller ${controller.id} does not vouch for ${routerId}: ${why}`;
    throw new HandshakeError("ROUTER_NOT_VERIFIED", text);
  }

  established(link: Link): void {
    this.#broken = this.#broken.filter((broken) => broken.id !== link.id);
    this.#controllers.broadcast(routerLinks([link]));
  }

  connectionsChanged(link: Link): void {
    const body = encodeControl(ctrlPb.LinkStateUpdateSchema, {
      linkId: link.id,
      linkIteration: link.iteration,
      connState: connState(link),
    });
    this.#controllers.broadcast({ contentType: ControlType.LinkStateUpdate, body });
  }

  failed(link: Link): void {
    const now = performance.now();
    const broken = { id: link.id, iteration: link.iteration, at: now };
    const recent = this.#broken.filter((b) => now - b.at < REMEMBER_FAULTS_MS);
    this.#broken = [...recent.slice(1 - MAX_REMEMBERED), broken];
    this.#controllers.broadcast(linkFault(FaultSubject.LinkFault, broken));
  }

  duplicate(link: Link): void {
    this.#controllers.broadcast(linkFault(FaultSubject.LinkDuplicate, link));
  }

  measured(): void {
    this.#measured();
  }

  #connected(controller: ControllerConnection): void {
    const now = performance.now();
    for (const broken of this.#broken) {
      if (now - broken.at < REMEMBER_FAULTS_MS) {
        controller.channel.send(linkFault(FaultSubject.LinkFault, broken));
      }
    }
    // A controller that takes one end's word wants it from who dialled; an older one knows a link when either end has named it.
    const wantsAll = !controller.has(ControllerCapability.SingleRouterLinkSource);
    const links = this.#manager?.links().filter((link) => link.isDialed || wantsAll) ?? [];
    controller.channel.send(routerLinks(links));
  }
}

function peerState(state: ctrlPb.PeerState): "healthy" | "unhealthy" | "removed" {
  if (state === ctrlPb.PeerState.Healthy) return "healthy";
  return state === ctrlPb.PeerState.Removed ? "removed" : "unhealthy";
}

function connState(link: Link) {
  return { stateIteration: link.stateIteration, conns: link.connections() };
}

/** The report of established links; an empty one is what a router without links sends after connecting. */
function routerLinks(links: readonly Link[]) {
  const body = encodeControl(ctrlPb.RouterLinksSchema, {
    links: links.map((link) => ({
      id: link.id,
      destRouterId: link.peerId,
      linkProtocol: link.protocol,
      dialAddress: link.dialAddress,
      iteration: link.iteration,
      connState: connState(link),
    })),
  });
  return { contentType: ControlType.RouterLinks, body };
}

function linkFault(subject: FaultSubject, link: { id: string; iteration: number }) {
  const body = encodeControl(ctrlPb.FaultSchema, { subject, id: link.id, iteration: link.iteration });
  return { contentType: ControlType.Fault, body };
}
