import { describe } from "vitest";
import type { Both } from "./ask.ts";
import { identityUpdates } from "./updates/identities.ts";
import { policyUpdates } from "./updates/policies.ts";
import { postureCheckUpdates } from "./updates/posture-checks.ts";
import { routerUpdates } from "./updates/routers.ts";
import { serviceUpdates } from "./updates/services.ts";
import { sessionAnswers } from "./updates/sessions.ts";

/** Updates with null, names that are taken, entities of the system, references; routers, the fabric API and posture checks. */
export function updateAnswers(both: () => Both): void {
  describe("entities", () => {
    serviceUpdates(both);
    identityUpdates(both);
    policyUpdates(both);
    routerUpdates(both);
    postureCheckUpdates(both);
    sessionAnswers(both);
  });
}
