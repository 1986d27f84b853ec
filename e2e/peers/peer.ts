/** OpenZiti's program as the suites use it. */
export interface PeerProgram {
  /** Path of the binary; empty when `isMissing`. */
  readonly path: string;
  /** The same program built without a version: it announces v0.0.0, which counts as newer than everything. */
  readonly unversionedPath: string;
  /** A program on the newest SDK of OpenZiti that its module registry serves: `posture-client/main.go`. */
  readonly postureClient: string;
  /** Both ends of grouped links on OpenZiti's channel module: `link-relay/main.go`. */
  readonly linkRelay: string;
  readonly isMissing: boolean;
  /** OpenZiti's program of generation 2, which the caller of the suites names in `OPENZITI2`. */
  readonly generation2: Generation2Program;
}

export interface Generation2Program {
  /** Path of the binary; empty when `isMissing`. */
  readonly path: string;
  /** What it answers to `version`, like `v2.0.3`. */
  readonly version: string;
  /** Skip with it what is for programs of 2.x. */
  readonly isMissing: boolean;
}

function generation2(): Generation2Program {
  const found = process.env.SALLYPORT_PEER_GENERATION_2;
  if (found === undefined) return { path: "", version: "2.x", isMissing: true };
  return { ...(JSON.parse(found) as Pick<Generation2Program, "path" | "version">), isMissing: false };
}

/** What `setup.ts` found; use `describe.skipIf(peer.isMissing)` so that a suite without OpenZiti is counted as skipped. */
export const peer: PeerProgram = {
  path: process.env.SALLYPORT_PEER ?? "",
  unversionedPath: process.env.SALLYPORT_PEER_UNVERSIONED ?? "",
  postureClient: process.env.SALLYPORT_PEER_POSTURE_CLIENT ?? "",
  linkRelay: process.env.SALLYPORT_PEER_LINK_RELAY ?? "",
  isMissing: process.env.SALLYPORT_PEER === undefined,
  generation2: generation2(),
};
