import { BoundedMap } from "@sallyport/async";
import { ANNOTATIONS, amountOf } from "@sallyport/resources";
import type { KubeObject } from "../kube/kinds.ts";
import { hashOf, isMap } from "./json-value.ts";

/**
 * The object with the hash of itself as an annotation. With it {@link isAsIntended} knows a field that was wanted once and no more from one
 * that another client has set.
 */
export function withIntent<T extends KubeObject>(object: T): T {
  const { metadata } = object;
  const annotations = { ...metadata.annotations, [ANNOTATIONS.intent]: hashOf(object) };
  // As JSON: fields without a value are not part of the intent.
  return JSON.parse(JSON.stringify({ ...object, metadata: { ...metadata, annotations } })) as T;
}

/** Whether an object is what a write of an intent would leave. */
export type IsThere = (found: KubeObject | undefined, intended: KubeObject) => boolean;

/**
 * Whether `found` is what applying `intended` (made by {@link withIntent}) would leave: then nothing is written. What others have added, and what the API
 * server fills in, is theirs.
 */
export function isAsIntended(found: KubeObject | undefined, intended: KubeObject): boolean {
  return found !== undefined && contains(found, intended);
}

/** Maps that are one value to the API server: a label more selects something else. */
const SELECTORS = new Set(["selector", "podSelector", "namespaceSelector", "nodeSelector", "matchLabels"]);
/** Rules whose lists are one value: whatever is added to them lets more through. */
const RULES = new Set(["ingress", "egress"]);

function contains(found: unknown, wanted: unknown, name = "", isRule = RULES.has(name)): boolean {
  if (isNothing(wanted)) return isNothing(found);
  if (Array.isArray(wanted)) return Array.isArray(found) && containsItems(found, wanted, isRule);
  if (isMap(wanted)) {
    if (!isMap(found)) return false;
    const isMore = SELECTORS.has(name) && Object.keys(found).some((key) => wanted[key] === undefined);
    return (
      !isMore &&
      Object.entries(wanted).every(([key, value]) => contains(found[key], value, key, isRule || RULES.has(key)))
    );
  }
  if (found === wanted) return true;
  const [left, right] = [amountOf(found), amountOf(wanted)];
  return left !== undefined && left === right;
}

/** The items that the API server merges by; lists of others are compared place by place. */
const KEYS = ["name", "mountPath", "containerPort", "port", "type", "topologyKey"];

const keyOf = (wanted: readonly unknown[]): string | undefined =>
  KEYS.find((name) => wanted.every((item) => isMap(item) && item[name] !== undefined));

function containsItems(found: readonly unknown[], wanted: readonly unknown[], isRule: boolean): boolean {
  if (isRule || keyOf(wanted) === undefined) {
    return found.length === wanted.length && wanted.every((item, place) => contains(found[place], item, "", isRule));
  }
  // Others may have added items to a list that is merged by key.
  return wanted.every((item) => found.some((each) => isMap(each) && isMap(item) && contains(each, item)));
}

/** Of an object what stands at the places of an intent: what others have added, and what the API server fills in, is not among it. */
function partOf(found: unknown, wanted: unknown, name = "", isRule = RULES.has(name)): unknown {
  if (Array.isArray(wanted) && Array.isArray(found)) {
    const key = isRule ? undefined : keyOf(wanted);
    if (key === undefined) return found;
    return wanted.map((item) =>
      partOf(
        found.find((each) => isMap(each) && each[key] === item[key]),
        item,
      ),
    );
  }
  if (!isMap(wanted) || !isMap(found) || SELECTORS.has(name)) return found;
  return Object.fromEntries(
    Object.entries(wanted).map(([key, value]) => [key, partOf(found[key], value, key, isRule || RULES.has(key))]),
  );
}

/** The API server leaves out what is empty, false or 0 in many places: there is no telling whether it was set. */
function isNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === "" || value === false || value === 0) return true;
  return isMap(value) || Array.isArray(value) ? Object.values(value).every(isNothing) : false;
}

/** Hashes of one object each. What is forgotten costs one write that changes nothing. */
const MAX_KNOWN = 10_000;

/** By hashes: nothing of a Secret is kept. */
interface KnownAdmission {
  readonly intended: string;
  readonly got: string;
}

/**
 * Remembers what admission made of our writes, such as images from another registry. That result counts as intended until it or the intent changes.
 * Without this the operator would write the object at every look, and a rollout would never end.
 */
export class Admissions {
  readonly #known: BoundedMap<string, KnownAdmission>;

  constructor(max = MAX_KNOWN) {
    this.#known = new BoundedMap(max);
  }

  readonly isThere: IsThere = (found, intended) => {
    if (found === undefined) return false;
    if (isAsIntended(found, intended)) return true;
    const known = this.#known.get(nameOf(intended));
    return known !== undefined && known.intended === hashOf(intended) && known.got === hashOf(partOf(found, intended));
  };

  /** `answer` is what the server made of a write of `intended`. True: this is news, and something else than was asked for. */
  wrote(intended: KubeObject, answer: KubeObject): boolean {
    const name = nameOf(intended);
    const before = this.#known.get(name);
    this.#known.delete(name);
    if (isAsIntended(answer, intended)) return false;
    const known = { intended: hashOf(intended), got: hashOf(partOf(answer, intended)) };
    this.#known.set(name, known);
    return before?.got !== known.got;
  }
}

const nameOf = ({ apiVersion, kind, metadata: { namespace, name } }: KubeObject): string =>
  `${apiVersion} ${kind} ${namespace}/${name}`;
