import type { EntityBody, EntityPlan, FoundEntity } from "../plan.ts";

/** A change that a server of the family makes to what it stores. */
type Stored = Readonly<Record<string, unknown>>;

/**
 * What a server has after a plan was carried out, as the least helpful server of the family would: lists are sorted, addresses and names
 * rewritten, empty maps and defaults told in other words.
 */
export function carriedOut<Found extends FoundEntity>(plan: EntityPlan<object>, found: Found | undefined): Found {
  switch (plan.action) {
    case "create":
      return { id: "made", ...rewritten(plan.body) } as unknown as Found;
    case "patch":
    case "adopt":
      return { ...found, ...rewritten(plan.body) } as unknown as Found;
    default:
      if (found === undefined) throw new Error(`nothing is there after ${plan.action}`);
      return found;
  }
}

function rewritten(body: Partial<EntityBody<object>>): Stored {
  const { variant, ...rest } = body as Stored & { readonly variant?: Stored };
  const flat: Stored = { ...rest, ...variant };
  return Object.fromEntries(Object.entries(flat).map(([name, value]) => [name, rewrite(name, value)]));
}

function rewrite(name: string, value: unknown): unknown {
  if (name === "macAddresses") return texts(value).map((each) => each.replaceAll(/[^0-9A-Fa-f]/g, "").toLowerCase());
  if (name === "domains") return texts(value).map((each) => each.toUpperCase());
  if (name === "terminatorStrategy" && value === "smartrouting") return "";
  if (name === "roleAttributes" && texts(value).length === 0) return null;
  if (name.endsWith("Roles") || name === "configs") return texts(value).toSorted().toReversed();
  if (name === "secondary") return { requireExtJwtSigner: null, ...(value as object) };
  if (name === "processes") return (value as Stored[]).map(rewrittenProcess).toReversed();
  if (name === "process") return rewrittenProcess(value as Stored);
  return value;
}

function rewrittenProcess(process: Stored): Stored {
  return { signerFingerprint: "", ...process, hashes: texts(process.hashes).map((each) => each.toUpperCase()) };
}

const texts = (value: unknown): string[] => value as string[];
