import type { PostureCheckType, PostureFields } from "@sallyport/api";
import { type Collection, writable } from "../../entity/collection.ts";
import { bareHex, type EntityBody, type EntityKind, type FoundEntity, lowerCase, sameSet } from "../../entity/plan.ts";
import { scopedAttributes } from "../../entity/references.ts";
import type { PostureCheckSpec } from "./schema.ts";

/** The fields that each type has besides the attributes. */
type Variant = { readonly [T in PostureCheckType]: PostureFields<T> & { readonly typeId: T } }[PostureCheckType];

export interface PostureCheckFields {
  readonly roleAttributes: readonly string[];
  /** Written as fields of the check itself. */
  readonly variant: Variant;
}

type Texts = readonly string[] | null | undefined;

interface FoundProcess {
  readonly osType?: string;
  readonly path?: string;
  readonly hashes?: Texts;
  readonly signerFingerprint?: string | null | undefined;
  readonly signerFingerprints?: Texts;
}

export interface FoundPostureCheck extends FoundEntity {
  readonly typeId: string;
  readonly roleAttributes?: Texts;
  readonly domains?: Texts;
  readonly operatingSystems?: readonly { readonly type: string; readonly versions?: Texts }[] | null;
  readonly process?: FoundProcess;
  readonly semantic?: string;
  readonly processes?: readonly FoundProcess[] | null;
  readonly macAddresses?: Texts;
  readonly timeoutSeconds?: number;
  readonly promptOnWake?: boolean;
  readonly promptOnUnlock?: boolean;
  readonly ignoreLegacyEndpoints?: boolean;
}

const NO_TIMEOUT = -1;

export const postureCheck: EntityKind<PostureCheckSpec, PostureCheckFields, FoundPostureCheck> = {
  noun: "posture check",
  references: () => [],
  desired: (spec, { scope }) => ({
    fields: { roleAttributes: scopedAttributes(spec.roleAttributes, scope), variant: variantOf(spec) },
    missing: [],
  }),
  same: {
    roleAttributes: (wanted, found) => sameSet(wanted, found.roleAttributes),
    variant: sameVariant,
  },
  refusal: ({ typeId }, { variant }) =>
    typeId === variant.typeId
      ? undefined
      : `is a check of the type ${typeId} and can't become ${variant.typeId}: give the resource another name in the network`,
};

/** One type of check: a new one is an entry here and in `schema.ts`. */
interface PostureVariant<T extends PostureCheckType> {
  /** The fields that the resource asks for; undefined when it is of another type. */
  wanted(spec: PostureCheckSpec): PostureFields<T> | undefined;
  /** Servers write domains, hashes and addresses in a form of their own: case and separators don't count. */
  same(wanted: PostureFields<T>, found: FoundPostureCheck): boolean;
}

