import { ControlError } from "../errors.ts";
import type { Controllers } from "./controllers.ts";

/** Waits for the first controller; rejects with ControlError `STARTUP_TIMEOUT` after `timeoutMs`, 0: never. */
export function firstController(controllers: Controllers, timeoutMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer =
      timeoutMs === 0
        ? undefined
        : setTimeout(
            () =>
              reject(
                new ControlError(
                  "STARTUP_TIMEOUT",
                  `no controller was reached within ${timeoutMs / 1000} s (ctrl.startupTimeout)`,
                ),
              ),
            timeoutMs,
          );
    signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
    controllers.onConnected(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
