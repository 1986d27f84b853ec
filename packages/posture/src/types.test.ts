import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type PostureCheckType,
  type PostureReport,
  type PostureReportType,
  postureCheckDetail,
  postureCheckFailure,
  postureData,
} from "@sallyport/api";
import { edgeCtrlPb } from "@sallyport/wire";
import { describe, expect, it } from "vitest";
import {
  deviceData,
  NOTHING_REPORTED,
  type PostureCheck,
  passes,
  postureType,
  storedFields,
  takeReport,
} from "./types.ts";
import { checkOfWire } from "./wire-checks.ts";

/** What each type stores, which reports make it pass, and the field of the routers' data model that holds it. */
const SAMPLES: Readonly<Record<PostureCheckType, readonly [object, PostureReportType[], string]>> = {
  OS: [{ operatingSystems: [{ type: "Linux", versions: [">=6.0.0"] }] }, ["OS"], "osList"],
  PROCESS: [
    { process: { osType: "Linux", path: "/a", hashes: ["aa"], signerFingerprint: "bb" } },
    ["PROCESS"],
    "process",
  ],
  DOMAIN: [{ domains: ["corp.example"] }, ["DOMAIN"], "domains"],
  MAC: [{ macAddresses: ["01:23"] }, ["MAC"], "mac"],
  PROCESS_MULTI: [
    { semantic: "AllOf", processes: [{ osType: "Linux", path: "/a", hashes: ["aa"], signerFingerprints: ["bb"] }] },
    ["OS", "PROCESS"],
    "processMulti",
  ],
  MFA: [{ timeoutSeconds: 60, promptOnWake: true, promptOnUnlock: false, ignoreLegacyEndpoints: true }, [], "mfa"],
};

const REPORTS: { readonly [T in PostureReportType]: PostureReport<T> } = {
  OS: { typeId: "OS", id: "c", type: "linux", version: "6.8.0" },
  DOMAIN: { typeId: "DOMAIN", id: "c", domain: "CORP.example" },
  MAC: { typeId: "MAC", id: "c", macAddresses: ["0123"] },
  PROCESS: { typeId: "PROCESS", id: "c", path: "/a", isRunning: true, hash: "AA", signerFingerprints: ["BB"] },
  ENDPOINT_STATE: { typeId: "ENDPOINT_STATE", id: "c", woken: true },
};
const NOW = 1_700_000_000_000;
const AT = "1970-01-01T00:00:00.000Z";

describe.each(Object.keys(SAMPLES) as PostureCheckType[])("the type %s", (typeId) => {
  const [data, reports, subtype] = SAMPLES[typeId];
  const common = { id: "c", name: "check", createdAt: new Date(0), updatedAt: new Date(0) };
  const check = { ...common, typeId, ...storedFields(typeId, { ...data }) } as PostureCheck;
  const type = postureType(typeId);

  it("keeps exactly its own fields of what is stored", () => {
    expect(storedFields(typeId, { ...data, other: 1 })).toEqual(data);
    expect(Object.keys(storedFields(typeId, {}))).toEqual(Object.keys(type.defaults));
  });

  it("passes once the device has reported it or the session has passed it, and not before", () => {
    expect(passes(check, NOTHING_REPORTED, NOW)).toBe(false);
    const device = reports.reduce((before, each) => {
      const taken = takeReport(each, REPORTS[each], NOW, before);
      return "device" in taken ? taken.device : before;
    }, NOTHING_REPORTED.device);
    expect(type.isReported).toBe(reports.length > 0);
    const session = type.isReported ? {} : { mfaPassedAt: NOW };
    expect(passes(check, { device, session }, NOW)).toBe(true);
  });

  it("answers with the fields and failures of the contract", () => {
    const base = { _links: {}, createdAt: AT, updatedAt: AT, id: "c", name: "check", roleAttributes: [], version: 1 };
    expect(postureCheckDetail.safeParse({ ...base, typeId, ...type.detail(check) }).error).toBeUndefined();
    const failure = { postureCheckId: "c", postureCheckName: "check", postureCheckType: typeId };
    const found = type.failure(check, NOTHING_REPORTED, NOW);
    expect(postureCheckFailure.safeParse({ ...failure, ...found }).error).toBeUndefined();
  });

  it("has a form in the data model of routers", () => {
    const message = create(edgeCtrlPb.DataState_PostureCheckSchema, { subtype: type.subtype(check) });
    expect(message.subtype.case).toBe(subtype);
  });

  it("is the same check at a router as at the controller", () => {
    const schema = edgeCtrlPb.DataState_PostureCheckSchema;
    const message = create(schema, { id: "c", name: "check", typeId, subtype: type.subtype(check) });
    const read = checkOfWire(fromBinary(schema, toBinary(schema, message)));
    expect(read).toEqual({ ...common, typeId, ...data });
  });
});

it("administrators see every report as the contract has it", () => {
  const data = { apiSessionPostureData: {}, ...deviceData(NOTHING_REPORTED.device) };
  expect(postureData.safeParse(data).error).toBeUndefined();
});

it("a type that a later version stored is an error, not a check that asks for nothing", () => {
  for (const typeId of ["DISK", "toString", ""]) expect(() => postureType(typeId)).toThrow(/unknown/);
});
