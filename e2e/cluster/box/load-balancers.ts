/**
 * Services of the type LoadBalancer are given an address, which the machine has a route to; the rest is the proxy's, which
 * takes what comes for the address to the pods.
 */
import type { KubeApi, KubeObject } from "./kube-api.ts";
import { type Found, keepUp } from "./rounds.ts";

const SERVICES = "/api/v1/services";

export interface Service extends KubeObject {
  readonly spec: { readonly type?: string; readonly loadBalancerClass?: string };
  readonly status?: { readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string }[] } };
}

/** Which Services get which address, none for those that are no longer of the type; pure. */
export function balancerWork(
  services: readonly Service[],
  addresses: readonly string[],
): readonly (readonly [service: Service, address: string | undefined])[] {
  const ofService = ({ status }: Service): string | undefined => status?.loadBalancer?.ingress?.[0]?.ip;
  const isBalanced = ({ spec }: Service): boolean =>
    spec.type === "LoadBalancer" && spec.loadBalancerClass === undefined;
  const taken = new Set(services.filter(isBalanced).map(ofService));
  const free = addresses.filter((address) => !taken.has(address));
  return services.flatMap((service) => {
    const has = ofService(service) !== undefined;
    if (isBalanced(service) === has) return [];
    return [[service, has ? undefined : free.shift()] as const];
  });
}

/** Keeps addresses as Services want them, until the signal. */
export async function keepBalanced(api: KubeApi, addresses: readonly string[], signal: AbortSignal): Promise<void> {
  const round = async ({ services }: Found<{ services: Service }>): Promise<void> => {
    for (const [service, address] of balancerWork(services, addresses)) {
      const { namespace, name } = service.metadata;
      const loadBalancer = address === undefined ? {} : { ingress: [{ ip: address, ipMode: "VIP" }] };
      await api.replace(`/api/v1/namespaces/${namespace}/services/${name}/status`, {
        ...service,
        status: { loadBalancer },
      });
    }
  };
  await keepUp("load balancers", api, { services: SERVICES }, round, signal);
}
