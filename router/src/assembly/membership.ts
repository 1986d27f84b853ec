import { dirname, join, resolve } from "node:path";
import type { RouterConfig } from "@sallyport/router-config";
import { formatAddress } from "@sallyport/wire";
import { missingNames } from "../config/certificate-names.ts";
import { noController, RouterStartError } from "../config/start-rules/rules.ts";
import type { Control } from "../control/control.ts";
import { ConfiguredAddresses } from "../control/controllers/configured-addresses.ts";
import { ControllerAddresses } from "../control/controllers/controller-addresses.ts";
import { type Controllers, firstController } from "../control/controllers/controllers.ts";
import { readEndpointsFile } from "../control/controllers/endpoints-file.ts";
import { CertificateRenewal } from "../control/renewal/certificate-renewal.ts";
import { Quiesce } from "../lifecycle/quiesce.ts";
import type { Assembly } from "./context.ts";

/** The file that remembers the controllers' addresses. */
export function endpointsFileOf(config: RouterConfig, configFile: string, baseDir: string): string {
  const { endpointsFile } = config.ctrl;
  return endpointsFile === undefined
    ? join(dirname(resolve(baseDir, configFile)), "endpoints.yml")
    : resolve(baseDir, endpointsFile);
}

/**
 * The controllers to dial first: those of the endpoints file, else those of the configuration.
 * @throws RouterStartError when there is none
 */
export async function endpointsOf(o: Pick<Assembly, "config" | "configFile" | "baseDir" | "log">) {
  const { config, configFile, baseDir, log } = o;
  const endpointsFile = endpointsFileOf(config, configFile, baseDir);
  const saved = await readEndpointsFile(endpointsFile, log);
  const endpoints = saved.length > 0 ? saved : config.ctrl.endpoints;
  if (endpoints.length === 0) throw new RouterStartError([noController(endpointsFile)]);
  const fields = { endpoints: endpoints.map(formatAddress), from: saved.length > 0 ? endpointsFile : "ctrl" };
  log.info(fields, "dialling controllers");
  return { endpoints, endpointsFile };
}

/**
 * Joins the network: dials the controllers, follows their addresses, keeps the certificates valid. It starts last: clients
 * that learn of this router must be able to reach it.
 *
 * @returns `online` resolves when the first controller is connected, and rejects after `ctrl.startupTimeout`
 * @throws RouterStartError when no controller is known
 */
export async function joinNetwork(
  context: Assembly,
  o: { controllers: Controllers; control: Control; extend: boolean },
): Promise<{ online: Promise<void>; renewal: CertificateRenewal }> {
  const { config, identity, log, stops } = context;
  const { controllers, control } = o;
  const { endpoints, endpointsFile } = await endpointsOf(context);
  const addresses = new ControllerAddresses({ controllers, endpointsFile, endpoints, log });
  control.onModelRestarted(() => addresses.forgetIndex());
  const configured = config.ctrl.endpoints;
  const wayBack = new ConfiguredAddresses({ controllers, configured, announced: () => addresses.announced, log });
  stops.push(() => wayBack.close());
  const missing = missingNames(config.csr, identity.current);
  if (missing.length > 0) log.info({ missing }, "the certificate lacks names of csr.sans: it will be renewed");
  const renewal = certificateRenewal(context, controllers, o.extend || missing.length > 0);
  stops.push(() => renewal.close());
  identity.onChange(() => renewal.rearm());
  const waiting = new AbortController();
  stops.push(() => waiting.abort());
  const online = firstController(controllers, config.ctrl.startupTimeout, waiting.signal);
  online.then(
    () => renewal.start(),
    () => {},
  );
  stops.push(() => controllers.stop());
  controllers.setEndpoints(endpoints);
  return { online, renewal };
}

/** Renews the files of the router's identity. */
export function certificateRenewal(
  { config, identity, log }: Assembly,
  controllers: Controllers,
  extendNow = false,
): CertificateRenewal {
  return new CertificateRenewal({
    controllers,
    identity: () => identity.current,
    csr: config.csr,
    files: identity.files,
    reload: () => identity.reload(),
    log,
    extendNow,
  });
}

/** How the controllers are told to avoid this router; what the last stop told them is taken back at the first connection. */
export function quiescing({ config, configFile, baseDir, routerId, log }: Assembly, controllers: Controllers): Quiesce {
  const marker = `${endpointsFileOf(config, configFile, baseDir)}.${routerId}.quiesced`;
  const quiesce = new Quiesce({ controllers, marker, log });
  controllers.onConnected(() => void quiesce.end());
  return quiesce;
}
