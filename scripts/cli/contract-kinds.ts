/** The kinds of `sallyport` with their actions and lists below an entity, from the contract of the APIs. */
import type { Action, Kind } from "../../cli/src/kinds/kind.ts";
import { type ApiName, BASE_PATHS, type Operation, operations } from "../../packages/api/src/index.ts";
import { answerSchema, type Schema } from "./contract-schemas.ts";

/** In aliases, as OpenZiti's documentation and command line write them. */
const SHORT_WORDS: Readonly<Record<string, string>> = { external: "ext" };

/** A kind with the schemas of its operations. */
export interface ContractKind extends Kind {
  readonly api: ApiName;
  readonly operations: Readonly<Partial<Record<Action, Operation>>>;
  /** Of one entity in answers. */
  readonly shown: Schema;
}

/** Kinds in the order of the contract. What both APIs have is the Management API's. */
export function contractKinds(): readonly ContractKind[] {
  const found: Omit<ContractKind, "aliases">[] = [];
  for (const api of ["management", "fabric"] as const) {
    for (const operation of Object.values<Operation>(operations[api])) {
      const plural = /^\/([a-z-]+)$/.exec(operation.path)?.[1];
      const { method, response, unserved } = operation;
      if (plural === undefined || method !== "GET" || response.kind !== "list" || unserved !== undefined) continue;
      if (found.some((kind) => kind.plural === plural)) continue;
      const shown = answerSchema(response.item);
      const names = Object.keys(shown.properties ?? {});
      const hasId = names.includes("id") || shown.oneOf !== undefined;
      const hasName = names.includes("name") || shown.oneOf !== undefined;
      if (!hasId && !hasName) continue;
      const own = operationsOf(api, operation.path);
      const path = `${BASE_PATHS[api]}${operation.path}`;
      found.push({
        name: singularOf(plural),
        plural,
        path,
        summary: operation.summary,
        actions: Object.keys(own) as Action[],
        hasId,
        hasName,
        isPaged: response.paged,
        related: relatedLists(api, operation.path),
        api,
        operations: own,
        shown,
      });
    }
  }
  const abbreviations = found.map(({ name }) => abbreviationOf(name));
  return found.map((kind) => {
    const abbreviation = abbreviationOf(kind.name);
    const isTaken = abbreviations.filter((each) => each === abbreviation).length > 1;
    const short = kind.name.split("-").map((word) => SHORT_WORDS[word] ?? word);
    const shortName = short.join("-");
    const aliases = [
      ...(shortName === kind.name ? [] : [shortName, `${shortName}s`]),
      ...(abbreviation === undefined || isTaken ? [] : [abbreviation]),
    ];
    return { ...kind, aliases };
  });
}

function operationsOf(api: ApiName, path: string): Partial<Record<Action, Operation>> {
  const of = (method: string, where: string) =>
    Object.values<Operation>(operations[api]).find(
      (operation) => operation.method === method && operation.path === where && operation.unserved === undefined,
    );
  const one = `${path}/{id}`;
  const found = {
    list: of("GET", path),
    detail: of("GET", one),
    create: of("POST", path),
    replace: of("PUT", one),
    patch: of("PATCH", one),
    delete: of("DELETE", one),
  };
  return Object.fromEntries(Object.entries(found).filter(([, operation]) => operation !== undefined));
}

function relatedLists(api: ApiName, path: string): string[] {
  return Object.values<Operation>(operations[api]).flatMap((operation) => {
    if (operation.method !== "GET" || operation.response.kind !== "list" || !operation.response.paged) return [];
    const name = operation.path.startsWith(`${path}/{id}/`) ? operation.path.slice(`${path}/{id}/`.length) : "";
    return name === "" || name.includes("/") ? [] : [name];
  });
}

/** `service-policies` is `service-policy`. */
export function singularOf(plural: string): string {
  return plural.endsWith("ies") ? `${plural.slice(0, -3)}y` : plural.replace(/s$/, "");
}

/** First letters of the words of a name; undefined for a single word. */
function abbreviationOf(name: string): string | undefined {
  const words = name.split("-");
  return words.length > 1 ? words.map((word) => word[0]).join("") : undefined;
}
