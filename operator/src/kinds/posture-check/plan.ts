import { bareHex, type EntityKind, type FoundEntity, lowerCase, sameSet } from "../../entity/plan.ts";
import { scopedAttributes } from "../../entity/roles.ts";
import type { PostureCheckSpec } from "./schema.ts";

type OsType = "Windows" | "WindowsServer" | "Android" | "iOS" | "Linux" | "macOS";

interface OperatingSystem {
  readonly type: OsType;
  readonly versions: readonly string[];
}

interface Process {
  readonly osType: OsType;
  readonly path: string;
  readonly hashes: readonly string[];
  readonly signerFingerprint?: string;
}

interface ProcessOfMany {
  readonly osType: OsType;
  readonly path: string;
  readonly hashes: readonly string[];
  readonly signerFingerprints: readonly string[];
}

/** The fields that each type has besides the attributes. */
type Variant =
  | { readonly typeId: "DOMAIN"; readonly domains: readonly string[] }
  | { readonly typeId: "OS"; readonly operatingSystems: readonly OperatingSystem[] }
  | { readonly typeId: "PROCESS"; readonly process: Process }
  | {
      readonly typeId: "PROCESS_MULTI";
      readonly semantic: "AllOf" | "AnyOf";
      readonly processes: readonly ProcessOfMany[];
    }
  | { readonly typeId: "MAC"; readonly macAddresses: readonly string[] }
  | {
      readonly typeId: "MFA";
      /** -1: without limit. */
      readonly timeoutSeconds: number;
      readonly promptOnWake: boolean;
      readonly promptOnUnlock: boolean;
      readonly ignoreLegacyEndpoints: boolean;
    };

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

function variantOf(spec: PostureCheckSpec): Variant {
  if (spec.domain !== undefined) return { typeId: "DOMAIN", domains: spec.domain.domains };
  if (spec.operatingSystem !== undefined) {
    const operatingSystems = spec.operatingSystem.operatingSystems.map(({ type, versions }) => ({
      type,
      versions: versions ?? [],
    }));
    return { typeId: "OS", operatingSystems };
  }
  if (spec.process !== undefined) {
    const { osType, path, hashes, signerFingerprint } = spec.process;
    const signer = signerFingerprint === undefined ? {} : { signerFingerprint };
    return { typeId: "PROCESS", process: { osType, path, hashes: hashes ?? [], ...signer } };
  }
  if (spec.processMulti !== undefined) {
    const processes = spec.processMulti.processes.map(({ osType, path, hashes, signerFingerprints }) => ({
      osType,
      path,
      hashes: hashes ?? [],
      signerFingerprints: signerFingerprints ?? [],
    }));
    return { typeId: "PROCESS_MULTI", semantic: spec.processMulti.semantic, processes };
  }
  if (spec.mac !== undefined) return { typeId: "MAC", macAddresses: spec.mac.macAddresses };
  const { timeoutSeconds = 0, promptOnWake, promptOnUnlock, ignoreLegacyEndpoints } = spec.mfa ?? {};
  return {
    typeId: "MFA",
    timeoutSeconds: timeoutSeconds > 0 ? timeoutSeconds : NO_TIMEOUT,
    promptOnWake: promptOnWake ?? false,
    promptOnUnlock: promptOnUnlock ?? false,
    ignoreLegacyEndpoints: ignoreLegacyEndpoints ?? false,
  };
}

/** Servers write domains, hashes and addresses in a form of their own: case and separators don't count. */
function sameVariant(wanted: Variant, found: FoundPostureCheck): boolean {
  switch (wanted.typeId) {
    case "DOMAIN":
      return sameSet(wanted.domains, found.domains, lowerCase);
    case "MAC":
      return sameSet(wanted.macAddresses, found.macAddresses, bareHex);
    case "OS": {
      const text = ({ type, versions }: { type: string; versions?: Texts }) =>
        JSON.stringify([type, [...new Set(versions ?? [])].sort()]);
      return sameSet(wanted.operatingSystems.map(text), found.operatingSystems?.map(text));
    }
    case "PROCESS":
      return found.process !== undefined && processText(wanted.process) === processText(found.process);
    case "PROCESS_MULTI":
      return (
        wanted.semantic === found.semantic &&
        sameSet(wanted.processes.map(processText), found.processes?.map(processText))
      );
    case "MFA":
      return (
        wanted.timeoutSeconds === ((found.timeoutSeconds ?? 0) > 0 ? found.timeoutSeconds : NO_TIMEOUT) &&
        wanted.promptOnWake === (found.promptOnWake ?? false) &&
        wanted.promptOnUnlock === (found.promptOnUnlock ?? false) &&
        // Some servers keep it and never tell: then it is written along with every other change.
        wanted.ignoreLegacyEndpoints === (found.ignoreLegacyEndpoints ?? wanted.ignoreLegacyEndpoints)
      );
  }
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
