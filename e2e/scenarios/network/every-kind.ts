import { KINDS as RESOURCES } from "../../../packages/resources/src/group.ts";
import { sample } from "../../../packages/resources/src/kinds/testing/samples.ts";
import type { Stage } from "../stage.ts";

/** All kinds that there are. */
export const KINDS = RESOURCES.map(({ kind }) => kind);

/** Declares a resource: the least that its kind takes, with changes. */
export async function declare(
  stage: Stage,
  kind: string,
  name: string,
  changes: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const { apiVersion, spec } = sample(kind, changes, name);
  await stage.apply({ apiVersion, kind, metadata: { name }, spec });
}
