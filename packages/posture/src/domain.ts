import { type DeviceReport, type PostureType, type ReportType, reportData } from "./posture-type.ts";

export interface DomainDevice {
  readonly domain?: DeviceReport & { readonly domain: string };
}

/** The reported Windows domain is one of those listed, without case. */
export const domain: PostureType<"DOMAIN", DomainDevice> = {
  defaults: { domains: [] },
  isReported: true,
  passes({ domains }, { device }) {
    const reported = device.domain?.domain.toLowerCase();
    return domains.some((each) => each.toLowerCase() === reported);
  },
  isTimed: () => false,
  detail: ({ domains }) => ({ domains }),
  failure: ({ domains }, { device }) => ({ actualValue: device.domain?.domain ?? "", expectedValue: domains }),
  query: () => ({}),
  subtype: ({ domains }) => ({ case: "domains", value: { domains } }),
  ofWire: (subtype) => (subtype.case === "domains" ? { domains: subtype.value.domains } : undefined),
};

export const domainReport: ReportType<"DOMAIN", DomainDevice> = {
  take: ({ id, domain }, at) => ({ device: { domain: { at, checkId: id, domain } } }),
  data: ({ domain }) => ({ domain: { ...reportData(domain), domain: domain?.domain ?? "" } }),
};
