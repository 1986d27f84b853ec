/** Whether an installed operator can work, and whether it can go: what the chart's hooks ask. */

import { lookup } from "node:dns/promises";
import { isIPv6 } from "node:net";
import { errorText, mapLimit, pause } from "@sallyport/async";
import { ANNOTATIONS, API_VERSION, KINDS as RESOURCES, SCHEMA_VERSION } from "@sallyport/resources";
import type { KubeClient } from "../kube/client/client.ts";
import { KubeError } from "../kube/client/errors.ts";
import { KINDS, type KubeObject, type ResourceKind } from "../kube/kinds.ts";
import { OWN_RIGHTS, RIGHTS, type Right } from "./generated/rights.ts";

export interface CheckSettings {
  /** Namespaces that are looked after; empty: all. */
  readonly namespaces: readonly string[];
  /** The operator's own; its rights there are not checked when absent. */
  readonly namespace: string | undefined;
  /** URL of the operator's pods, one behind each address of its name; not asked when absent. */
  readonly operator: URL | undefined;
  /** How long the operator may take to become ready. */
  readonly timeoutMs: number;
}

type Say = (line: string) => void;
type Checked = { readonly good: string } | { readonly problem: string };

const INTERVAL_MS = 1_000;
/** Of one request to a pod. */
const REQUEST_LIMIT_MS = 5_000;
const MAX_NAMES = 20;
/** Questions for rights. */
const MAX_CONCURRENT = 20;

/**
 * Are the kinds served, may this process do what an operator does, is each pod of the operator ready? Says a line for each,
 * and answers the exit status: 0 when all is well. It changes nothing.
 */
export async function checkInstallation(
  client: Pick<KubeClient, "get" | "list" | "create">,
  settings: CheckSettings,
  say: Say,
  signal: AbortSignal = AbortSignal.timeout(settings.timeoutMs),
): Promise<number> {
  const { operator } = settings;
  const checks: Readonly<Record<string, () => Promise<Checked>>> = {
    kinds: () => kindsAreServed(client, settings.namespaces),
    rights: () => rightsAreGiven(client, settings),
    ...(operator === undefined ? {} : { operator: () => podsAreReady(operator, signal) }),
  };
  let status = 0;
  for (const [name, check] of Object.entries(checks)) {
    const result = await check().catch((error: unknown) => ({ problem: errorText(error) }));
    if ("problem" in result) status = 1;
    say("problem" in result ? `[-]${name} failed: ${result.problem}` : `[+]${name} ok: ${result.good}`);
  }
  return status;
}

/** The CRDs where they may be read, otherwise the kinds in the namespaces. */
async function kindsAreServed(
  client: Pick<KubeClient, "get" | "list">,
  namespaces: readonly string[],
): Promise<Checked> {
  const found = await problemOfCrds(client, RESOURCES, new AbortController().signal);
  if (typeof found === "object") return found;
  if (found === undefined) return { good: `all ${RESOURCES.length} kinds of ${API_VERSION} are installed` };
  for (const kind of RESOURCES) {
    try {
      await Promise.all(namespaces.map((namespace) => client.list(kind, namespace, { resourceVersion: "0" })));
    } catch (error) {
      if (!(error instanceof KubeError) || !error.isNotFound) throw error;
      return {
        problem: `the kind ${kind.kind} of ${API_VERSION} is not served: an administrator has to apply the CustomResourceDefinitions of this version`,
      };
    }
  }
  return { good: `all ${RESOURCES.length} kinds of ${API_VERSION} are served; their schema version may not be read` };
}

interface Question extends Omit<Right, "verbs"> {
  readonly verb: string;
  /** Empty: all. */
  readonly namespace: string;
}

async function rightsAreGiven(
  client: Pick<KubeClient, "create">,
  { namespaces, namespace }: CheckSettings,
): Promise<Checked> {
  const asked = [
    ...(namespaces.length === 0 ? [""] : namespaces).flatMap((place) => questions(RIGHTS, place)),
    ...(namespace === undefined ? [] : questions(OWN_RIGHTS, namespace)),
  ];
  // All at once they would be more than a fair share of an API server.
  const allowed = await mapLimit(asked, MAX_CONCURRENT, (one) => isAllowed(client, one));
  const missing = asked.filter((_, index) => !allowed[index]);
  if (missing.length === 0) {
    const where = namespaces.length === 0 ? "all namespaces" : `namespaces ${namespaces.join(", ")}`;
    return { good: `all ${asked.length} rights are given in ${where}` };
  }
  return { problem: `may not ${listed(missing.map(describe))}: look at the roles and bindings of the service account` };
}

const questions = (rights: readonly Right[], namespace: string): Question[] =>
  rights.flatMap(({ verbs, ...right }) => verbs.map((verb) => ({ ...right, verb, namespace })));

const describe = ({ group, resource, verb, namespace }: Question): string =>
  `${verb} ${resource}${group === "" ? "" : `.${group}`} in ${namespace === "" ? "all namespaces" : `the namespace ${namespace}`}`;

