import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { askBox } from "../box/requests.ts";
import { Kubectl } from "../kubectl.ts";
import { type Ability, type ClusterDescription, type ClusterHandle, UnableError } from "./handle.ts";

export interface Opened {
  readonly stages?: ReadonlyMap<string, number>;
  readonly close?: () => Promise<void>;
}

/** A cluster by its description. In the process that has opened it, and in those that it has told. */
export class AttachedCluster extends Kubectl implements ClusterHandle {
  readonly stages: ReadonlyMap<string, number>;
  readonly #description: ClusterDescription;
  readonly #close: () => Promise<void>;

  /** @param opened what the process that opens it has besides */
  constructor(description: ClusterDescription, opened: Opened = {}) {
    const { kubectl: program, kubeconfig, folder } = description;
    super({ program, kubeconfig, folder });
    this.#description = description;
    this.stages = opened.stages ?? new Map();
    this.#close = opened.close ?? (async () => {});
  }

  get way() {
    return this.#description.way;
  }

  get reachable(): boolean {
    return this.#description.reachable;
  }

  get imagePrefix(): string {
    return this.#description.imagePrefix;
  }

  can(what: Ability): boolean {
    return this.#description.abilities.includes(what);
  }

  /** Kills a component, as a crash does: `etcd`, `kube-apiserver`, `kubelet1`, … */
  async stopComponent(name: string): Promise<void> {
    await askBox(this.#folderFor("components"), { stop: name });
  }

  /** Starts it again; does not wait for it. */
  async startComponent(name: string): Promise<void> {
    await askBox(this.#folderFor("components"), { start: name });
  }

  /**
   * Makes the API server forget the history of all objects: a watch from an older version is answered with 410 Gone once
   * the API server has been restarted, which until then answers from memory. Resolves with the revision.
   */
  async compact(): Promise<number> {
    return (await askBox(this.#folderFor("compact"), { compact: true })) as number;
  }

  /** What a component has logged, such as `kube-apiserver` or `kubelet1`; `box`: what the cluster itself had to say. */
  async log(component: string): Promise<string> {
    return await readFile(join(this.#folderFor("components"), "logs", `${component}.log`), "utf8");
  }

  describe(): ClusterDescription {
    return this.#description;
  }

  /**
   * Ends all of it; resolves when nothing is left. May be called again. In a process that has not opened it nothing happens.
   *
   * @throws Error when something could not be removed
   */
  async close(): Promise<void> {
    await this.#close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #folderFor(what: Ability): string {
    if (!this.can(what)) throw new UnableError(this.way, what);
    return this.#description.folder;
  }
}
