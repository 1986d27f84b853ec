import type { Mesh } from "../links/mesh.ts";
import type { FabricOptions } from "../options.ts";

/** The first moments of this process: routers of the process before it, and their links, come back. Source: docs/protocol/fabric.md, "Restart". */
export class StartGrace {
  /** Runs while they are expected. */
  #timer: NodeJS.Timeout | undefined;
  readonly #endsAt: number;
  /** Routers that have connected to this process. */
  readonly #seen = new Set<string>();

  /** `onOver` is called when it ends by itself. */
  constructor(ms: number, onOver: () => void) {
    this.#endsAt = performance.now() + ms;
    this.#timer = setTimeout(() => {
      this.close();
      onOver();
    }, ms);
  }

  get isRunning(): boolean {
    return this.#timer !== undefined;
  }

  /** Milliseconds until it is over. */
  get leftMs(): number {
    return this.isRunning ? Math.max(0, this.#endsAt - performance.now()) : 0;
  }

  connected(routerId: string): void {
    if (this.isRunning) this.#seen.add(routerId);
  }

  /** May the router, which is not connected, still be on its way back from the process before? */
  isExpected(routerId: string): boolean {
    return this.isRunning && !this.#seen.has(routerId);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#seen.clear();
  }
}

/** A router says a moment after it has connected where clients reach it, which is no change of the mesh. */
const LOOK_EVERY_MS = 100;
/** Callers that wait at a time; further ones do not wait. */
const MAX_WAITING = 1_000;

/** Has clients of a controller that was just started wait for a first router, before it answers that there is none. */
export class FirstReturn {
  readonly #mesh: Mesh;
  readonly #start: StartGrace;
  readonly #maxWaitMs: number;
  #waiting = 0;

  constructor(mesh: Mesh, start: StartGrace, options: Pick<FabricOptions, "returnWaitMs">) {
    this.#mesh = mesh;
    this.#start = start;
    this.#maxWaitMs = options.returnWaitMs;
  }

  /** Resolves when clients can use one of these routers, or none of them is expected: mostly at once. */
  async ofSome(routerIds: readonly string[]): Promise<void> {
    const until = performance.now() + this.#maxWaitMs;
    while (!this.#isSomeUsable(routerIds) && this.#isSomeExpected(routerIds) && this.#waiting < MAX_WAITING) {
      const leftMs = Math.min(this.#start.leftMs, until - performance.now());
      if (leftMs <= 0) return;
      this.#waiting++;
      await this.#mesh.nextChange(Math.min(leftMs, LOOK_EVERY_MS));
      this.#waiting--;
    }
  }

  #isSomeUsable(routerIds: readonly string[]): boolean {
    return routerIds.some((id) => Object.keys(this.#mesh.router(id)?.supportedProtocols ?? {}).length > 0);
  }

  #isSomeExpected(routerIds: readonly string[]): boolean {
    if (!this.#start.isRunning) return false;
    return routerIds.some((id) => this.#start.isExpected(id) || this.#mesh.router(id) !== undefined);
  }
}
