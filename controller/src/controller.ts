import { dirname, resolve } from "node:path";
import { type ConfigRead, type ControllerConfig, sharesPort, workerConfig } from "@sallyport/controller-config";
import {
  fingerprint,
  formatHostPort,
  HandshakeTurns,
  type Logger,
  parseVersionInfo,
  TlsPort,
  versionInfo,
} from "@sallyport/wire";
import { createApi } from "./api/api.ts";
import { startTokens } from "./auth/tokens/tokens.ts";
import { CertificateUpkeep } from "./certificates/certificate-upkeep.ts";
import { requireNetworkKeys } from "./certificates/network-keys.ts";
import { OperatorCertificates } from "./certificates/operator-certificates.ts";
import { removeReplicaKeys } from "./certificates/replica-keys.ts";
import { trustPage } from "./certificates/trust-page.ts";
import { listening } from "./config/listening.ts";
import {
  authSettings,
  fabricOptions,
  lifetimes,
  listenSettings,
  modelSettings,
  networkHosts,
  ownAddresses,
  ownReplica,
  scrapeCertificate,
  secretKeyFile,
  serverCertificateFiles,
  storeLocation,
} from "./config/settings.ts";
import { Events } from "./events/events.ts";
import { circuitTraces } from "./fabric/circuits/circuit-traces.ts";
import { rememberedDials } from "./fabric/circuits/remembered-dials.ts";
import { Fabric } from "./fabric/fabric.ts";
import { HealthChecks, healthPages } from "./health/health-checks.ts";
import { isAnyMember } from "./health/other-members.ts";
import { Readiness, readinessPages } from "./health/readiness.ts";
import { newRequestId } from "./http/answer.ts";
import { HTTP_USER, startHttp } from "./http/server.ts";
import { Management } from "./management/management.ts";
import { ControllerMetrics } from "./metrics/metrics.ts";
import { metricsPage, startMetricsListener } from "./metrics/serve-metrics.ts";
import { measureController } from "./metrics/sources.ts";
import { createFabricModel } from "./model/fabric/fabric-model.ts";
import { fabricReplicas } from "./model/fabric/fabric-replicas.ts";
import { policyInMemory } from "./model/integrity/policy-in-memory.ts";
import { createModel } from "./model/model.ts";
import { boundedPki } from "./model/pki-port.ts";
import { soleReplica } from "./model/replica/replica-set.ts";
import { SharedReplicas } from "./model/replica/shared-replicas.ts";
import { seed } from "./model/seeds.ts";
import { databaseFailure } from "./model/store-errors.ts";
import { summarize } from "./model/summary.ts";
import { startUpkeep } from "./model/upkeep.ts";
import { createPages } from "./oidc/pages/login-pages.ts";
import { createProvider } from "./oidc/provider.ts";
import { controllerIdOf } from "./pki/material.ts";
import { Pki } from "./pki/pki.ts";
import { CircuitReportCalls } from "./replicas/circuit-report-calls.ts";
import { NetworkEvents } from "./replicas/network-events.ts";
import { NetworkMemory } from "./replicas/network-memory.ts";
import { ReplicaCalls } from "./replicas/replica-calls.ts";
import { WholeNetwork } from "./replicas/whole-network.ts";
import { openStore } from "./store/database.ts";
import { networkInstanceId } from "./store/instance-id.ts";
import type { DatabaseHeldError } from "./store/postgres/holder-lock.ts";
import { withinRequest } from "./store/request-signal.ts";
import { KeyVault, loadSecrets } from "./store/secrets.ts";

const MAX_FINDINGS = 100;
/** Of the failed dials, the newest. */
const MAX_SHOWN_DIALS = 100;

export interface ControllerOptions {
  /** What the file says. */
  readonly config: ControllerConfig;
  /** Which of the workers of the configuration this process is; undefined: it is the only one. */
  readonly worker?: number | undefined;
  /** The configuration file: relative paths in it start from its folder. */
  readonly file: string;
  readonly placeOf: ConfigRead["placeOf"];
  readonly env: NodeJS.ProcessEnv;
  readonly productVersion: string;
  readonly onLost: (error: DatabaseHeldError) => void;
  readonly log: Logger;
}

