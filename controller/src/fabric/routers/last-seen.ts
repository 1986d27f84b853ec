import { BoundedMap } from "@sallyport/async";
import type { FabricEvent } from "../fabric-events.ts";

/** More than any network has; who deletes and creates routers all day makes room. */
const MAX_ROUTERS = 10_000;

/** When routers that are offline were connected last, since the start of this process. */
export class LastSeen {
  readonly #byRouter = new BoundedMap<string, Date>(MAX_ROUTERS);
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  note(event: Pick<FabricEvent, "kind"> & { readonly routerId?: string }): void {
    const { kind, routerId = "" } = event;
    if (kind === "router-offline") this.#byRouter.set(routerId, new Date(this.#now()));
    if (kind === "router-online") this.#byRouter.delete(routerId);
  }

  all(): readonly (readonly [string, Date])[] {
    return [...this.#byRouter.entries()];
  }
}
