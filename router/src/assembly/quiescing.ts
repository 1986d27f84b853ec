import type { Controllers } from "../control/controllers/controllers.ts";
import { Quiesce } from "../lifecycle/quiesce.ts";
import type { Assembly } from "./context.ts";
import { endpointsFileOf } from "./membership.ts";

/** How the controllers are told to avoid this router; what the last stop told them is taken back at the first connection. */
export function quiescing({ config, configFile, baseDir, routerId, log }: Assembly, controllers: Controllers): Quiesce {
  const marker = `${endpointsFileOf(config, configFile, baseDir)}.${routerId}.quiesced`;
  const quiesce = new Quiesce({ controllers, marker, log });
  controllers.onConnected(() => void quiesce.end());
  return quiesce;
}
