import type { MessageInitShape } from "@bufbuild/protobuf";
import type { edgeCtrlPb } from "@sallyport/wire";

type Subtype = NonNullable<MessageInitShape<typeof edgeCtrlPb.DataState_PostureCheckSchema>["subtype"]>;
type Data = Readonly<Record<string, unknown>>;

/** What a posture check asks for, as routers get it; a type without anything of its own has no subtype. Source: docs/protocol/data-model.md, "Posture checks". */
export function postureSubtype(typeId: string, data: Data): Subtype {
  switch (typeId) {
    case "MAC":
      return { case: "mac", value: { macAddresses: texts(data.macAddresses) } };
    case "DOMAIN":
      return { case: "domains", value: { domains: texts(data.domains) } };
    case "MFA":
      return {
        case: "mfa",
        value: {
          timeoutSeconds: BigInt(Math.trunc(number(data.timeoutSeconds, -1))),
          promptOnWake: data.promptOnWake === true,
          promptOnUnlock: data.promptOnUnlock === true,
          ignoreLegacyEndpoints: data.ignoreLegacyEndpoints === true,
        },
      };
    case "OS":
      return {
        case: "osList",
        value: {
          osList: records(data.operatingSystems).map((os) => ({
            osType: text(os.type),
            osVersions: texts(os.versions),
          })),
        },
      };
    case "PROCESS": {
      const [process] = records([data.process]);
      return { case: "process", value: processOf(process ?? {}) };
    }
    case "PROCESS_MULTI":
      return {
        case: "processMulti",
        value: { semantic: text(data.semantic), processes: records(data.processes).map(processOf) },
      };
    default:
      return { case: undefined };
  }
}

function processOf(process: Data) {
  const signer = text(process.signerFingerprint);
  return {
    osType: text(process.osType),
    path: text(process.path),
    hashes: texts(process.hashes),
    fingerprints: signer === "" ? texts(process.signerFingerprints) : [signer],
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown, otherwise: number): number {
  return typeof value === "number" && Number.isFinite(value) ? value : otherwise;
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

function records(value: unknown): Data[] {
  return Array.isArray(value) ? value.filter((each): each is Data => typeof each === "object" && each !== null) : [];
}
