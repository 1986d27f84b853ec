import {
  type DeviceReport,
  hexDigits,
  isKnownHex,
  type PostureType,
  type ReportType,
  reportData,
} from "./posture-type.ts";

export interface MacDevice {
  readonly mac?: DeviceReport & { readonly addresses: readonly string[] };
}

/** One of the reported hardware addresses is listed; both are reduced to hex digits. */
export const mac: PostureType<"MAC", MacDevice> = {
  defaults: { macAddresses: [] },
  isReported: true,
  passes({ macAddresses }, { device }) {
    const allowed = digitsOf(macAddresses);
    return (device.mac?.addresses ?? []).some((each) => isKnownHex(allowed, each));
  },
  isTimed: () => false,
  detail: ({ macAddresses }) => ({ macAddresses }),
  failure: ({ macAddresses }, { device }) => ({
    actualValue: [...(device.mac?.addresses ?? [])],
    expectedValue: macAddresses,
  }),
  query: () => ({}),
  subtype: ({ macAddresses }) => ({ case: "mac", value: { macAddresses } }),
  ofWire: (subtype) => (subtype.case === "mac" ? { macAddresses: subtype.value.macAddresses } : undefined),
};

export const macReport: ReportType<"MAC", MacDevice> = {
  take: ({ id, macAddresses }, at) => ({ device: { mac: { at, checkId: id, addresses: macAddresses } } }),
  data: ({ mac }) => ({ mac: { ...reportData(mac), addresses: [...(mac?.addresses ?? [])] } }),
};

const digits = new WeakMap<readonly string[], ReadonlySet<string>>();

/** A list of addresses may be long, and each session asks for it. */
function digitsOf(addresses: readonly string[]): ReadonlySet<string> {
  return digits.getOrInsertComputed(addresses, () => new Set(addresses.map(hexDigits)));
}
