/** Waiting times of failed dials, in milliseconds. */
export interface Backoff {
  readonly minRetryInterval: number;
  readonly maxRetryInterval: number;
  readonly retryBackoffFactor: number;
}

/**
 * The next waiting time after one of `previous` (0: first failure): previous times the factor with a random part of up to
 * half, within the bounds. `random` is from 0 to 1.
 */
export function nextDelay(previous: number, backoff: Backoff, random: number): number {
  const factor = Math.max(1, backoff.retryBackoffFactor + random - 0.5);
  return Math.min(Math.max(previous * factor, backoff.minRetryInterval), backoff.maxRetryInterval);
}
