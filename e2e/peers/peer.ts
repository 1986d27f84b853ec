/** The peer's program as the suites use it. */
export interface PeerProgram {
  /** Path of the binary; empty when `isMissing`. */
  readonly path: string;
  readonly isMissing: boolean;
}

/** What `setup.ts` found; use `describe.skipIf(peer.isMissing)` so that a suite without the peer is counted as skipped. */
export const peer: PeerProgram = {
  path: process.env.SALLYPORT_PEER ?? "",
  isMissing: process.env.SALLYPORT_PEER === undefined,
};
