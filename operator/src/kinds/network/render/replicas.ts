import type { ManagedNetwork, NetworkResource } from "@sallyport/resources";
import type { KubeObject } from "../../../kube/kinds.ts";
import { childNames } from "./names.ts";

/** The controllers of a Network with a database of its own can be several (docs/operator/networks.md, "Several controllers"). */
export const canBeSeveral = ({ database }: ManagedNetwork): boolean => database.urlSecretRef !== undefined;

export const ordinals = ({ replicas }: ManagedNetwork): number[] => Array.from({ length: replicas }, (_, i) => i);

/** Name of the pod of a controller, and of its Service. */
export const replicaName = (resource: NetworkResource, ordinal: number): string =>
  `${childNames(resource).controller}-${ordinal}`;

/** Which of several controllers an object belongs to, by its name. */
export function ordinalOf({ metadata: { name } }: KubeObject, resource: NetworkResource): number | undefined {
  const prefix = `${childNames(resource).controller}-`;
  const rest = name.startsWith(prefix) ? name.slice(prefix.length) : "";
  return /^[0-9]{1,3}$/.test(rest) ? Number(rest) : undefined;
}

/** Id in the network. The first one has that of a controller that is alone: what routers know of it stays right when others come. */
export const replicaId = (ordinal: number): string => (ordinal === 0 ? "controller" : `controller-${ordinal}`);

/** Key of the ConfigMap with what all files have in common: the whole file of a controller that stays alone. */
export const SHARED_FILE = "controller.yml";

/** Key of the ConfigMap with the file of one controller; Kubernetes fills in the variable. */
export const fileOf = (podName: string): string => `${podName}.yml`;

/** Of the pods of controllers that have ids: others may come beside them. */
export const HAS_ID = "sallyport.dev/controller-id";