export interface Controller {
  readonly id: string;
  readonly apiPort: number;
  readonly ctrlPort: number;
  /** Checks certificates and keys now: renews what is due, and applies what another process has changed. */
  reload(): Promise<void>;
  /** Serves on, and says that no more requests should come. */
  drain(): void;
  /** Stops everything, last started first. */
  stop(): Promise<void>;
}

/** Starts every part of a controller in order. When one fails, those before it are stopped, and its error is thrown. */
export async function startController(options: ControllerOptions): Promise<Controller> {
  const { worker, file, placeOf, env, log } = options;
  const config = worker === undefined ? options.config : workerConfig(options.config, worker);
  const stops: { name: string; stop: () => Promise<unknown> | unknown }[] = [];
  const stop = async () => {
    for (const part of stops.splice(0).reverse()) {
      try {
        await part.stop();
      } catch (error) {
        log.error({ part: part.name, error }, "a part of the controller did not stop cleanly");
      }
    }
  };
  try {
    // Until the database has told its time.
    let time = () => Date.now();
    const now = () => new Date(time());
    let scraper = await scrapeCertificate(config, file, placeOf);
    const operatorCertificates = await OperatorCertificates.load({
      files: serverCertificateFiles(config, file),
      apiHost: config.api.advertise.host,
      ...{ configFile: file, placeOf, now, log },
    });
    const secrets = await loadSecrets(secretKeyFile(config, file), env);
    const metrics = new ControllerMetrics();
    const location = storeLocation(config, file, placeOf);
    const { id: replicaId } = config.replica;
    const store = await openStore({
      ...location,
      // The embedded database has one process.
      ...(replicaId !== undefined &&
        location.embedded === undefined && { replica: { id: replicaId, version: options.productVersion } }),
      onLost: options.onLost,
      onQuery: (seconds, isOk) => metrics.queried(seconds, isOk),
      changeLogSeconds: config.upkeep.changeLog / 1_000,
      log,
    });
    stops.push({ name: "store", stop: () => store.close() });
    time = () => store.clock.now();
    const vault = new KeyVault(store.db, secrets);
    const networkKeys = await requireNetworkKeys(vault);
    const networkId = controllerIdOf(networkKeys);
    const replica = ownReplica(config, networkId);
    const pki = new Pki(networkKeys, {
      lifetimes: lifetimes(config),
      sharedHosts: config.edge.enrollment.sharedHosts,
      ...{ replica, now },
    });
    const certificates = new CertificateUpkeep({
      ...{ pki, store, secrets, replica, now, log },
      lifetimes: lifetimes(config),
      hosts: networkHosts(config, networkId),
    });
    certificates.serveApiWith(operatorCertificates.forPki);
    await certificates.renew();
    for (const name of await seed(store)) {
      log.warn(
        { configType: name },
        "an own config type has the name of one that every network has: it is used as it is",
      );
    }
    const events = new Events({
      controllerId: pki.controllerId,
      config: config.events,
      folder: dirname(resolve(file)),
      now: time,
      log,
    });
    stops.push({ name: "events", stop: () => events.close() });
    const settings = modelSettings(config, file);
    const { apiAddress } = settings;
    const tokens = await startTokens({ store, pki, secrets, lives: settings.oidc, apiAddress, now, log });
    stops.push({ name: "tokens", stop: () => tokens.close() });
    const version = parseVersionInfo(versionInfo());
    const own = ownRecord(config, pki, version.version, now());
    const several = store.replica.isShared
      ? await SharedReplicas.start({ store, own, forget: removeReplicaKeys, log })
      : undefined;
    if (several !== undefined) stops.push({ name: "replicas", stop: () => several.close() });
    const replicas = several ?? soleReplica(own);
    const ctx = {
      ...{ store, secrets, tokens, settings, replicas, now, log },
      liveReplicas: () => replicas.replicas().filter(({ isLive }) => isLive).length,
      pki: boundedPki(pki),
      events: events.dispatcher,
    };
    const model = createModel(ctx);
    const upkeep = startUpkeep(ctx, model, (what, count) => metrics.swept(what, count));
    stops.push({ name: "upkeep", stop: () => upkeep.stop() });

    // Everything that takes the database is asked for before the ports are open: until HTTP is served, connections are closed.
    const instanceId = await networkInstanceId(store.db, newRequestId());
    const identity = pki.serverIdentity;
    const serve = () => {
      const { serverIdentity, apiIdentity } = pki;
      for (const port of new Set([apiPort, ctrlPort])) port.setIdentity(serverIdentity);
      // Routers may share the port: they still get this process's own certificate.
      if (operatorCertificates.isUsed || apiIdentity !== serverIdentity) {
        apiPort.setUserIdentity(HTTP_USER, operatorCertificates.identityBeside(apiIdentity));
      }
    };
    const turns = new HandshakeTurns();
    const binds = listenSettings(options.config, worker);
    const listen = (name: "api" | "ctrl", reusePort = false) =>
      listening(binds[name], file, () => TlsPort.listen({ ...binds[name].at, reusePort, identity, turns, log }));
    const shared = sharesPort(options.config);
    const apiPort = await listen("api", worker !== undefined);
    stops.push({ name: "api port", stop: () => apiPort.close() });
    const hasOne = shared && worker === undefined;
    const ctrlPort = hasOne ? apiPort : await listen("ctrl");
    if (!hasOne) stops.push({ name: "ctrl port", stop: () => ctrlPort.close() });
    serve();

    const fabricModel = createFabricModel(ctx, model);
    stops.push({ name: "fabric model", stop: () => fabricModel.close() });
    const calls = new ReplicaCalls({
      ...{
        ownId: pki.controllerId,
        ports: worker === undefined ? [...new Set([ctrlPort, apiPort])] : [ctrlPort],
        directory: replicas,
        log,
      },
      identity: () => pki.serverIdentity,
    });
    stops.push({ name: "calls of replicas", stop: () => calls.close() });
    const otherControllers = fabricReplicas({
      ...{ store, controllerId: pki.controllerId, log },
      calls: new CircuitReportCalls(calls),
    });
    stops.push({ name: "other controllers", stop: () => otherControllers.close() });
    const traceOf = (identityId: string) => model.traces.of(identityId);
    const fabric = new Fabric({
      // Routers that know only the shared address find one of the workers there, and learn of the others from it.
      ports: shared && !hasOne ? [ctrlPort, apiPort] : [ctrlPort],
      controllerId: pki.controllerId,
      controllers: replicas,
      trustAnchors: () => pki.trustAnchors,
      model: fabricModel,
      replicas: otherControllers,
      options: { ...fabricOptions(config), now: time },
      traceOf,
      inspections: { "failed-dials": () => ({ dials: model.failedDials.newest(MAX_SHOWN_DIALS) }) },
      log,
    });
    stops.push({ name: "fabric", stop: () => fabric.close() });
    fabric.onEvent(circuitTraces(traceOf, log));
    fabric.onEvent(rememberedDials(model.failedDials));
    events.connect({
      ...{ db: store.db, changes: store.changes, replica: store.replica, fabric },
      counts: () => summarize(store.db),
    });
    const network = new WholeNetwork(fabric, calls);
    const memory = new NetworkMemory(model, calls);
    const { handlers, authenticate, authentication } = createApi({
      ...{ ctx, model, fabric, network, memory },
      info: { version, runtimeVersion: process.version, apiAddress: ctx.settings.apiAddress },
      auth: await authSettings(config, file, placeOf),
      onSessionRead: () => metrics.sessionRowRead(),
    });
    const management = new Management({
      controllerId: pki.controllerId,
      db: store.db,
      changes: store.changes,
      ...{ fabric, network, replicas },
      model: fabricModel,
      dispatcher: events.dispatcher,
      ...(store.replica.isShared && { events: new NetworkEvents(calls, events.dispatcher, log) }),
      snapshot: () => model.snapshots.create(),
      dataModelProblems: async () => {
        const findings = await policyInMemory(model.policy).find(store.db, MAX_FINDINGS);
        return findings.map((finding) => finding.description);
      },
      log,
    });
    const readiness = new Readiness({
      replica: store.replica,
      isOtherMember: () =>
        isAnyMember({
          others: replicas.replicas().filter(({ id }) => id !== pki.controllerId),
          networkFingerprint: fingerprint(pki.networkCertificate),
        }),
    });
    const http = await startHttp({
      port: apiPort,
      instanceId,
      handlers,
      upgrades: [management],
      authenticate,
      log,
      productVersion: options.productVersion,
      translate: databaseFailure,
      within: (request, work) => withinRequest(request, work, () => store.replica.known()),
      allowedOrigins: config.api.web.allowedOrigins,
      endpoints: ctx.settings.oidc.enabled
        ? createProvider({
            ...{ authentication, model },
            tokens: ctx.tokens,
            settings: ctx.settings.oidc,
            rates: config.auth.rateLimits,
            allowedOrigins: config.api.web.allowedOrigins,
            servedHosts: () => [
              ...networkHosts(config, networkId),
              ...pki.replicaHosts,
              ...operatorCertificates.current.flatMap(({ names }) => names),
            ],
            pages: createPages(ctx.settings.apiAddress),
            ...{ now: ctx.now, liveReplicas: ctx.liveReplicas, log },
          })
        : [],
      pages: [
        ...healthPages(new HealthChecks({ db: store.db, outage: store.outage, now })),
        ...readinessPages(readiness),
        trustPage(secrets, () => pki.clientBundlePem),
        metricsPage(metrics, ([leaf]) => scraper !== undefined && leaf?.raw.equals(scraper.raw) === true),
      ],
      onAnswered: (answer) => metrics.answered(answer),
    });
    stops.push({ name: "http", stop: () => http.close() });
    const unmeasure = measureController({
      metrics,
      store,
      model,
      fabric,
      http,
      productVersion: options.productVersion,
    });
    stops.push({ name: "metrics", stop: unmeasure });
    const usage = "Bytes of circuits, as routers reported them since the start";
    metrics.gauge("sallyport_usage_bytes", usage, () => events.usage.byCounter(), "counter");
    const { metrics: metricsBind } = binds;
    if (metricsBind) {
      const listener = await listening(metricsBind, file, () =>
        startMetricsListener({ ...metricsBind.at, metrics, log }),
      );
      stops.push({ name: "metrics listener", stop: () => listener.close() });
    }
    stops.push({ name: "management", stop: () => management.close() });

    certificates.start(model.enrollments, serve);
    stops.push({ name: "certificates", stop: () => certificates.stop() });
    operatorCertificates.watch(() => certificates.serveApiWith(operatorCertificates.forPki));
    stops.push({ name: "certificates of the operator", stop: () => operatorCertificates.stop() });
    const reload = async () => {
      await operatorCertificates.reload();
      scraper = await scrapeCertificate(config, file, placeOf);
      await certificates.check();
    };
    const drain = () => {
      readiness.stopping();
      http.drain();
    };
    const [api, ctrl] = Object.values(ownAddresses(config)).map(formatHostPort);
    const { controllerId: id } = pki;
    const ports = { apiPort: apiPort.port, ctrlPort: ctrlPort.port };
    log.info({ id, api, ctrl, ...ports }, "controller ready");
    return { id, ...ports, reload, drain, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** This process as the others are told of it. Its certificate may be renewed. */
function ownRecord(config: ControllerConfig, pki: Pki, version: string, startedAt: Date) {
  const { api, ctrl } = ownAddresses(config);
  const apiAddress = formatHostPort(api);
  const ctrlAddress = `tls:${formatHostPort(ctrl)}`;
  const { controllerId: id } = pki;
  return () => {
    const certificate = pki.certificateOf(id) ?? pki.networkCertificate;
    return { id, apiAddress, ctrlAddress, fingerprint: fingerprint(certificate), version, startedAt };
  };
}
