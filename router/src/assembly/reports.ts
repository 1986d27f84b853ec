import { xgressLoad } from "@sallyport/wire";
import type { Control } from "../control/control.ts";
import type { Controllers } from "../control/controllers/controllers.ts";
import { InterfaceReports } from "../control/interface-reports.ts";
import type { EdgeListener } from "../edge/edge-listener.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { inspectors } from "../inspectors.ts";
import type { LinkManager } from "../link/link-manager.ts";
import { Histogram } from "../metrics/histogram.ts";
import type { CountedLink } from "../metrics/link-metrics.ts";
import { MetricsReporter } from "../metrics/metrics-reporter.ts";
import { RouterMetrics } from "../metrics/router-metrics.ts";
import { Traffic } from "../metrics/traffic.ts";
import { Usage } from "../metrics/usage.ts";
import type { WorkPool } from "../metrics/work-pool.ts";
import type { Assembly } from "./context.ts";

interface ReportedParts {
  readonly controllers: Controllers;
  readonly control: Control;
  readonly forwarder: Forwarder;
  readonly links: LinkManager;
  /** The edge, once there is one. */
  readonly edge: () => EdgeListener | undefined;
}

/** What the router reports of itself: metrics, answers to inspections, its network interfaces. */
export function reports(context: Assembly, o: ReportedParts): { reporter: MetricsReporter; metrics: RouterMetrics } {
  const { config, routerId, log, stops } = context;
  const { controllers, control, links, forwarder } = o;
  const metrics = measured(context, o);
  stops.push(() => metrics.close());
  const usage = new Usage({
    circuits: () => forwarder.circuits(),
    intervalMs: config.metrics.reportInterval,
    minAgeMs: config.metrics.intervalAgeThreshold,
    endedQueue: config.metrics.eventQueueSize,
    log,
  });
  forwarder.onRemoved((circuit) => usage.ended(circuit));
  stops.push(() => usage.close());
  const reporter = new MetricsReporter({
    routerId,
    controllers,
    intervalMs: config.metrics.reportInterval,
    queueLength: config.metrics.messageQueueSize,
    log,
    usage,
    source: metrics,
  });
  stops.push(() => reporter.close());
  inspectors(control.inspection, { config, links, forwarder, reporter, edge: o.edge });
  if (!config.interfaceDiscovery.disabled) {
    const { checkInterval, minReportInterval } = config.interfaceDiscovery;
    const interfaces = new InterfaceReports({
      controllers,
      checkIntervalMs: checkInterval,
      minReportIntervalMs: minReportInterval,
      log,
    });
    stops.push(() => interfaces.close());
  }
  return { reporter, metrics };
}

/** The counters of all parts, put together. */
function measured({ counts }: Assembly, { control, forwarder, links, edge }: ReportedParts): RouterMetrics {
  const traffic = new Traffic(() => forwarder.circuits());
  forwarder.onRemoved((circuit) => traffic.ended(circuit));
  counts.pools.set("link.dialer", links.dialers);
  counts.pools.set("route.handler", dialerPool(forwarder.dialers));
  for (const [name, pool] of control.pools()) counts.pools.set(name, pool);
  return new RouterMetrics({
    ...counts,
    xgress: forwarder.counters,
    traffic,
    load: () => {
      const sum = xgressLoad();
      for (const end of forwarder.ends()) end.load?.(sum);
      return sum;
    },
    links: () => countedLinks(links, forwarder),
    gauges: function* () {
      yield ["edge.connections", edge()?.channels ?? 0];
      for (const [name, read] of counts.gauges) yield [name, read()];
    },
  });
}

function dialerPool(dialers: Forwarder["dialers"]): WorkPool {
  const work = new Histogram();
  dialers.onDialed = (ms) => work.update(ms * 1e6);
  return {
    work,
    get waiting() {
      return dialers.waiting;
    },
    get workers() {
      return dialers.workers;
    },
    get busy() {
      return dialers.busy;
    },
  };
}

function* countedLinks(links: LinkManager, forwarder: Forwarder): Iterable<CountedLink> {
  for (const link of links.links()) {
    const counters = forwarder.link(link.id)?.counters;
    if (counters !== undefined) yield { id: link.id, counters, histograms: () => link.histograms() };
  }
}