const VARIANTS: { readonly [T in PostureCheckType]: PostureVariant<T> } = {
  OS: {
    wanted: ({ operatingSystem }) =>
      operatingSystem && {
        operatingSystems: operatingSystem.operatingSystems.map(({ type, versions = [] }) => ({ type, versions })),
      },
    same: (wanted, found) => sameSet(wanted.operatingSystems.map(systemText), found.operatingSystems?.map(systemText)),
  },
  PROCESS: {
    wanted: ({ process }) => process && { process: { ...process, hashes: process.hashes ?? [] } },
    same: (wanted, found) => found.process !== undefined && processText(wanted.process) === processText(found.process),
  },
  DOMAIN: {
    wanted: ({ domain }) => domain,
    same: (wanted, found) => sameSet(wanted.domains, found.domains, lowerCase),
  },
  MAC: {
    wanted: ({ mac }) => mac,
    same: (wanted, found) => sameSet(wanted.macAddresses, found.macAddresses, bareHex),
  },
  PROCESS_MULTI: {
    wanted: ({ processMulti }) =>
      processMulti && {
        semantic: processMulti.semantic,
        processes: processMulti.processes.map(({ hashes = [], signerFingerprints = [], ...process }) => ({
          ...process,
          hashes,
          signerFingerprints,
        })),
      },
    same: (wanted, found) =>
      wanted.semantic === found.semantic &&
      sameSet(wanted.processes.map(processText), found.processes?.map(processText)),
  },
  MFA: {
    wanted: ({ mfa }) =>
      mfa && {
        timeoutSeconds: timeoutOf(mfa.timeoutSeconds),
        promptOnWake: mfa.promptOnWake ?? false,
        promptOnUnlock: mfa.promptOnUnlock ?? false,
        ignoreLegacyEndpoints: mfa.ignoreLegacyEndpoints ?? false,
      },
    same: (wanted, found) =>
      wanted.timeoutSeconds === timeoutOf(found.timeoutSeconds) &&
      wanted.promptOnWake === (found.promptOnWake ?? false) &&
      wanted.promptOnUnlock === (found.promptOnUnlock ?? false) &&
      // Some servers store it and never show it: then the operator writes it along with every other change.
      wanted.ignoreLegacyEndpoints === (found.ignoreLegacyEndpoints ?? wanted.ignoreLegacyEndpoints),
  },
};
const TYPES = Object.keys(VARIANTS) as PostureCheckType[];

function variantOf(spec: PostureCheckSpec): Variant {
  for (const typeId of TYPES) {
    const wanted = VARIANTS[typeId].wanted(spec);
    if (wanted !== undefined) return { typeId, ...wanted } as Variant;
  }
  throw new Error("the posture check names no kind of check: expected exactly one");
}

function sameVariant(wanted: Variant, found: FoundPostureCheck): boolean {
  return (VARIANTS[wanted.typeId] as PostureVariant<PostureCheckType>).same(wanted, found);
}

/** -1: without limit. */
function timeoutOf(seconds = 0): number {
  return seconds > 0 ? seconds : NO_TIMEOUT;
}

/** Two systems are the same when their texts are. */
function systemText({ type, versions }: { readonly type: string; readonly versions?: Texts }): string {
  return JSON.stringify([type, [...new Set(versions ?? [])].sort()]);
}

/** Two processes are the same when their texts are. */
function processText(process: FoundProcess): string {
  const hexes = (values: Texts): string[] => [...new Set((values ?? []).map(bareHex))].sort();
  const signer = process.signerFingerprint ? [process.signerFingerprint] : [];
  return JSON.stringify([
    process.osType,
    process.path,
    hexes(process.hashes),
    hexes([...signer, ...(process.signerFingerprints ?? [])]),
  ]);
}

/** The variant's fields are those of the check itself. */
export const postureChecks: Collection<PostureCheckFields, FoundPostureCheck> = {
  list: (client, query, call) => client.listPostureChecks({ query }, call),
  detail: (client, id, call) => client.detailPostureCheck({ params: { id } }, call),
  create: async (client, body, call) => (await client.createPostureCheck({ body: flat(body) }, call)).data.id,
  replace: (client, { id }, body, call) => client.updatePostureCheck({ params: { id }, body: flat(body) }, call),
  fieldsOf(found) {
    const { _links, createdAt, updatedAt, version, id, name, tags, roleAttributes, ...rest } = found as Shown;
    const systems = found.operatingSystems?.map(({ type, versions }) => ({ type, versions: versions ?? [] }));
    const variant = { ...rest, ...(systems && { operatingSystems: systems }) } as PostureCheckFields["variant"];
    return { roleAttributes: roleAttributes ?? [], variant };
  },
  delete: (client, id, call) => client.deletePostureCheck({ params: { id } }, call),
};

type Shown = FoundPostureCheck & Readonly<Record<string, unknown>>;

const flat = ({ variant, ...rest }: EntityBody<PostureCheckFields>) => writable({ ...rest, ...variant });
