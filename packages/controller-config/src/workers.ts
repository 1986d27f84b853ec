/** Several processes of one configuration on one machine: they share the address of the API, and each has the next port for what is its own. */
import { ConfigError, type ConfigProblem, formatPath, type Path, type Place } from "@sallyport/config-file";
import { formatHostPort, type HostPort } from "@sallyport/wire";
import type { ControllerConfig } from "./schema.ts";

/** The id of a process that has none in the file. */
const DEFAULT_ID = "controller";
const MAX_PORT = 65_535;
const MAX_ID_LENGTH = 63;

/** The configuration of one of the workers of `config`. @param worker from 1 to `config.replica.workers` */
export function workerConfig(config: ControllerConfig, worker: number): ControllerConfig {
  const { replica } = config;
  const { ctrl, advertised, metrics } = addressesOf(config, worker);
  return {
    ...config,
    replica: {
      ...replica,
      id: workerId(config, worker),
      ctrl: { bind: ctrl, advertise: advertised },
      metrics: { bind: metrics },
    },
  };
}

/** May routers find the control channel at the address of the API, too? */
export function sharesPort({ api, ctrl, replica }: ControllerConfig): boolean {
  return formatHostPort(replica.api.bind ?? api.bind) === formatHostPort(replica.ctrl.bind ?? ctrl.bind);
}

/** @throws ConfigError when the processes would not fit together */
export function checkWorkers(config: ControllerConfig, placeOf: (path: Path) => Place, file: string): void {
  const { replica, database, metrics } = config;
  const { workers } = replica;
  if (workers === 1) return;
  const problems: ConfigProblem[] = [];
  const problem = (path: Path, expected: string, found: string) =>
    problems.push({ path: formatPath(path), ...placeOf(path), expected, found });
  const count = ["replica", "workers"];
  if (database.dir !== undefined) {
    problem(count, "1, because the embedded database has one process (set database.url)", `${workers}`);
  }
  if (workerId(config, workers).length > MAX_ID_LENGTH) {
    const most = MAX_ID_LENGTH - `-${workers}`.length;
    problem(["replica", "id"], `at most ${most} characters, because each worker adds its number`, `${replica.id}`);
  }
  const metricsBind = replica.metrics.bind ?? metrics.bind;
  if (metrics.scrapeCertificate !== undefined && metricsBind === undefined) {
    const expected = "metrics.bind in its place, because each request to the address of the API reaches another worker";
    problem(["metrics", "scrapeCertificate"], expected, metrics.scrapeCertificate);
  }
  const taken = [{ at: replica.api.bind ?? config.api.bind, name: "the API" }];
  for (let worker = 1; worker <= workers; worker++) {
    const own = addressesOf(config, worker);
    if (Math.max(own.ctrl.port, own.advertised.port, own.metrics?.port ?? 0) > MAX_PORT) {
      problem(count, `ports up to ${MAX_PORT} for the addresses of all workers`, `a higher one for worker ${worker}`);
      break;
    }
    for (const [what, at] of [
      ["the control channel", own.ctrl],
      ["the metrics", own.metrics],
    ] as const) {
      if (at === undefined) continue;
      const name = `${what} of worker ${worker}`;
      const other = taken.find((earlier) => meets(earlier.at, at));
      if (other !== undefined) problem(count, "a port for each address", `${at.port} for ${other.name} and ${name}`);
      taken.push({ at, name });
    }
  }
  if (problems.length > 0) throw new ConfigError(file, problems);
}

/** Does one address take what comes to the other? */
function meets(one: HostPort, other: HostPort): boolean {
  const isAnywhere = ({ host }: HostPort) => ["", "0.0.0.0", "::"].includes(host);
  return one.port === other.port && (one.host === other.host || isAnywhere(one) || isAnywhere(other));
}

function workerId({ replica }: ControllerConfig, worker: number): string {
  return `${replica.id ?? DEFAULT_ID}-${worker}`;
}

function addressesOf(config: ControllerConfig, worker: number) {
  const { replica, ctrl, metrics } = config;
  const advertised = replica.ctrl.advertise ?? ctrl.advertise;
  const metricsBind = replica.metrics.bind ?? metrics.bind;
  // The first one's place is that of the API, which all share.
  const offset = sharesPort(config) ? worker : worker - 1;
  return {
    ctrl: later(replica.ctrl.bind ?? ctrl.bind, offset),
    advertised: later(advertised, offset),
    metrics: metricsBind && later(metricsBind, worker - 1),
  };
}

function later({ host, port }: HostPort, offset: number): HostPort {
  return { host, port: port + offset };
}
