import type { X509Certificate } from "node:crypto";
import type { Page } from "../http/pages.ts";
import type { Metrics } from "./metrics.ts";

/** Whether whoever presented these certificates may see the figures. */
export type Scraper = (certificates: readonly X509Certificate[]) => boolean;

/** `/metrics` beside the APIs: for the one certificate that is allowed, and not there for anybody else. */
export function metricsPage(metrics: Metrics, isAllowed: Scraper): Page {
  return {
    path: "/metrics",
    async handle({ peerCertificates }) {
      if (!isAllowed(peerCertificates)) return undefined;
      return { status: 200, contentType: metrics.registry.contentType, body: await metrics.registry.metrics() };
    },
  };
}