async function isAllowed(
  client: Pick<KubeClient, "create">,
  { group, resource: whole, verb, namespace }: Question,
): Promise<boolean> {
  const [resource, subresource = ""] = whole.split("/");
  const review = await client.create<KubeObject & { readonly status?: { readonly allowed: boolean } }>({
    apiVersion: "authorization.k8s.io/v1",
    kind: KINDS.SelfSubjectAccessReview.kind,
    metadata: { name: "" },
    ...{ spec: { resourceAttributes: { group, resource, subresource, verb, namespace } } },
  });
  return review.status?.allowed === true;
}

/** Asks every pod behind the name until all of them are ready, or the time is over. */
async function podsAreReady(url: URL, signal: AbortSignal): Promise<Checked> {
  let problem = "it was not asked";
  do {
    const addresses = await addressesOf(url.hostname).catch((error: unknown) => errorText(error));
    if (typeof addresses === "string") problem = `${url.hostname} could not be looked up: ${addresses}`;
    else {
      const problems = await Promise.all(addresses.map((address) => readiness(address, url.port)));
      const found = problems.filter((each) => each !== undefined);
      if (found.length === 0) return { good: `${addresses.length} pods are ready (${addresses.join(", ")})` };
      problem = found.join("; ");
    }
    await pause(INTERVAL_MS, signal);
  } while (!signal.aborted);
  return { problem: `${problem}, and the time is over` };
}

const addressesOf = async (name: string): Promise<string[]> =>
  (await lookup(name, { all: true })).map(({ address }) => address).sort();

/** What is wrong with a pod, in its own words when it has some. */
async function readiness(address: string, port: string): Promise<string | undefined> {
  const host = isIPv6(address) ? `[${address}]` : address;
  try {
    const answer = await fetch(`http://${host}:${port}/readyz`, { signal: AbortSignal.timeout(REQUEST_LIMIT_MS) });
    const text = await answer.text();
    if (answer.ok) return undefined;
    const failed = text.split("\n").filter((line) => line.startsWith("[-]"));
    return `the pod at ${address} is not ready: ${failed.join(", ") || `status ${answer.status}`}`;
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? errorText(error.cause) : errorText(error);
    return `the pod at ${address} does not answer: ${cause}`;
  }
}

/**
 * Are there resources that the operator looks after? Names them, and what to do; answers the exit status: 0 when there are
 * none. Kinds that the API server does not know have none.
 */
export async function checkUninstall(
  client: Pick<KubeClient, "list">,
  { namespaces }: Pick<CheckSettings, "namespaces">,
  say: Say,
): Promise<number> {
  const places = namespaces.length === 0 ? [undefined] : namespaces;
  const lists = await Promise.all(RESOURCES.flatMap((kind) => places.map((place) => namesOf(client, kind, place))));
  const left = lists.flat();
  if (left.length === 0) {
    say("no resources are left");
    return 0;
  }
  const where = places.map((place) => (place === undefined ? "--all-namespaces" : `--namespace ${place}`));
  say(`${left.length} resources are left, which no operator would clean up: ${listed(left)}`);
  say("Delete them first, and wait until they are gone:");
  for (const place of where) say(`    kubectl delete overlay --all ${place}`);
  say("To uninstall the operator all the same (they stay, with their finalizers): helm uninstall --no-hooks");
  return 1;
}

async function namesOf(
  client: Pick<KubeClient, "list">,
  kind: (typeof RESOURCES)[number],
  place: string | undefined,
): Promise<string[]> {
  try {
    const { items } = await client.list(kind, place);
    return items.map(({ metadata }) => `${kind.kind} ${metadata.namespace}/${metadata.name}`);
  } catch (error) {
    if (error instanceof KubeError && error.isNotFound) return [];
    throw error;
  }
}

function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMES;
  return `${names.slice(0, MAX_NAMES).join(", ")}${more > 0 ? `, and ${more} more` : ""}`;
}

/**
 * What is wrong with the CustomResourceDefinitions of the cluster: one that is missing, or older than this operator, whose fields the API server would
 * drop. Undefined: nothing. `forbidden` where the operator may not look, as in one that is limited to namespaces.
 */
export async function problemOfCrds(
  client: Pick<KubeClient, "get">,
  kinds: readonly ResourceKind[],
  signal: AbortSignal,
): Promise<{ readonly problem: string } | "forbidden" | undefined> {
  for (const { plural, group } of kinds) {
    const name = `${plural}.${group}`;
    try {
      const crd = await client.get<KubeObject>({ kind: KINDS.CustomResourceDefinition, name }, { signal });
      if (crd === undefined)
        return { problem: `the CustomResourceDefinition ${name} is missing: apply the folder crds of this version` };
      const version = Number(crd.metadata.annotations?.[ANNOTATIONS.schemaVersion] ?? 0);
      if (version < SCHEMA_VERSION) {
        return {
          problem: `the CustomResourceDefinition ${name} has schema version ${version}, this operator needs ${SCHEMA_VERSION}: apply the folder crds of this version`,
        };
      }
    } catch (error) {
      if (error instanceof KubeError && error.isForbidden) return "forbidden";
      throw error;
    }
  }
  return undefined;
}
