import { countedAddress } from "@sallyport/wire";
import type { ApiSessionContext } from "./context.ts";

/** The key of a caller, for everything that callers share. */
export interface Caller {
  /** The identity once there is a session, before that the address as it is counted. */
  readonly key: string;
  readonly hasSession: boolean;
  /** Fully authenticated, too. */
  readonly isAdministrator: boolean;
}

/** @param remoteIp of the connection */
export function callerOf(remoteIp: string, session: ApiSessionContext | undefined): Caller {
  if (session === undefined) return { key: countedAddress(remoteIp), hasSession: false, isAdministrator: false };
  return {
    key: session.identityId,
    hasSession: true,
    isAdministrator: session.isAdmin && session.isFullyAuthenticated,
  };
}
