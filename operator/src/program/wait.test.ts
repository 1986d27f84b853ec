import { KINDS } from "@sallyport/resources";
import { describe, expect, test } from "vitest";
import type { KubeClient, ListOptions } from "../kube/client/client.ts";
import type { KubeObject, ResourceKind } from "../kube/kinds.ts";
import { waitForResources } from "./wait.ts";

const ready = [{ type: "Ready", status: "True", reason: "Ready", message: "it is" }];
const coming = [{ type: "Ready", status: "False", reason: "Starting", message: "its pod is being made" }];

const object = (kind: string, name: string, conditions: readonly object[]) => ({
  apiVersion: "sallyport.dev/v1alpha1",
  kind,
  metadata: { name, namespace: "edge", generation: 1 },
  status: { observedGeneration: 1, conditions },
});

/** Answers each round of lists with the next of the states, and the last one from then on. */
function listing(...rounds: readonly (readonly KubeObject[])[]) {
  const asked: { kind: string; namespace: string | undefined; selector: string | undefined }[] = [];
  const list = async (kind: ResourceKind, namespace?: string, o?: ListOptions) => {
    const round = rounds[Math.min(Math.floor(asked.length / KINDS.length), rounds.length - 1)] ?? [];
    asked.push({ kind: kind.kind, namespace, selector: o?.labelSelector });
    return { items: round.filter((item) => item.kind === kind.kind), resourceVersion: "1" };
  };
  return { client: { list } as unknown as Pick<KubeClient, "list">, asked };
}

async function waiting(client: Pick<KubeClient, "list">, timeoutMs = 60_000) {
  const said: string[] = [];
  const settings = { namespaces: ["edge"], selector: "app=edge", timeoutMs };
  return { status: await waitForResources(client, settings, (line) => said.push(line)), said };
}

describe("waiting for resources", () => {
  test("ends when all of all kinds are ready, having said what was not", async () => {
    const network = object("Network", "main", ready);
    const { client, asked } = listing(
      [],
      [network, object("EdgeRouter", "eu", coming)],
      [network, object("EdgeRouter", "eu", ready)],
    );
    expect(await waiting(client)).toEqual({
      status: 0,
      said: [
        "there is no resource yet",
        "EdgeRouter edge/eu is InProgress: its pod is being made",
        "all 2 resources are ready",
      ],
    });
    expect(new Set(asked.map(({ kind }) => kind)).size).toBe(KINDS.length);
    expect(asked.every(({ namespace, selector }) => namespace === "edge" && selector === "app=edge")).toBe(true);
  });

  // biome-ignore format: a table
  test.each([
    ["one that is not ready", [object("EdgeRouter", "eu", coming)], "1 of 1 resources are not ready, and the time is over"],
    ["none at all", [], "there is no resource, and the time is over"],
  ])("ends with status 1 for %s", async (_, objects, last) => {
    const { status, said } = await waiting(listing(objects).client, 20);
    expect(status).toBe(1);
    expect(said.at(-1)).toBe(last);
  });

  test("an error is an error", async () => {
    const list = () => Promise.reject(new Error("forbidden"));
    await expect(waiting({ list })).rejects.toThrow("forbidden");
  });
});
