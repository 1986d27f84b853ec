import { pause } from "@sallyport/async";
import { ControlError } from "../errors.ts";
import type { ControllerConnection } from "./controller-connection.ts";

/** How long a request may be unanswered before its controller is asked whether it answers at all. */
const PATIENCE_MS = 1000;

/** A controller answers neither a request nor a probe, while another one could be asked. */
export class ControllerHangsError extends ControlError {
  override readonly name = "ControllerHangsError";

  constructor(controllerId: string) {
    super("CONTROLLER_HANGS", `controller ${controllerId} answers neither a request nor a heartbeat`);
  }
}

export interface HangingOptions<T> {
  /** To be withdrawn when the signal aborts. */
  readonly ask: (signal: AbortSignal) => Promise<T>;
  /** Whether another controller could be asked instead. */
  readonly hasAlternative: () => boolean;
  /** Whether the controller answers a heartbeat that is sent now. */
  readonly answers: () => Promise<boolean>;
}

/**
 * The answer of a controller, however long it takes as long as the controller answers heartbeats meanwhile: it is busy then, and another one
 * would be too. Rejects with ControllerHangsError, and withdraws the request, when it does not and another one could be asked.
 */
export async function unlessHanging<T>(
  controller: ControllerConnection,
  { ask, hasAlternative, answers }: HangingOptions<T>,
): Promise<T> {
  const withdrawal = new AbortController();
  const settled = new AbortController();
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  ask(withdrawal.signal)
    .then(resolve, reject)
    .finally(() => settled.abort());
  const watch = async (): Promise<void> => {
    for (;;) {
      await pause(PATIENCE_MS, settled.signal, { ref: false });
      if (settled.signal.aborted) return;
      if (!hasAlternative() || (await answers()) || settled.signal.aborted || !hasAlternative()) continue;
      const error = new ControllerHangsError(controller.id);
      reject(error);
      withdrawal.abort(error);
      return;
    }
  };
  watch().catch(reject);
  return await promise;
}
