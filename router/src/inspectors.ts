import type { RouterConfig } from "@sallyport/router-config";
import { redacted } from "./config/redacted.ts";
import type { Inspection } from "./control/inspection.ts";
import type { Forwarder } from "./forwarder/forwarder.ts";
import { inspectLinks } from "./link/link-inspection.ts";
import type { LinkManager } from "./link/link-manager.ts";
import type { MetricsReporter } from "./metrics/metrics-reporter.ts";

/** What operators may ask the running router about (docs/protocol/control.md, "Inspect"). */
export function inspectors(
  inspection: Inspection,
  o: { config: RouterConfig; links: LinkManager; forwarder: Forwarder; reporter: MetricsReporter },
): void {
  const { config, links, forwarder, reporter } = o;
  inspection.register("links", () => inspectLinks(links));
  inspection.register("config", () => redacted(config));
  inspection.register("metrics*", () => reporter.message(Date.now()));
  inspection.register("router-circuits", () => ({
    circuits: Object.fromEntries(forwarder.circuitIds().map((id) => [id, forwarder.inspectCircuit(id)])),
  }));
  const circuit = (name: string) => forwarder.inspectCircuit(name.slice(name.indexOf(":") + 1));
  inspection.register("circuit:*", circuit);
  inspection.register("circuitandstacks:*", circuit);
}
