/** The operator in the cluster of a run, installed as a user installs it, and what is known of it at the end. */

import { helm } from "../charts/helm.ts";
import type { ClusterHandle } from "../cluster/ways/handle.ts";

export const SYSTEM = "sallyport-system";
export const OPERATOR = "sallyport-operator";
const MAX_RSS_MB = 150;

/** By the chart with its default values: the rights are the chart's, and what runs there is restricted. */
export async function installOperator(cluster: ClusterHandle): Promise<void> {
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  await cluster.apply(JSON.stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name: SYSTEM, labels } }));
  const chart = ["install", "sallyport", "helm/sallyport", "--namespace", SYSTEM, "--wait", "--timeout=150s"];
  await helm([...chart, ...imageValues(cluster)], cluster);
}

/** Values of the chart: where this cluster has its images. */
export const imageValues = ({ imagePrefix }: Pick<ClusterHandle, "imagePrefix">): string[] =>
  imagePrefix === "" ? [] : [`--set=imageRegistry=${imagePrefix.replace(/\/$/, "")}`];

/** Bytes of memory that each of the operator's pods has for itself. */
export async function residentMemory(cluster: ClusterHandle): Promise<number[]> {
  // Scenarios may have ended one a moment ago.
  await cluster.kubectl(["rollout", "status", `deployment/${OPERATOR}`, `--namespace=${SYSTEM}`, "--timeout=120s"]);
  const names = await cluster.kubectl([
    ...["get", "pods", `--namespace=${SYSTEM}`, `--selector=app.kubernetes.io/name=${OPERATOR}`],
    ...["--field-selector=status.phase=Running", "--output=jsonpath={.items[*].metadata.name}"],
  ]);
  const figures = names.split(" ").map(async (name) => {
    const page = await cluster.kubectl([
      "get",
      "--raw",
      `/api/v1/namespaces/${SYSTEM}/pods/${name}:8080/proxy/metrics`,
    ]);
    const figure = /^process_resident_memory_bytes (\S+)$/m.exec(page)?.[1];
    if (figure === undefined) throw new Error(`the metrics of ${name} have no process_resident_memory_bytes`);
    return Number(figure);
  });
  return await Promise.all(figures);
}

/** Prints what memory the operator has after all scenarios. @throws Error when it is too much */
export async function checkMemory(cluster: ClusterHandle): Promise<void> {
  const megabytes = (await residentMemory(cluster)).map((bytes) => Math.round(bytes / 1e5) / 10);
  console.log(JSON.stringify({ scenario: "all of a run", operatorRssMb: megabytes }));
  if (megabytes.some((each) => each > MAX_RSS_MB))
    throw new Error(`the operator's pods have ${megabytes.join(" and ")} MB of memory, more than ${MAX_RSS_MB}`);
}
