/** What the Pod Security Standard `restricted` refuses of a pod, as far as fields that exist here can break it. */
interface Security {
  readonly runAsNonRoot?: boolean;
  readonly runAsUser?: number;
  readonly allowPrivilegeEscalation?: boolean;
  readonly privileged?: boolean;
  readonly capabilities?: { readonly drop?: readonly string[]; readonly add?: readonly string[] };
  readonly seccompProfile?: { readonly type?: string };
}

export interface CheckedPod {
  readonly hostNetwork?: boolean;
  readonly securityContext?: Security;
  readonly initContainers?: readonly CheckedContainer[];
  readonly containers: readonly CheckedContainer[];
  readonly volumes?: readonly Readonly<Record<string, unknown>>[];
}

interface CheckedContainer {
  readonly name: string;
  readonly securityContext?: Security;
  readonly ports?: readonly { readonly hostPort?: number }[];
}

const VOLUMES = new Set([
  "configMap",
  "csi",
  "downwardAPI",
  "emptyDir",
  "ephemeral",
  "persistentVolumeClaim",
  "projected",
  "secret",
]);

export function restrictedViolations(pod: CheckedPod): string[] {
  const found: string[] = [];
  if (pod.hostNetwork === true) found.push("hostNetwork");
  for (const { name, ...source } of pod.volumes ?? []) {
    for (const type of Object.keys(source)) if (!VOLUMES.has(type)) found.push(`volume ${name}: ${type}`);
  }
  for (const { name, securityContext: own = {}, ports = [] } of [...(pod.initContainers ?? []), ...pod.containers]) {
    const security = { ...pod.securityContext, ...own };
    if (security.runAsNonRoot !== true) found.push(`${name}: runAsNonRoot`);
    if (security.runAsUser === 0) found.push(`${name}: runAsUser`);
    if (own.allowPrivilegeEscalation !== false) found.push(`${name}: allowPrivilegeEscalation`);
    if (own.privileged === true) found.push(`${name}: privileged`);
    if (own.capabilities?.drop?.includes("ALL") !== true) found.push(`${name}: capabilities.drop`);
    for (const each of own.capabilities?.add ?? []) if (each !== "NET_BIND_SERVICE") found.push(`${name}: ${each}`);
    if (!["RuntimeDefault", "Localhost"].includes(security.seccompProfile?.type ?? "")) found.push(`${name}: seccomp`);
    for (const { hostPort } of ports) if (hostPort !== undefined) found.push(`${name}: hostPort`);
  }
  return found;
}
