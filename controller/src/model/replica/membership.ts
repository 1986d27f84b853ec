import { type ApiError, apiError, unhandledCause } from "@sallyport/api";
import type { Replica, ReplicaSet } from "./replica-set.ts";

/** What clients of a cluster of OpenZiti ask for that is done in another way here. */
const DONE_OTHERWISE = {
  add: "a controller joins by itself: start it with an id of its own (`replica.id`) on the same database",
  lead: "the lead cannot be given to a certain controller: stop the one that leads, and another one takes over within a second",
  load: "all controllers work on one database: restore a backup into it while none of them runs",
} as const;

/** What administrators learn of the controllers of a network, and do with them. Source: docs/fabric-api.md, "Cluster". */
export class Membership {
  readonly #replicas: Pick<ReplicaSet, "replicas" | "isShared" | "remove">;

  constructor(replicas: Pick<ReplicaSet, "replicas" | "isShared" | "remove">) {
    this.#replicas = replicas;
  }

  /** @throws ApiError 400 `SERVER_NOT_RUNNING_IN_HA_MODE` when this controller works alone */
  members(): readonly Replica[] {
    this.#checkShared();
    return this.#replicas.replicas();
  }

  /** @throws ApiError 400 `SERVER_NOT_RUNNING_IN_HA_MODE` when this controller works alone; as {@link ReplicaSet.remove} */
  async remove(id: string): Promise<void> {
    this.#checkShared();
    return this.#replicas.remove(id);
  }

  /** Why this is not served, and what to do. */
  refusal(what: keyof typeof DONE_OTHERWISE): ApiError {
    if (!this.#replicas.isShared) return apiError("SERVER_NOT_RUNNING_IN_HA_MODE");
    return apiError("NOT_IMPLEMENTED", unhandledCause(DONE_OTHERWISE[what]));
  }

  #checkShared(): void {
    if (!this.#replicas.isShared) throw apiError("SERVER_NOT_RUNNING_IN_HA_MODE");
  }
}
