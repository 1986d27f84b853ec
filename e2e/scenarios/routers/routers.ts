/** An EdgeRouter of a scenario, and what is seen of it. */
import { expect } from "vitest";
import type { RouterStatus } from "../../../packages/resources/src/kinds/edge-router/schema.ts";
import { type Found, Stage, type StageOptions } from "../stage.ts";

const PATIENCE = { timeout: 300_000, interval: 1_000 };

export interface FoundRouters extends Found {
  readonly status: NonNullable<Found["status"]> & {
    readonly routers?: readonly RouterStatus[];
    readonly lastHandledReEnroll?: string;
  };
}

/** A namespace with the managed Network `main`, of that spec, which is not waited for. */
export async function stageWithNetwork(
  name: string,
  { managed = {}, ...options }: StageOptions & { readonly managed?: object } = {},
): Promise<Stage> {
  const stage = await Stage.open(name, options);
  const resource = { apiVersion: "sallyport.dev/v1alpha1", kind: "Network", metadata: { name: "main" } };
  await stage.apply({ ...resource, spec: { managed } });
  return stage;
}

export class Routers {
  readonly name: string;
  readonly #stage: Stage;
  readonly #spec: object;

  /** @param spec besides `networkRef`, at every {@link declare} */
  constructor(stage: Stage, name: string, spec: object = {}) {
    this.#stage = stage;
    this.name = name;
    this.#spec = spec;
  }

  /** Applies it with more in its spec. */
  async declare(more: object = {}): Promise<void> {
    const resource = { apiVersion: "sallyport.dev/v1alpha1", kind: "EdgeRouter", metadata: { name: this.name } };
    await this.#stage.apply({ ...resource, spec: { networkRef: { name: "main" }, ...this.#spec, ...more } });
  }

  async read(): Promise<FoundRouters> {
    return await this.#stage.get<FoundRouters>("edgerouter", this.name);
  }

  async each(): Promise<readonly RouterStatus[]> {
    return (await this.read()).status.routers ?? [];
  }

  async annotate(annotation: string): Promise<void> {
    await this.#stage.kubectl("annotate", "--overwrite", "edgerouter", this.name, annotation);
  }

  async ready(): Promise<void> {
    await this.#stage.wait("condition=Ready", `edgerouter/${this.name}`);
  }

  /** Until the status is one of this spec, fits, and says that it is ready. */
  async current(fits: (routers: readonly RouterStatus[]) => boolean = () => true): Promise<void> {
    const seen = async () => {
      const { metadata, status } = await this.read();
      const ready = status.conditions?.find(({ type }) => type === "Ready")?.status === "True";
      return status.observedGeneration === metadata.generation && ready && fits(status.routers ?? []);
    };
    await this.#stage.explain(expect.poll(seen, PATIENCE).toBe(true));
  }

  /** Names of what there is of it, such as `persistentvolumeclaim/data-eu-0-0`, without what does not belong to one router. */
  async objects(kinds: string): Promise<string[]> {
    // Claims outlive their owner, so they have no label "instance".
    const selector = `--selector=sallyport.dev/owner-kind=EdgeRouter,sallyport.dev/owner-name=${this.name}`;
    const names = await this.#stage.kubectl("get", kinds, selector, "--output=name");
    return names.split("\n").filter((each) => each !== "");
  }
}
