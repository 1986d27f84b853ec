import { BUILD_INFO, buildInfoLabels } from "@sallyport/program/build-info";
import { type Identity, versionInfo } from "@sallyport/wire";
import { RouterIdentity } from "../config/router-identity.ts";
import type { Controllers } from "../control/controllers/controllers.ts";
import { controllerPing, HealthCheck, linkHealth, RouterHealth } from "../health/health.ts";
import type { Readiness } from "../health/readiness.ts";
import { type WebAnswer, type WebApi, WebServer } from "../health/web-server.ts";
import type { LinkManager } from "../link/link-manager.ts";
import { type InfoMetric, PREFIX, prometheusText } from "../metrics/prometheus.ts";
import type { MetricsSource } from "../metrics/router-metrics.ts";
import type { Assembly } from "./context.ts";

const LINK_CHECK_MS = 5_000;

/** The health checks. They run even when no client asks for them. */
export function health({ config, stops }: Assembly, o: { controllers: Controllers; links: LinkManager }): RouterHealth {
  const { ctrlPingCheck, linkCheck } = config.healthChecks;
  const checks = new RouterHealth([
    new HealthCheck({
      id: "controllerPing",
      look: controllerPing(o.controllers),
      initialDelayMs: ctrlPingCheck.initialDelay,
      intervalMs: ctrlPingCheck.interval,
      timeoutMs: ctrlPingCheck.timeout,
      initiallyPassing: false,
    }),
    new HealthCheck({
      id: "link.health",
      look: linkHealth(() => o.links.links(), linkCheck.minLinks),
      initialDelayMs: linkCheck.initialDelay,
      intervalMs: linkCheck.interval,
      timeoutMs: LINK_CHECK_MS,
      initiallyPassing: linkCheck.minLinks === 0,
    }),
  ]);
  stops.push(() => checks.stop());
  return checks;
}

/** The HTTP servers of `web`. @throws IdentityError, or what listening throws */
export async function web(
  context: Assembly,
  o: { health: RouterHealth; readiness: Readiness; metrics: MetricsSource; version: string },
): Promise<void> {
  const { config, routerId, ports, log, stops } = context;
  const info: InfoMetric[] = [
    { name: `${PREFIX}info`, labels: { router: routerId, version: versionInfo().split("|")[0] ?? "" } },
    { name: BUILD_INFO.name, labels: buildInfoLabels("router", o.version) },
  ];
  const apis: Readonly<Record<string, WebApi>> = {
    "health-checks": {
      binding: "health-checks",
      answer: (url) => {
        // For probes: an answer alone shows that the process works.
        if (url.pathname === "/health-checks/live") return probe("live", true);
        if (url.pathname === "/health-checks/ready") return probe("ready", o.readiness.isReady);
        return {
          status: o.health.isHealthy ? 200 : 503,
          contentType: "application/json",
          body: o.health.document(url.searchParams.get("type") === "short"),
        };
      },
    },
    metrics: {
      binding: "metrics",
      answer: () => ({
        status: 200,
        contentType: "text/plain; version=0.0.4; charset=utf-8",
        body: prometheusText(o.metrics, info),
      }),
    },
  };
  for (const [i, entry] of config.web.entries()) {
    const { options } = entry;
    const server = new WebServer({
      name: entry.name,
      // The first one answers paths that belong to none; that is `health-checks` where the server has it.
      apis: entry.apis
        .flatMap(({ binding }) => apis[binding] ?? [])
        .sort((a, b) => Number(b === apis["health-checks"]) - Number(a === apis["health-checks"])),
      readTimeoutMs: options.readTimeout,
      writeTimeoutMs: options.writeTimeout,
      idleTimeoutMs: options.idleTimeout,
      log,
    });
    stops.push(() => server.close());
    const identity = entry.identity === undefined ? context.identity : await ownIdentity(context, entry.identity);
    // Nothing older than TLS 1.2 is spoken, whatever the file allows.
    const version = (text: string) => (text === "TLS1.3" ? "TLSv1.3" : "TLSv1.2");
    const versions = {
      minVersion: version(options.minTLSVersion),
      maxVersion: version(options.maxTLSVersion),
    } as const;
    for (const [n, bindPoint] of entry.bindPoints.entries()) {
      const port = await ports.at({ protocol: "tls", ...bindPoint.interface });
      const user = `web[${i}].bindPoints[${n}]`;
      const use = (current: Identity): void => port.setUserIdentity(user, current, versions);
      use(identity.current);
      identity.onChange(use);
      server.serve({ port, user, newAddress: bindPoint.newAddress });
      const address = `${bindPoint.interface.host}:${bindPoint.interface.port}`;
      log.info({ server: entry.name, address, apis: entry.apis.map(({ binding }) => binding) }, "web server listening");
    }
  }
}

const probe = (name: string, passes: boolean): WebAnswer => ({
  status: passes ? 200 : 503,
  contentType: "application/json",
  body: `${JSON.stringify({ [name]: passes })}\n`,
});

async function ownIdentity({ baseDir, log, stops }: Assembly, config: Parameters<typeof RouterIdentity.load>[0]) {
  const identity = await RouterIdentity.load(config, baseDir, log);
  stops.push(identity.watch());
  return identity;
}
