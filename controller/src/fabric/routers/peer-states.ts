import { ControlType, ctrlPb, encodeControl } from "@sallyport/wire";
import type { Mesh } from "../links/mesh.ts";
import type { RouterConnection } from "./router-connection.ts";

const { PeerState } = ctrlPb;

type PeerStateChange = Parameters<typeof encodeControl<typeof ctrlPb.PeerStateChangesSchema>>[1];

/** Tells routers of one another, so that they can dial links. Source: docs/protocol/fabric.md, "Peers". */
export class PeerStates {
  readonly #mesh: Mesh;

  constructor(mesh: Mesh) {
    this.#mesh = mesh;
  }

  /** The new one hears of all that are connected, they hear of it. */
  connected(router: RouterConnection): void {
    const others = this.#mesh.routers().filter((other) => other.id !== router.id);
    if (others.length > 0) this.#send(router, { changes: others.map(healthy) });
    for (const other of others) this.#send(other, { changes: [healthy(router)] });
  }

  /** Links to it may stay; routers do not dial it until it is back. */
  disconnected(routerId: string): void {
    this.#toAllBut(routerId, { changes: [{ id: routerId, state: PeerState.Unhealthy }] });
  }

  /** Its entity is gone. */
  removed(routerId: string): void {
    this.#toAllBut(routerId, { changes: [{ id: routerId, state: PeerState.Removed }] });
  }

  #toAllBut(routerId: string, changes: PeerStateChange): void {
    for (const router of this.#mesh.routers()) if (router.id !== routerId) this.#send(router, changes);
  }

  #send(router: RouterConnection, changes: PeerStateChange): void {
    const body = encodeControl(ctrlPb.PeerStateChangesSchema, changes);
    router.send({ contentType: ControlType.PeerStateChanges, body });
  }
}

function healthy(router: RouterConnection) {
  return {
    id: router.id,
    version: router.version.version,
    state: PeerState.Healthy,
    listeners: router.listeners.map((l) => ({
      address: l.address,
      protocol: l.protocol,
      costTags: [...l.costTags],
      groups: [...l.groups],
      localBinding: l.localBinding,
    })),
  };
}
