import { Backoff, pause } from "@sallyport/async";
import type { NetworkResource } from "@sallyport/resources";

/** For so long a connection may still be led to a controller that has ended: until Kubernetes, or a load balancer, has noticed. */
const PATIENCE_MS = 3_000;
const PAUSES = { firstMs: 100, maxMs: 500 };

/** Whether a network has other controllers, which go on when one of them ends. */
function hasSeveralControllers({ spec, status }: Pick<NetworkResource, "spec" | "status">): boolean {
  return (spec.managed?.replicas ?? 1) > 1 || (status.controllers?.length ?? 0) > 1;
}

/**
 * Asks a network, and asks it again for up to 3 s while it seems to be away and has several controllers: the next connection reaches another one.
 * It is asked twice at least, however long the first answer took.
 *
 * @param ask what it throws ends this at once
 * @param isAway whether an answer says that the controller can't be reached
 * @returns the last answer
 */
export async function outlastFailover<T>(
  network: Pick<NetworkResource, "spec" | "status">,
  ask: () => Promise<T>,
  isAway: (answer: T) => boolean,
  signal: AbortSignal,
): Promise<T> {
  const endsAt = performance.now() + PATIENCE_MS;
  const backoff = new Backoff(PAUSES);
  let answer = await ask();
  if (!hasSeveralControllers(network)) return answer;
  while (isAway(answer) && (backoff.failures === 0 || performance.now() < endsAt)) {
    await pause(backoff.next(), signal);
    signal.throwIfAborted();
    answer = await ask();
  }
  return answer;
}
