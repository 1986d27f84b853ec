/** How a release was made, as a statement of in-toto with the predicate of SLSA (https://slsa.dev/spec/v1.1/provenance). */
import { createHash } from "node:crypto";

const STATEMENT = "https://in-toto.io/Statement/v1";
const PREDICATE = "https://slsa.dev/provenance/v1";

export interface Making {
  readonly version: string;
  /** The commit; with more than 40 hexadecimal digits where the tree had changes. */
  readonly source: string;
  /** Date of everything in the release, in seconds since 1970. */
  readonly madeAt: number;
  /** Version of Node. */
  readonly node: string;
  /** Files that pin what came from elsewhere: content by path in the repository. */
  readonly pins: ReadonlyMap<string, Buffer>;
}

/** The same files and making give the same statement: when and by whom it was made is the signature's matter. */
export function provenance(files: ReadonlyMap<string, Buffer>, making: Making): object {
  const { version, source, madeAt, node, pins } = making;
  const [commit = source, ...changes] = source.split(" ");
  return {
    _type: STATEMENT,
    subject: [...files].map(([name, bytes]) => ({ name, digest: { sha256: sha256(bytes) } })),
    predicateType: PREDICATE,
    predicate: {
      buildDefinition: {
        buildType: "https://sallyport.dev/release/v1",
        externalParameters: { command: `make release VERSION=${version}`, version },
        internalParameters: { SOURCE_DATE_EPOCH: String(madeAt), node, hasChanges: changes.length > 0 },
        resolvedDependencies: [
          { name: "source", digest: { gitCommit: commit } },
          ...[...pins].map(([name, bytes]) => ({ name, digest: { sha256: sha256(bytes) } })),
        ],
      },
      runDetails: { builder: { id: "https://sallyport.dev/release/v1/local" } },
    },
  };
}

function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
