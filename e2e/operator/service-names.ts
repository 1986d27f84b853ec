import dns from "node:dns";
import { vi } from "vitest";

/** The names of Services lead to this machine, as a cluster's name server leads to the pod. Until mocks are restored. */
export function resolveServices(): void {
  const { lookup } = dns;
  type Done = (error: NodeJS.ErrnoException | null, address: string | dns.LookupAddress[], family: number) => void;
  const resolve = (name: string, options: dns.LookupOptions, done: Done) =>
    lookup(name.endsWith(".svc") ? "localhost" : name, options, done);
  vi.spyOn(dns, "lookup").mockImplementation(resolve as unknown as typeof lookup);
}
