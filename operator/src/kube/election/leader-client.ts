import type { CallOptions, KubeClient } from "../client/client.ts";
import { LeadershipLostError } from "./elector.ts";

/** @throws LeadershipLostError when this process may not act any more */
export type LeaderCheck = () => void;

/** A check that asks whether this process may act at this very moment, and not whether it was told already that it may not. */
export const leaderCheck =
  (mayAct: () => boolean): LeaderCheck =>
  () => {
    if (!mayAct()) throw new LeadershipLostError("the lease is over: another process may act by now, this one may not");
  };

/**
 * The client, which writes nothing once this process may not act any more, not even by sending a write again that the server had put off. A process that was stopped for a
 * while (by its node, a debugger, a long collection of garbage) goes on in the middle of its work, before the elector notices.
 */
export function leaderClient(client: KubeClient, check: LeaderCheck): KubeClient {
  const checked = <O extends CallOptions>(o: O): O => ({ ...o, beforeSending: check });
  return {
    get: (ref, o) => client.get(ref, o),
    list: (kind, namespace, o) => client.list(kind, namespace, o),
    watch: (kind, o) => client.watch(kind, o),
    apply: (object, o = {}) => client.apply(object, checked(o)),
    create: (object, o = {}) => client.create(object, checked(o)),
    replace: (object, o = {}) => client.replace(object, checked(o)),
    patch: (ref, mergePatch, o = {}) => client.patch(ref, mergePatch, checked(o)),
    delete: (ref, o = {}) => client.delete(ref, checked(o)),
    requestToken: (account, o) => client.requestToken(account, checked(o)),
  };
}
