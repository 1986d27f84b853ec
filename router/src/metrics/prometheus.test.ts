import { expect, it } from "vitest";
import { Histogram } from "./histogram.ts";
import { prometheusText } from "./prometheus.ts";

const rates = { m1Rate: 1, m5Rate: 1, m15Rate: 1, meanRate: 1 };

it("writes each family once, with ids as labels, counts as counters and times in seconds", () => {
  const latency = new Histogram();
  latency.update(2_000_000);
  const text = prometheusText(
    {
      gauges: () => [
        ["edge.connections", 4],
        ["pool.link.dialer.queue_size", 1],
        ["pool.route.handler.queue_size", 2],
      ],
      meters: () => [
        ["link.l1.tx.bytesrate", { count: 10, ...rates }],
        ["link.l2.tx.bytesrate", { count: 20, ...rates }],
        ["link.dropped_fwd_msgs:l1", { count: 3, ...rates }],
        ["xgress.tx.acks", { count: 5, ...rates }],
      ],
      histograms: () => [["link.l1.latency", latency]],
      timers: () => [["xgress.blocked_time", { histogram: new Histogram(), meter: { count: 0, ...rates } }]],
    },
    [{ name: "sallyport_router_info", labels: { router: 'r"1\\', version: "v1" } }],
  );
  const lines = text.split("\n");
  for (const line of [
    'sallyport_router_info{router="r\\"1\\\\",version="v1"} 1',
    "# TYPE sallyport_router_edge_connections gauge",
    "sallyport_router_edge_connections 4",
    'sallyport_router_pool_queue_size{pool="link.dialer"} 1',
    'sallyport_router_pool_queue_size{pool="route.handler"} 2',
    "# TYPE sallyport_router_link_tx_bytes_total counter",
    'sallyport_router_link_tx_bytes_total{link="l1"} 10',
    'sallyport_router_link_tx_bytes_total{link="l2"} 20',
    'sallyport_router_link_dropped_fwd_msgs_total{link="l1"} 3',
    "sallyport_router_xgress_tx_acks_total 5",
    "# TYPE sallyport_router_link_latency_seconds summary",
    'sallyport_router_link_latency_seconds{link="l1",quantile="0.5"} 0.002',
    'sallyport_router_link_latency_seconds_sum{link="l1"} 0.002',
    'sallyport_router_link_latency_seconds_count{link="l1"} 1',
    'sallyport_router_xgress_blocked_time_seconds{quantile="0.5"} NaN',
    "sallyport_router_xgress_blocked_time_seconds_count 0",
  ])
    expect(lines).toContain(line);
  const types = lines.filter((line) => line.startsWith("# TYPE "));
  expect(new Set(types).size).toBe(types.length);
  // The samples of a family stand together, and all lines are either a type or a sample.
  for (const line of lines.slice(0, -1))
    expect(line).toMatch(/^(# TYPE \w+ (counter|gauge|summary)|[a-z_]+(\{[^}]*\})? (NaN|[-+.e\d]+))$/);
  expect(text).toMatch(/^process_resident_memory_bytes \d+$/m);
});
