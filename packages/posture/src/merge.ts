import type { DeviceReport } from "./posture-type.ts";
import type { ProcessReport } from "./process.ts";
import type { DevicePosture } from "./types.ts";

/** What is known of a device of which two places know something: of each kind the newer report, and of two of one moment that of `own`. */
export function mergedPosture(other: DevicePosture, own: DevicePosture): DevicePosture {
  const [os, domain, mac] = [
    newer(other.os, own.os),
    newer(other.domain, own.domain),
    newer(other.mac, own.mac),
  ] as const;
  const processes = new Map<string, ProcessReport>();
  for (const each of [...other.processes, ...own.processes]) {
    const key = JSON.stringify([each.checkId, each.path]);
    const before = processes.get(key);
    if (before !== undefined && before.at > each.at) continue;
    processes.delete(key);
    processes.set(key, each);
  }
  return {
    ...(os && { os }),
    ...(domain && { domain }),
    ...(mac && { mac }),
    processes: [...processes.values()].sort((a, b) => a.at - b.at),
  };
}

function newer<R extends DeviceReport>(other: R | undefined, own: R | undefined): R | undefined {
  if (other === undefined || own === undefined) return own ?? other;
  return other.at > own.at ? other : own;
}

/** Does a device say the same, whenever it said so? */
export function saysTheSame(one: DevicePosture, other: DevicePosture): boolean {
  return one === other || contentOf(one) === contentOf(other);
}

function contentOf({ os, domain, mac, processes }: DevicePosture): string {
  return JSON.stringify([os, domain, mac, processes], (key, value) => (key === "at" ? undefined : value));
}

/** When the device reported last, in milliseconds since 1970; 0 for never. */
export function lastReportAt({ os, domain, mac, processes }: DevicePosture): number {
  return Math.max(0, ...[os, domain, mac, ...processes].map((each) => each?.at ?? 0));
}
