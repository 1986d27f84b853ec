import { isMap } from "../../../children/json-value.ts";
import type { Controllers } from "../../network/interface.ts";
import type { EdgeRouterSpec } from "../schema.ts";
import { CONTAINERS, PATHS, type RenderedResource, VOLUMES } from "./names.ts";
import { healthPort, offeredPort, offeredPorts } from "./ports.ts";
import { renderRouterConfig, type SpecProblem } from "./router-config.ts";

/** In place of an address that nobody knows yet. */
const ANYWHERE = { host: "router.invalid", port: 443 };

/** Why no router can be run with this spec, whatever its address will be. */
export function specProblems(resource: RenderedResource, controllers: Controllers): SpecProblem[] {
  const address = resource.spec.exposure.type === "None" ? undefined : ANYWHERE;
  const config = renderRouterConfig(resource, { ordinal: 0, address, hosts: [], controllers });
  return [...podProblems(resource), ...("problems" in config ? config.problems : [])];
}

/** What of the spec would take the place of something that the pod is made for. */
export function podProblems({ spec }: RenderedResource): SpecProblem[] {
  return [...templateProblems(spec), ...portProblems(spec)];
}

function templateProblems(spec: EdgeRouterSpec): SpecProblem[] {
  const pod = spec.template?.spec ?? {};
  const own = { containers: Object.values(CONTAINERS), volumes: Object.values(VOLUMES), mounts: Object.values(PATHS) };
  const taken = (field: string, key: string, names: readonly string[], list: readonly unknown[] | undefined) =>
    (list ?? []).flatMap((each, index): SpecProblem[] => {
      const name = isMap(each) ? String(each[key]) : "";
      if (!names.includes(name)) return [];
      const path = `spec.template.spec.${field}[${index}].${key}`;
      return [{ path, message: `${name} is the operator's own: choose another` }];
    });
  return [
    ...taken("containers", "name", own.containers, pod.containers),
    ...taken("initContainers", "name", own.containers, pod.initContainers),
    ...taken("volumes", "name", own.volumes, pod.volumes),
    ...taken("volumeMounts", "mountPath", own.mounts, pod.volumeMounts),
    ...taken("env", "name", ["HOST_IP"], pod.env),
  ];
}

/** A port can be had once in a pod. */
function portProblems(spec: EdgeRouterSpec): SpecProblem[] {
  if (offeredPorts(spec).length === 0) return [];
  const keyOf = ({ protocol, port }: { readonly protocol: string; readonly port: number }) => `${protocol} ${port}`;
  const taken = new Map([
    [`TCP ${spec.edge.port}`, "the edge listener (spec.edge.port)"],
    [`TCP ${healthPort(spec)}`, "the probes"],
  ]);
  return (spec.tunneler.proxyServices ?? []).flatMap((text, index): SpecProblem[] => {
    const key = keyOf(offeredPort(text));
    const holder = taken.get(key);
    if (holder === undefined) taken.set(key, text);
    const path = `spec.tunneler.proxyServices[${index}]`;
    return holder === undefined ? [] : [{ path, message: `port ${key} is that of ${holder}: choose another` }];
  });
}
