import { expect, test } from "vitest";
import { KINDS } from "./kinds.ts";
import { Metrics } from "./metrics.ts";
import { WorkQueue } from "./queue/work-queue.ts";

/** The value of a sample: its name with its labels as Prometheus writes them. */
async function sampleOf(metrics: Metrics, sample: string): Promise<number | undefined> {
  const line = (await metrics.text()).split("\n").find((text) => text.startsWith(`${sample} `));
  return line === undefined ? undefined : Number(line.slice(sample.length + 1));
}

test("queues count under the names of other controllers", async () => {
  const metrics = new Metrics();
  const queue = new WorkQueue({ metrics: metrics.queue("router") });
  metrics.watchQueue("router", queue);
  for (const key of ["a", "b", "b", "c"]) queue.add(key);
  await queue.take();
  expect(await sampleOf(metrics, 'workqueue_adds_total{name="router"}')).toBe(3);
  expect(await sampleOf(metrics, 'workqueue_depth{name="router"}')).toBe(2);
  expect(await sampleOf(metrics, 'workqueue_queue_duration_seconds_count{name="router"}')).toBe(1);
  expect(await sampleOf(metrics, 'workqueue_longest_running_processor_seconds{name="router"}')).toBeGreaterThan(0);
  queue.done("a");
  expect(await sampleOf(metrics, 'workqueue_unfinished_work_seconds{name="router"}')).toBe(0);
  expect(await sampleOf(metrics, 'workqueue_work_duration_seconds_count{name="router"}')).toBe(1);
  queue.retry("a");
  expect(await sampleOf(metrics, 'workqueue_retries_total{name="router"}')).toBe(1);
  queue.close();
});

test("the build is named", async () => {
  const metrics = new Metrics();
  metrics.collectProcess("1.2.3");
  const labels = `program="operator",version="1.2.3",node="${process.versions.node}"`;
  expect(await sampleOf(metrics, `sallyport_build_info{${labels}}`)).toBe(1);
});

test("reconciles count by their end, zero from the start", async () => {
  const metrics = new Metrics();
  const worker = metrics.worker("router", 4);
  expect(await sampleOf(metrics, 'controller_runtime_reconcile_errors_total{controller="router"}')).toBe(0);
  const ends = [
    ["success", undefined],
    ["requeue_after", undefined],
    ["error", new Error("x")],
    ["error", new TypeError("x")],
    ["timeout", new Error("x")],
  ] as const;
  for (const [end, error] of ends) {
    worker.started();
    worker.finished(end, 0.2, error);
  }
  worker.started();
  const of = (name: string): Promise<number | undefined> =>
    sampleOf(metrics, `controller_runtime_${name}{controller="router"}`);
  expect(await of("reconcile_errors_total")).toBe(3);
  expect(await of("terminal_reconcile_errors_total")).toBe(0);
  expect(await of("reconcile_timeouts_total")).toBe(1);
  expect(await of("reconcile_panics_total")).toBe(1);
  expect(await of("active_workers")).toBe(1);
  expect(await of("max_concurrent_reconciles")).toBe(4);
  expect(await of("reconcile_time_seconds_count")).toBe(5);
  const result = 'controller_runtime_reconcile_total{controller="router",result=';
  expect(await sampleOf(metrics, `${result}"success"}`)).toBe(1);
  expect(await sampleOf(metrics, `${result}"requeue_after"}`)).toBe(1);
  expect(await sampleOf(metrics, `${result}"error"}`)).toBe(3);
});

test("requests, leadership, reflectors, resources and certificates", async () => {
  const metrics = new Metrics();
  metrics.answered("GET", "200", "10.0.0.1:443");
  metrics.leading("sallyport", true);
  metrics.failed(KINDS.Secret, "Forbidden");
  metrics.watchReflector({ kind: KINDS.Secret, lastEventAt: 5000 });
  metrics.networkAnswered("POST", "identities", "201");
  const about = { kind: "Identity", namespace: "edge", name: "a" };
  metrics.resourceReady(about, true);
  metrics.certificate(about, { expires: new Date(9000), renews: new Date(6000) });
  const labels = '{kind="Identity",namespace="edge",name="a"}';
  expect(await sampleOf(metrics, 'rest_client_requests_total{code="200",method="GET",host="10.0.0.1:443"}')).toBe(1);
  expect(await sampleOf(metrics, 'leader_election_master_status{name="sallyport"}')).toBe(1);
  expect(await sampleOf(metrics, 'reflector_failures_total{kind="Secret",reason="Forbidden"}')).toBe(1);
  expect(await sampleOf(metrics, 'reflector_last_event_timestamp_seconds{kind="Secret"}')).toBe(5);
  expect(
    await sampleOf(metrics, 'sallyport_operator_api_requests_total{method="POST",resource="identities",code="201"}'),
  ).toBe(1);
  expect(await sampleOf(metrics, `sallyport_operator_resource_ready${labels}`)).toBe(1);
  expect(await sampleOf(metrics, `sallyport_operator_certificate_expiration_timestamp_seconds${labels}`)).toBe(9);
  expect(await sampleOf(metrics, `sallyport_operator_certificate_renewal_timestamp_seconds${labels}`)).toBe(6);
  metrics.forgetResource(about);
  expect(await metrics.text()).not.toContain('name="a"');
});
