/** Follows all containers of a cluster, also those that are gone before a client looks, for one that needed more memory than it may have. */
import { pause } from "@sallyport/async";
import type { ClusterHandle } from "../cluster/ways/handle.ts";

// No `range`: one over a list that a pod has not ends the question.
const REASONS = ["initContainerStatuses", "containerStatuses"]
  .flatMap((list) => ["state", "lastState"].map((state) => ` {.status.${list}[*].${state}.terminated.reason}`))
  .join("");
const LINE = `{.metadata.namespace}/{.metadata.name}${REASONS}{"\\n"}`;

export class MemoryWatch {
  readonly #ended: Promise<void>;
  readonly #killed = new Set<string>();
  #seen = 0;
  #isOver = false;

  constructor(cluster: ClusterHandle) {
    this.#ended = this.#follow(cluster);
  }

  async #follow(cluster: ClusterHandle): Promise<void> {
    while (!this.#isOver) {
      // A watch that is cut short, by the time or by an API server that went away, begins with all that is there.
      const { stdout } = await cluster.attempt([
        ...["get", "pods", "--all-namespaces", "--watch", "--request-timeout=20s", `--output=jsonpath=${LINE}`],
      ]);
      const lines = stdout.split("\n").filter((line) => line.includes("/"));
      this.#seen += lines.length;
      for (const line of lines) if (line.includes("OOMKilled")) this.#killed.add(line);
      await pause(200);
    }
  }

  /** Resolves when the cluster is closed, or at the end of the question that is under way. @throws Error when a container was killed for its memory */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#ended;
    if (this.#seen === 0) throw new Error("nothing was seen of the pods of the cluster");
    if (this.#killed.size > 0) throw new Error(`killed for their memory: ${[...this.#killed].join("; ")}`);
  }
}
