import type { OsType } from "@sallyport/api";
import { isSameSystem, type OsDevice } from "./os.ts";
import type { PostureType } from "./posture-type.ts";
import { actualProcess, newestReport, type ProcessDevice, passesProcess } from "./process.ts";

/** All of the programs, or one of them, run on a device of their system. Devices report each as `PROCESS`. */
export const processMulti: PostureType<"PROCESS_MULTI", ProcessDevice & OsDevice> = {
  defaults: { semantic: "AllOf", processes: [] },
  isReported: true,
  passes({ id, semantic, processes }, { device }) {
    const isFulfilled = ({ osType, path, hashes, signerFingerprints }: (typeof processes)[number]) =>
      device.os !== undefined &&
      isSameSystem(osType, device.os.type) &&
      passesProcess(newestReport(device, id, path), hashes, signerFingerprints);
    return semantic === "AllOf" ? processes.every(isFulfilled) : processes.some(isFulfilled);
  },
  isTimed: () => false,
  detail: ({ semantic, processes }) => ({ semantic, processes }),
  failure: ({ id, semantic, processes }, { device }) => ({
    semantic,
    actualValue: processes.map((each) => actualProcess(newestReport(device, id, each.path), each)),
    expectedValue: processes,
  }),
  query: ({ processes }) => ({ processes: processes.map(({ osType, path }) => ({ osType, path })) }),
  subtype: ({ semantic, processes }) => ({
    case: "processMulti",
    value: {
      semantic,
      processes: processes.map(({ signerFingerprints, ...process }) => ({
        ...process,
        fingerprints: signerFingerprints,
      })),
    },
  }),
  ofWire(subtype) {
    if (subtype.case !== "processMulti") return undefined;
    const { semantic } = subtype.value;
    if (semantic !== "AllOf" && semantic !== "AnyOf") return undefined;
    const processes = subtype.value.processes.map(({ osType, path, hashes, fingerprints }) => ({
      osType: osType as OsType,
      path,
      hashes,
      signerFingerprints: fingerprints,
    }));
    return { semantic, processes };
  },
};
