import type { PeerChange } from "./dial-state.ts";

/**
 * What several controllers say of other routers. A router is unhealthy for a controller that has no control channel to
 * it, which says nothing while another controller has one.
 */
export class PeerHealth {
  /** The connected controllers that call a router healthy, by its id. */
  readonly #by = new Map<string, Set<string>>();

  /** Whether a controller's word counts. */
  hear(controllerId: string, { id, state }: Pick<PeerChange, "id" | "state">): boolean {
    if (state === "removed") {
      this.#by.delete(id);
      return true;
    }
    if (state === "healthy") {
      this.#by.set(id, (this.#by.get(id) ?? new Set()).add(controllerId));
      return true;
    }
    const others = this.#by.get(id);
    others?.delete(controllerId);
    return others === undefined || others.size === 0;
  }

  /** The controller is not connected any more: what it said last may not hold any longer. */
  forget(controllerId: string): void {
    for (const [id, controllers] of this.#by) {
      controllers.delete(controllerId);
      if (controllers.size === 0) this.#by.delete(id);
    }
  }
}
