import type { Message, Outgoing } from "@sallyport/wire";
import type { EmitEvent } from "../fabric-events.ts";
import type { Mesh } from "../links/mesh.ts";
import type { RouterConnection } from "./router-connection.ts";

const ANSWER_MS = 10_000;

/** What operators do to single routers, past the rules by which the fabric itself speaks to them. */
export class RouterOperations {
  readonly #mesh: Mesh;
  readonly #emit: EmitEvent;
  #isTraced: ((routerId: string) => boolean) | undefined;

  constructor(mesh: Mesh, emit: EmitEvent) {
    this.#mesh = mesh;
    this.#emit = emit;
  }

  /**
   * Sends a message to a router and waits for its answer; undefined when it is not connected.
   * @throws RequestTimeoutError, ChannelClosedError
   */
  async request(id: string, out: Outgoing, timeoutMs = ANSWER_MS): Promise<Message | undefined> {
    return this.#mesh.router(id)?.channel.request(out, { timeoutMs });
  }

  /** Sends a message to a router; false when it is not connected. */
  send(id: string, out: Outgoing): boolean {
    return this.#mesh.router(id)?.send(out) ?? false;
  }

  /** From now on reports every message of the control channels that `isTraced` picks, also of routers that connect later; undefined ends that. */
  trace(isTraced: ((routerId: string) => boolean) | undefined): void {
    this.#isTraced = isTraced;
    for (const router of this.#mesh.routers()) this.attach(router);
  }

  attach(router: RouterConnection): void {
    const { id: routerId, channel } = router;
    if (this.#isTraced?.(routerId) !== true) delete channel.observer;
    else channel.observer = (message) => this.#emit({ kind: "control-message", routerId, message });
  }
}
