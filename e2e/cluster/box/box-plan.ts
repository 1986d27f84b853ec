import { join } from "node:path";
import { type Addresses, addressesOf } from "./addresses.ts";

/** Where the programs of a cluster are, each as `scripts/install-tools.sh` prints it. */
export interface Tools {
  /** Folder with kube-apiserver and the others. */
  readonly kubernetes: string;
  /** Folder with etcd, whose module calls it "server". */
  readonly etcd: string;
  readonly coredns: string;
  readonly pod: string;
  /** Root folder of the packages containerd, runc and containernetworking-plugins. */
  readonly containerd: string;
  /** Folder with nft. */
  readonly nft: string;
}

/** What the process inside of the namespaces is told, as a file. */
export interface BoxPlan {
  readonly slot: number;
  /** Folder for everything that the cluster writes. */
  readonly folder: string;
  /** Name of its control groups. */
  readonly group: string;
  /** 0: an API server and its controllers, with nothing that could run a pod. */
  readonly nodes: number;
  readonly tools: Tools;
  /** Archives of images, which every node gets. */
  readonly images: readonly string[];
  /** It is in a container: the program that started the container gave it an address and a way out. */
  readonly isContained?: boolean;
}

/** A process of the cluster. */
export interface Component {
  /** Also of its log: `logs/NAME.log`. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
}

export class BoxLayout {
  readonly plan: BoxPlan;
  readonly addresses: Addresses;

  constructor(plan: BoxPlan) {
    this.plan = plan;
    this.addresses = addressesOf(plan.slot);
  }

  file(...names: string[]): string {
    return join(this.plan.folder, ...names);
  }

  certificate(name: string): string {
    return this.file("certificates", name);
  }

  node(number: number, ...names: string[]): string {
    return this.file(`node${number}`, ...names);
  }

  /** Of the kernel's path: at most 108 characters. */
  runtimeSocket(node: number): string {
    return this.node(node, "containerd.sock");
  }

  kubernetes(program: string): string {
    return join(this.plan.tools.kubernetes, program);
  }

  containerd(path: string): string {
    return join(this.plan.tools.containerd, path);
  }

  get numbers(): number[] {
    return Array.from({ length: this.plan.nodes }, (_, i) => i + 1);
  }
}
