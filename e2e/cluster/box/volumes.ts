/**
 * Volumes that are made when a claim asks for one, and removed with it: folders of the machine, as `local` volumes, so that
 * a pod's `fsGroup` is put on them as on a disk.
 */
import { chmodSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { PROVISIONER } from "./core-objects.ts";
import type { KubeApi, KubeObject } from "./kube-api.ts";
import { type Found, keepUp } from "./rounds.ts";

const CLAIMS = "/api/v1/persistentvolumeclaims";
const VOLUMES = "/api/v1/persistentvolumes";

export interface Claim extends KubeObject {
  readonly spec: {
    readonly storageClassName?: string;
    readonly volumeName?: string;
    readonly accessModes: readonly string[];
    readonly resources: { readonly requests: { readonly storage: string } };
  };
  readonly status?: { readonly phase?: string; readonly capacity?: { readonly storage?: string } };
}

export interface Volume extends KubeObject {
  readonly spec: { readonly local?: { readonly path: string }; readonly capacity?: { readonly storage: string } };
  readonly status?: { readonly phase?: string };
}

export interface VolumeWork {
  readonly make: readonly Volume[];
  readonly remove: readonly Volume[];
  /** Claims that ask for more than their volumes have. */
  readonly grow: readonly (readonly [claim: Claim, volume: Volume])[];
}

/** What is to do: pure. The scheduler notes on a claim the node of the pod that wants it; before that it has no place. */
export function volumeWork(claims: readonly Claim[], volumes: readonly Volume[], folder: string): VolumeWork {
  const existing = new Set(volumes.map(({ metadata }) => metadata.name));
  const make = claims
    .filter(({ spec, metadata }) => {
      // Of other classes the claim tells whose they are.
      const isOurs = metadata.annotations?.["volume.kubernetes.io/storage-provisioner"] === PROVISIONER;
      return (isOurs || spec.storageClassName === "standard") && !spec.volumeName;
    })
    .flatMap((claim): Volume[] => {
      const node = claim.metadata.annotations?.["volume.kubernetes.io/selected-node"];
      const name = `pvc-${claim.metadata.uid}`;
      return node === undefined || existing.has(name) ? [] : [volumeFor(claim, name, node, join(folder, name))];
    });
  const own = volumes.filter(
    ({ metadata }) => metadata.annotations?.["pv.kubernetes.io/provisioned-by"] === PROVISIONER,
  );
  const remove = own.filter(({ status }) => status?.phase === "Released");
  const grow = claims.flatMap((claim) => {
    const volume = own.find(({ metadata }) => metadata.name === claim.spec.volumeName);
    const has = claim.status?.phase === "Bound" ? claim.status.capacity?.storage : undefined;
    // The API server takes no smaller size.
    const isEnough = has === undefined || has === claim.spec.resources.requests.storage;
    return volume === undefined || isEnough ? [] : [[claim, volume] as const];
  });
  return { make, remove, grow };
}

function volumeFor({ metadata, spec }: Claim, name: string, node: string, path: string): Volume {
  const volume = {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name, annotations: { "pv.kubernetes.io/provisioned-by": PROVISIONER } },
    spec: {
      storageClassName: spec.storageClassName,
      persistentVolumeReclaimPolicy: "Delete",
      volumeMode: "Filesystem",
      accessModes: spec.accessModes,
      capacity: { storage: spec.resources.requests.storage },
      claimRef: {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
      },
      local: { path },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: [node] }] },
          ],
        },
      },
    },
  };
  return volume;
}

/** Keeps volumes as claims want them, until the signal. */
export async function keepVolumes(api: KubeApi, folder: string, signal: AbortSignal): Promise<void> {
  const round = async ({ claims, volumes }: Found<{ claims: Claim; volumes: Volume }>): Promise<void> =>
    await work(api, volumeWork(claims, volumes, folder));
  await keepUp("volumes", api, { claims: CLAIMS, volumes: VOLUMES }, round, signal);
}

async function work(api: KubeApi, { make, remove, grow }: VolumeWork): Promise<void> {
  for (const volume of make) {
    const path = volume.spec.local?.path;
    if (path === undefined) continue;
    mkdirSync(path, { recursive: true });
    // As a fresh file system is: its owner is root, and no other user may write before fsGroup is put on it.
    chmodSync(path, 0o755);
    await api.create(VOLUMES, volume);
  }
  for (const { metadata, spec } of remove) {
    if (spec.local !== undefined) rmSync(spec.local.path, { recursive: true, force: true });
    await api.delete(`${VOLUMES}/${metadata.name}`);
  }
  for (const [claim, volume] of grow) {
    // A folder is as large as it needs to be: only the figures change.
    const { storage } = claim.spec.resources.requests;
    const { namespace, name } = claim.metadata;
    await api.replace(`${VOLUMES}/${volume.metadata.name}`, {
      ...volume,
      spec: { ...volume.spec, capacity: { storage } },
    });
    await api.replace(`/api/v1/namespaces/${namespace}/persistentvolumeclaims/${name}/status`, {
      ...claim,
      status: { ...claim.status, capacity: { storage }, conditions: [] },
    });
  }
}
