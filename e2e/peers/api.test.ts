import { afterAll, beforeAll, describe } from "vitest";
import { type SideBySide, startSideBySide } from "../network/openziti/side-by-side.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { Both } from "./answers/ask.ts";
import { credentialAnswers } from "./answers/credentials.ts";
import { emptyValues } from "./answers/empty-values.ts";
import { filterAnswers } from "./answers/filters.ts";
import { mfaAnswers } from "./answers/mfa.ts";
import { refusals } from "./answers/refusals.ts";
import { filteredRouters, ROUTERS } from "./answers/routers-by-filter.ts";
import { updateAnswers } from "./answers/updates.ts";
import { peer } from "./peer.ts";

/** The same requests to OpenZiti's controller and to ours, and what both answer. */
describe.skipIf(peer.isMissing)("our APIs answer as OpenZiti's do", () => {
  let folder = "";
  let sides: SideBySide;
  let both: Both;

  beforeAll(async () => {
    folder = makeScratch("api");
    sides = await startSideBySide(peer.path, folder);
    both = new Both(sides);
    for (const { management } of [sides.theirs, sides.ours]) {
      for (const body of ROUTERS) await management.createEdgeRouter({ body });
    }
  });

  afterAll(async () => {
    both?.close();
    await sides?.stop();
    removeScratch(folder);
  });

  filteredRouters(() => both);
  refusals(() => both);
  filterAnswers(() => both);
  updateAnswers(() => both);
  credentialAnswers(() => both);
  emptyValues(() => both);
  mfaAnswers(() => both);
});
