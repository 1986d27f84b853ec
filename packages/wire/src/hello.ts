import type { Headers } from "./headers.ts";

/** The first message of a connection: who the dialer says it is. Only the acceptor knows what the headers mean. */
export interface Hello {
  /** Body of the hello: a claim of the peer, proven by nothing but what the acceptor checks. */
  readonly idToken: string;
  readonly headers: Headers;
}
