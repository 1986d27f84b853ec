import { createHmac } from "node:crypto";
import type { HostedTerminator, OverlayHosting, OverlayService } from "@sallyport/tunnel";
import {
  base62Id,
  type Logger,
  type Precedence,
  type PrecedenceName,
  precedenceOf,
  TerminatorResult,
} from "@sallyport/wire";
import type { TunnelControl } from "../control/tunnel/tunnel-control.ts";

/**
 * The id of a terminator that this router hosts by itself: the same after a restart, so that the one that is still
 * known at the controller is taken up again, and no other host can know it beforehand.
 *
 * @param secret something only this router has
 * @param parts what the terminator is for
 */
function terminatorId(secret: string, parts: readonly (string | number)[]): string {
  const bytes = createHmac("sha256", secret)
    .update(JSON.stringify(["tunnel terminator", ...parts]))
    .digest();
  return base62Id(bytes.toString("hex", 0, 16));
}

/** What hosting needs of the control plane. */
export type TerminatorControl = Pick<
  TunnelControl,
  "createTerminator" | "updateTerminator" | "removeTerminators" | "healthEvent" | "onTerminatorLost"
>;

export interface ServiceDialHandler {
  readonly service: OverlayService;
  readonly onDial: OverlayHosting["onDial"];
}

export interface HostedTerminatorsOptions {
  readonly control: TerminatorControl;
  /** What makes terminator ids this router's own. */
  readonly secret: string;
  readonly log: Logger;
  /** Is told how long a terminator took to be created, in nanoseconds. */
  readonly onTerminatorCreated?: ((ns: number) => void) | undefined;
  /** For tests. */
  readonly settleMs?: number | undefined;
}

/** How long after the services are known a terminator may take to be hosted again, e.g. behind a template or a busy address. */
const SETTLE_MS = 10_000;

/** The terminators of the router's own tunneler, by id. The control plane keeps them at the controllers. */
export class HostedTerminators {
  readonly #o: HostedTerminatorsOptions;
  readonly #terminators = new Map<string, TunnelTerminator>();
  /** How often the same terminator was made: an id that is being removed must not be created again at the same time. */
  readonly #generations = new Map<string, number>();
  readonly #unsubscribe: () => void;
  /** Resolved when everything that is to be hosted can be expected to be. */
  readonly #settled = Promise.withResolvers<void>();
  readonly #awaited = new Map<string, PromiseWithResolvers<void>>();
  #settling: NodeJS.Timeout | undefined;

  constructor(options: HostedTerminatorsOptions) {
    this.#o = options;
    this.#unsubscribe = options.control.onTerminatorLost((id) => this.#terminators.get(id)?.renamed());
  }

  find(id: string): ServiceDialHandler | undefined {
    return this.#terminators.get(id);
  }

  /** The services are known; what is hosted of them follows. */
  servicesKnown(): void {
    this.#settling ??= setTimeout(() => this.#settled.resolve(), this.#o.settleMs ?? SETTLE_MS).unref();
  }

  /** Whether a terminator is here. After a start the answer waits: a controller asks before the services are known. */
  async isHere(id: string): Promise<boolean> {
    if (!this.#terminators.has(id)) {
      const entered = this.#awaited.get(id) ?? Promise.withResolvers<void>();
      this.#awaited.set(id, entered);
      await Promise.race([entered.promise, this.#settled.promise]);
      this.#awaited.delete(id);
    }
    return this.#terminators.has(id);
  }

  get size(): number {
    return this.#terminators.size;
  }

  host(service: OverlayService, o: OverlayHosting): HostedTerminator {
    const terminator = new TunnelTerminator(service, o, {
      ...this.#o,
      newId: () => this.#newId([service.id, o.index, o.instanceId ?? ""]),
      enter: (id, entry) => {
        this.#terminators.set(id, entry);
        this.#awaited.get(id)?.resolve();
      },
      leave: (id) => this.#terminators.delete(id),
    });
    terminator.open();
    return terminator;
  }

  close(): void {
    this.#unsubscribe();
    clearTimeout(this.#settling);
    this.#settled.resolve();
    const ids = [...this.#terminators.keys()];
    this.#terminators.clear();
    if (ids.length > 0) this.#o.control.removeTerminators(ids);
  }

  #newId(parts: readonly (string | number)[]): string {
    const key = JSON.stringify(parts);
    const generation = this.#generations.get(key) ?? 0;
    this.#generations.set(key, generation + 1);
    return terminatorId(this.#o.secret, [...parts, generation]);
  }
}

interface TerminatorPlace extends HostedTerminatorsOptions {
  newId(): string;
  enter(id: string, terminator: TunnelTerminator): void;
  leave(id: string): void;
}

class TunnelTerminator implements HostedTerminator, ServiceDialHandler {
  readonly service: OverlayService;
  readonly onDial: OverlayHosting["onDial"];
  readonly #place: TerminatorPlace;
  readonly #instanceId: string | undefined;
  #cost: number;
  #precedence: Precedence;
  #id = "";
  #closed = false;

  constructor(service: OverlayService, o: OverlayHosting, place: TerminatorPlace) {
    this.service = service;
    this.onDial = o.onDial;
    this.#place = place;
    this.#instanceId = o.instanceId;
    this.#cost = o.cost;
    this.#precedence = precedenceOf(o.precedence);
  }

  open(): void {
    this.#id = this.#place.newId();
    this.#place.enter(this.#id, this);
    const { control, log, onTerminatorCreated } = this.#place;
    const since = performance.now();
    const fields = { serviceName: this.service.name, terminatorId: this.#id };
    control
      .createTerminator({
        address: this.#id,
        serviceId: this.service.id,
        serviceName: this.service.name,
        cost: this.#cost,
        precedence: this.#precedence,
        instanceId: this.#instanceId,
      })
      .then(
        ({ result }) => {
          if (result !== TerminatorResult.Success) return;
          onTerminatorCreated?.((performance.now() - since) * 1e6);
          log.info(fields, "hosting a service");
        },
        (error: unknown) => {
          if (!this.#closed) log.warn({ ...fields, err: error }, "a service is not hosted");
        },
      );
  }

  /** The id belongs to another host: the terminator goes on under a new one. */
  renamed(): void {
    this.#place.leave(this.#id);
    if (!this.#closed) this.open();
  }

  async update(o: { cost?: number | undefined; precedence?: PrecedenceName | undefined }): Promise<void> {
    const precedence = o.precedence === undefined ? undefined : precedenceOf(o.precedence);
    this.#cost = o.cost ?? this.#cost;
    this.#precedence = precedence ?? this.#precedence;
    try {
      await this.#place.control.updateTerminator(this.#id, { cost: o.cost, precedence });
    } catch (error) {
      const fields = { serviceName: this.service.name, terminatorId: this.#id, err: error };
      const text = "the controller did not take the new cost or precedence; it gets them with the terminator next time";
      this.#place.log.warn(fields, text);
    }
  }

  healthEvent(passed: boolean): void {
    this.#place.control.healthEvent(this.#id, passed);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#place.leave(this.#id);
    this.#place.control.removeTerminators([this.#id]);
  }
}
