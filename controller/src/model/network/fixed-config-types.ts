/**
 * The config types that every network has, because tunnelers look for them by name. Their ids are fixed, too.
 * What the keys mean is in docs/protocol/configs.md.
 */
import { hostV1, hostV2, interceptV1, tunnelerClientV1, tunnelerServerV1 } from "../../store/config-schemas.ts";

export interface FixedConfigType {
  readonly id: string;
  readonly name: string;
  readonly schema: Readonly<Record<string, unknown>>;
}

export const FIXED_CONFIG_TYPES: readonly FixedConfigType[] = [
  { id: "g7cIWbcGg", name: "intercept.v1", schema: interceptV1 },
  { id: "NH5p4FpGR", name: "host.v1", schema: hostV1 },
  { id: "host.v2", name: "host.v2", schema: hostV2 },
  { id: "f2dd2df0-9c04-4b84-a91e-71437ac229f1", name: "ziti-tunneler-client.v1", schema: tunnelerClientV1 },
  { id: "cea49285-6c07-42cf-9f52-09a9b115c783", name: "ziti-tunneler-server.v1", schema: tunnelerServerV1 },
];
