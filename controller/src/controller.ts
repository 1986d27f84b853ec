import { dirname, resolve } from "node:path";
import { type ControllerConfig, formatHostPort } from "@sallyport/controller-config";
import { type Logger, parseVersionInfo, TlsPort, versionInfo } from "@sallyport/wire";
import { createApi } from "./api/api.ts";
import { summarize } from "./api/summary.ts";
import { loadNetworkKeys, saveNetworkKeys } from "./config/network-keys.ts";
import {
  authSettings,
  fabricOptions,
  hostsOf,
  lifetimes,
  modelSettings,
  secretKeyFile,
  storeLocation,
} from "./config/settings.ts";
import { Events } from "./events/events.ts";
import { startFabric } from "./fabric/fabric.ts";
import { startHttp } from "./http/server.ts";
import { Management } from "./management/management.ts";
import { createFabricModel } from "./model/fabric/fabric-model.ts";
import { policyInMemory } from "./model/integrity/policy-in-memory.ts";
import { createModel } from "./model/model.ts";
import { seed } from "./model/seeds.ts";
import { databaseFailure } from "./model/store-errors.ts";
import { startUpkeep } from "./model/upkeep.ts";
import { PkiError } from "./pki/errors.ts";
import { Pki } from "./pki/pki.ts";
import { openStore } from "./store/database.ts";
import { KeyVault } from "./store/key-vault.ts";
import type { DatabaseHeldError } from "./store/postgres/holder-lock.ts";
import { withinRequest } from "./store/request-signal.ts";
import { loadSecrets } from "./store/secrets.ts";

const RENEWAL_CHECK_MS = 3_600_000;
const MOST_FINDINGS = 100;

export interface ControllerOptions {
  readonly config: ControllerConfig;
  /** The configuration file: relative paths in it start from its folder. */
  readonly file: string;
  readonly env: NodeJS.ProcessEnv;
  readonly productVersion: string;
  readonly onLost: (error: DatabaseHeldError) => void;
  readonly log: Logger;
}

export interface Controller {
  readonly apiPort: number;
  readonly ctrlPort: number;
  /** Stops everything, last started first. */
  stop(): Promise<void>;
}

/** Starts every part of a controller in order. When one fails, those before it are stopped, and its error is thrown. */
export async function startController(options: ControllerOptions): Promise<Controller> {
  const { config, file, env, log } = options;
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
    const secrets = await loadSecrets(secretKeyFile(config, file), env);
    const store = await openStore({ ...storeLocation(config, file), onLost: options.onLost, log });
    stops.push({ name: "store", stop: () => store.close() });
    const vault = new KeyVault(store.db, secrets);
    const material = await loadNetworkKeys(vault);
    if (!material) throw new PkiError("the database holds no network yet: run sallyport-controller init first");
    const pki = new Pki(material, { lifetimes: lifetimes(config) });
    const hosts = hostsOf(config);
    await renew(pki, hosts, vault, log);
    await seed(store);
    const events = new Events({
      controllerId: pki.controllerId,
      config: config.events,
      folder: dirname(resolve(file)),
      log,
    });
    stops.push({ name: "events", stop: () => events.close() });
    const ctx = {
      store,
      pki,
      secrets,
      settings: modelSettings(config, file),
      now: () => new Date(),
      events: events.dispatcher,
      log,
    };
    const model = createModel(ctx);
    const upkeep = startUpkeep(ctx, model);
    stops.push({ name: "upkeep", stop: () => upkeep.stop() });

    const identity = pki.serverIdentity;
    const listen = (name: "api" | "ctrl") => TlsPort.listen({ ...config[name].bind, identity, log });
    const shared = formatHostPort(config.api.bind) === formatHostPort(config.ctrl.bind);
    const apiPort = await listen("api");
    stops.push({ name: "api port", stop: () => apiPort.close() });
    const ctrlPort = shared ? apiPort : await listen("ctrl");
    if (!shared) stops.push({ name: "ctrl port", stop: () => ctrlPort.close() });

    const fabricModel = createFabricModel(ctx, model);
    stops.push({ name: "fabric model", stop: () => fabricModel.close() });
    const fabric = startFabric({
      port: ctrlPort,
      controllerId: pki.controllerId,
      trustAnchors: () => pki.trustAnchors,
      model: fabricModel,
      options: fabricOptions(config),
      log,
    });
    stops.push({ name: "fabric", stop: () => fabric.close() });
    events.connect({ db: store.db, changes: store.changes, fabric, counts: () => summarize(store.db) });
    const info = {
      version: parseVersionInfo(versionInfo()),
      runtimeVersion: process.version,
      apiAddress: ctx.settings.apiAddress,
    };
    const { handlers, authenticate } = createApi({ ctx, model, fabric, info, auth: await authSettings(config, file) });
    const management = new Management({
      controllerId: pki.controllerId,
      db: store.db,
      fabric,
      model: fabricModel,
      dispatcher: events.dispatcher,
      snapshot: () => model.snapshots.create(),
      dataModelProblems: async () => {
        const findings = await policyInMemory(model.policy).find(store.db, MOST_FINDINGS);
        return findings.map((finding) => finding.description);
      },
      log,
    });
    const http = await startHttp({
      port: apiPort,
      handlers,
      upgrades: [management],
      authenticate,
      log,
      productVersion: options.productVersion,
      translate: databaseFailure,
      within: withinRequest,
    });
    stops.push({ name: "http", stop: () => http.close() });
    stops.push({ name: "management", stop: () => management.close() });

    const renewal = setInterval(async () => {
      try {
        if (!(await renew(pki, hosts, vault, log))) return;
        for (const port of new Set([apiPort, ctrlPort])) port.setIdentity(pki.serverIdentity);
      } catch (error) {
        log.error({ error }, "the controller's certificates could not be renewed; trying again in an hour");
      }
    }, RENEWAL_CHECK_MS).unref();
    stops.push({ name: "certificate renewal", stop: () => clearInterval(renewal) });
    log.info(
      {
        id: pki.controllerId,
        api: formatHostPort(config.api.advertise),
        ctrl: formatHostPort(config.ctrl.advertise),
        apiPort: apiPort.port,
        ctrlPort: ctrlPort.port,
      },
      "controller ready",
    );
    return { apiPort: apiPort.port, ctrlPort: ctrlPort.port, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function renew(pki: Pki, hosts: readonly string[], vault: KeyVault, log: Logger): Promise<boolean> {
  const renewed = await pki.renew(hosts);
  if (!renewed) return false;
  await saveNetworkKeys(vault, renewed);
  log.info({ hosts, until: pki.serverIdentity.leaf.validTo }, "the controller's certificates were renewed");
  return true;
}
