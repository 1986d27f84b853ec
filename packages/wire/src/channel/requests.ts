import { RequestTimeoutError } from "../errors.ts";
import type { Message } from "../frame/message.ts";
import type { RequestOptions } from "./channel.ts";

const DEFAULT_TIMEOUT_MS = 30_000;

interface Waiter {
  resolve(message: Message): void;
  reject(reason: unknown): void;
}

/** The requests of one channel that wait for their replies, by sequence number. */
export class Requests {
  readonly #waiters = new Map<number, Waiter>();

  /**
   * Waits for the reply to `sequence`; `send` is called once the waiter is in place.
   * @throws RequestTimeoutError, or the signal's reason, or what `failAll` was called with, or what `send` threw
   */
  wait(sequence: number, what: string, options: RequestOptions | undefined, send: () => void): Promise<Message> {
    const signal = options?.signal;
    const timeoutMs = options?.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const finish = (): void => {
        this.#waiters.delete(sequence);
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
      };
      const fail = (reason: unknown): void => {
        finish();
        reject(reason);
      };
      const onAbort = (): void => fail(signal?.reason);
      const timer = setTimeout(
        () => fail(new RequestTimeoutError(`no reply to ${what} (sequence ${sequence}) within ${timeoutMs} ms`)),
        timeoutMs,
      );
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiters.set(sequence, {
        resolve: (message) => {
          finish();
          resolve(message);
        },
        reject: fail,
      });
      try {
        send();
      } catch (error) {
        fail(error);
      }
    });
  }

  /** Gives a reply to the request that waits for it; false when none does (any more). */
  settle(message: Message): boolean {
    const waiter = message.replyFor === undefined ? undefined : this.#waiters.get(message.replyFor);
    waiter?.resolve(message);
    return waiter !== undefined;
  }

  failAll(reason: Error): void {
    for (const waiter of [...this.#waiters.values()]) waiter.reject(reason);
  }
}
