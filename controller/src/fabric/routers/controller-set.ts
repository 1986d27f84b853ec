import { ControlType, ctrlPb, encodeControl } from "@sallyport/wire";
import type { Mesh } from "../links/mesh.ts";
import type { ControllerSetPort } from "../replicas.ts";
import { onRawMessage } from "./inbound.ts";
import type { RouterConnection } from "./router-connection.ts";

/**
 * Tells routers where all controllers are: after they connect, when the set changes, and when they ask. A controller that was always alone tells nothing.
 * Source: docs/protocol/control.md, "Several controllers".
 */
export class ControllerSet {
  readonly #mesh: Mesh;
  readonly #set: ControllerSetPort | undefined;
  readonly #stop: () => void;
  #index: bigint;
  #isLeader: boolean;

  constructor(mesh: Mesh, set: ControllerSetPort | undefined) {
    this.#mesh = mesh;
    this.#set = set;
    this.#index = set?.index ?? 0n;
    this.#isLeader = set?.isLeader ?? false;
    this.#stop = set?.onChange(() => this.#changed(set)) ?? (() => undefined);
  }

  attach(router: RouterConnection): void {
    onRawMessage(router, ControlType.RequestClusterMembers, () => this.connected(router));
  }

  connected(router: RouterConnection): void {
    const set = this.#set;
    if (set === undefined || set.index === 0n) return;
    const { index, isLeader } = set;
    const replicas = set.replicas();
    const body = encodeControl(ctrlPb.UpdateCtrlAddressesSchema, {
      ...{ index, isLeader },
      // Routers of OpenZiti 1.6 read the addresses, those of 2.x the controllers.
      addresses: replicas.map(({ ctrlAddress }) => ctrlAddress),
      controllers: replicas.map(({ id, ctrlAddress }) => ({ id, endpoints: [{ address: ctrlAddress }] })),
    });
    router.send({ contentType: ControlType.UpdateCtrlAddresses, body });
    if (!isLeader) return;
    // Routers of 1.6 do not look for the leader in a set that they know from another controller.
    const leader = encodeControl(ctrlPb.UpdateClusterLeaderSchema, { index });
    router.send({ contentType: ControlType.UpdateClusterLeader, body: leader });
  }

  close(): void {
    this.#stop();
  }

  #changed(set: ControllerSetPort): void {
    const isNew = set.index > this.#index || (set.isLeader && !this.#isLeader);
    this.#isLeader = set.isLeader;
    this.#index = set.index;
    if (isNew) for (const router of this.#mesh.routers()) this.connected(router);
  }
}
