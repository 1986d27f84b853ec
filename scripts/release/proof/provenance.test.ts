import { expect, it } from "vitest";
import { provenance } from "./provenance.ts";

const COMMIT = "a".repeat(40);
const MAKING = {
  version: "1.2.3",
  madeAt: 5,
  node: "26.0.0",
  pins: new Map([["package-lock.json", Buffer.from("{}")]]),
};

it("a provenance names every file by its checksum, and what it was made of", () => {
  const statement = provenance(new Map([["a.txt", Buffer.from("a")]]), { ...MAKING, source: COMMIT });
  expect(statement).toMatchObject({
    _type: "https://in-toto.io/Statement/v1",
    subject: [
      { name: "a.txt", digest: { sha256: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" } },
    ],
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        externalParameters: { version: "1.2.3" },
        internalParameters: { SOURCE_DATE_EPOCH: "5", hasChanges: false },
        resolvedDependencies: [
          { name: "source", digest: { gitCommit: COMMIT } },
          { name: "package-lock.json", digest: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/) } },
        ],
      },
    },
  });
  const changed = provenance(new Map(), { ...MAKING, source: `${COMMIT} with changes` });
  expect(changed).toMatchObject({ predicate: { buildDefinition: { internalParameters: { hasChanges: true } } } });
});
