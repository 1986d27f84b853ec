import type { BoxPlan } from "../../box/box-plan.ts";

/** Image of a machine that a whole cluster runs in. */
export interface NodeImage {
  readonly name: string;
  /** Archive of it, as `docker save` writes them. */
  readonly archive: string;
}

/** What runs containers. */
export type Engine =
  /** Of the cluster's own, in its namespaces; gone with them. */
  | {
      readonly kind: "podman";
      /** Root folder of the packages podman, netavark and iptables. */
      readonly root: string;
      readonly node: NodeImage;
    }
  /** Docker, or what speaks its language, on this machine. */
  | { readonly kind: "docker"; readonly node: NodeImage };

/** What the process beside the engine is told: the plan of the box that is to be in the container, and how it gets there. */
export interface EnginePlan extends BoxPlan {
  readonly engine: Engine;
}

/** Where things are in a container of the node image. */
export const INSIDE = {
  program: "/cluster/program/main.js",
  box: "/cluster/program/box.js",
  plan: "/cluster/plan.json",
  folder: "/cluster",
  group: "cluster",
  tools: {
    kubernetes: "/opt/cluster/kubernetes",
    etcd: "/opt/cluster/etcd",
    containerd: "/opt/cluster/containerd",
    nft: "/usr/bin",
    // Of these two there are images only.
    coredns: "/opt/cluster",
    pod: "/opt/cluster",
  },
  image: (number: number) => `/images/${number}.tar`,
} as const;
