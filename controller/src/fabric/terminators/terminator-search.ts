import type { Logger } from "@sallyport/wire";
import type { DynamicCosts } from "../circuits/costs.ts";
import { CircuitFailureCause } from "../fabric-events.ts";
import type { Mesh } from "../links/mesh.ts";
import type { FabricOptions } from "../options.ts";
import type { FabricModel, TerminatorRecord } from "../ports.ts";
import type { StartGrace } from "../routers/start-grace.ts";
import { WaitingDials } from "../waiting/waiting-dials.ts";
import { type Choice, type ChoiceRequest, chooseTerminator } from "./terminator-choice.ts";

/** How often a waiting dial looks for new terminators. */
const READ_AGAIN_MS = 1_000;

interface TerminatorSearchParts {
  readonly model: Pick<FabricModel, "terminatorsOfService">;
  readonly mesh: Mesh;
  readonly start: StartGrace;
  readonly costs: Pick<DynamicCosts, "of">;
  readonly options: Pick<FabricOptions, "returnWaitMs">;
  readonly log: Logger;
}

/**
 * Finds terminator and path for a circuit. A controller that was just started waits for the routers and links of the process before it, as long as what is
 * missing may come back with them. Source: docs/protocol/fabric.md, "Restart".
 */
export class TerminatorSearch {
  readonly #parts: TerminatorSearchParts;
  readonly #waiting = new WaitingDials();

  constructor(parts: TerminatorSearchParts) {
    this.#parts = parts;
  }

  /** @param waitUntil by the steady clock; what is not found by then is not found */
  async find(request: ChoiceRequest, waitUntil: number): Promise<Choice> {
    const { model, mesh, start, options, log } = this.#parts;
    const read = (): Promise<readonly TerminatorRecord[]> => model.terminatorsOfService(request.service.id);
    let terminators = await read();
    let choice = this.choose(request, terminators);
    if (choice.ok || !this.#mayReturn(request, choice.cause, terminators)) return choice;
    if (!this.#waiting.begin(request.from)) return choice;
    const { cause } = choice;
    log.debug({ serviceId: request.service.id, cause }, "a dial waits for routers and links to come back");
    const until = Math.min(waitUntil, performance.now() + options.returnWaitMs);
    let readAgainAt = performance.now() + READ_AGAIN_MS;
    try {
      for (;;) {
        const leftMs = Math.min(start.leftMs, until - performance.now());
        if (leftMs > 0) await mesh.nextChange(Math.min(leftMs, readAgainAt - performance.now()));
        choice = this.choose(request, terminators);
        // Every search wakes at every change of the mesh: it asks the store before it answers, and now and then for hosts that went to other routers.
        if (choice.ok || leftMs <= 0 || performance.now() >= readAgainAt) {
          terminators = await read();
          readAgainAt = performance.now() + READ_AGAIN_MS;
          choice = this.choose(request, terminators);
        }
        if (choice.ok || leftMs <= 0 || !this.#mayReturn(request, choice.cause, terminators)) return choice;
      }
    } finally {
      this.#waiting.end(request.from);
    }
  }

  /** What a dial of this moment among these terminators comes to, without waiting for any of them. */
  choose(request: ChoiceRequest, terminators: readonly TerminatorRecord[]): Choice {
    const { mesh, costs } = this.#parts;
    return chooseTerminator(request, terminators, mesh.paths(), (id) => mesh.router(id) !== undefined, costs);
  }

  /** Can a router or a link that comes back help? */
  #mayReturn(
    { from, instanceId }: ChoiceRequest,
    cause: CircuitFailureCause,
    terminators: readonly TerminatorRecord[],
  ): boolean {
    const { mesh, start } = this.#parts;
    // No caller is left to answer.
    if (mesh.router(from) === undefined) return false;
    if (cause === CircuitFailureCause.NoPath) return start.isRunning;
    if (cause !== CircuitFailureCause.NoOnlineTerminators) return false;
    return terminators.some((t) => t.instanceId === instanceId && start.isExpected(t.routerId));
  }
}
