import type { Control } from "../control/control.ts";
import type { Controllers } from "../control/controllers.ts";
import { InterfaceReports } from "../control/interface-reports.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { inspectors } from "../inspectors.ts";
import type { LinkManager } from "../link/link-manager.ts";
import { DataPathMeters } from "../metrics/data-path-meters.ts";
import { MetricsReporter } from "../metrics/metrics-reporter.ts";
import type { Assembly } from "./context.ts";

export interface Observed {
  readonly controllers: Controllers;
  readonly control: Control;
  readonly forwarder: Forwarder;
  readonly links: LinkManager;
  /** Connected SDKs. */
  readonly sdkChannels: () => number;
}

/** What the router tells of itself: metrics, answers to inspections, its network interfaces. */
export function reports({ config, routerId, log, stops }: Assembly, o: Observed): MetricsReporter {
  const { controllers, control, forwarder, links } = o;
  const meters = new DataPathMeters({
    xgress: forwarder.counters,
    links: () =>
      links.links().flatMap(({ id }) => {
        const known = forwarder.link(id);
        return known === undefined ? [] : [{ id, counters: known.counters }];
      }),
  });
  stops.push(() => meters.close());
  const reporter = new MetricsReporter({
    routerId,
    controllers,
    intervalMs: config.metrics.reportInterval,
    log,
    source: {
      histograms: () => links.links().flatMap((link) => link.histograms()),
      meters: () => meters.all(),
      gauges: () => [["edge.connections", o.sdkChannels()] as const],
    },
  });
  stops.push(() => reporter.close());
  inspectors(control.inspection, { config, links, forwarder, reporter });
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
  return reporter;
}
